#!/bin/bash
# apicache 1.6.3 and route-cache 0.7.1, caches for Express, store the responses to POST requests under the path alone: the
# second event to a URL gets the stored 200, and the receiver does not run. apicache also stores a 401 with a body, so one
# request with a wrong signature makes it refuse all events until the time has passed. Responses without a body, such as
# 204, are not stored. Hurt: receivers of webhooks in an application that caches all its routes with `app.use`: the sender
# counts events as delivered that the receiver has never seen.
# Usage: findings/cached-posts.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund express@5.3.0 apicache@1.6.3 route-cache@0.7.1
cat > receiver.cjs <<'NODE'
const apicache = require("apicache");
const express = require("express");
const { cacheSeconds } = require("route-cache");

const seen = async (cache) => {
  const app = express();
  let runs = 0;
  app.use(cache);
  app.use(express.text({ type: "application/json" }));
  app.post("/ok", (request, response) => (runs++, response.json({ ok: true })));
  app.post("/empty", (request, response) => (runs++, response.status(204).end()));
  app.post("/checked", (request, response) => {
    runs++;
    if (request.get("webhook-signature") !== "right") return response.status(401).json({ error: "signature" });
    response.status(204).end();
  });
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const post = async (path, number, signature) => {
    const headers = { "content-type": "application/json", "webhook-id": `msg_${number}`, "webhook-signature": signature };
    const url = `http://127.0.0.1:${server.address().port}${path}`;
    return (await fetch(url, { method: "POST", headers, body: `{"n":${number}}` })).status;
  };
  const found = [];
  for (const [path, signatures] of [["/ok", ["right", "right"]], ["/empty", ["right", "right"]], ["/checked", ["wrong", "right"]]]) {
    runs = 0;
    const statuses = [await post(path, 1, signatures[0]), await post(path, 2, signatures[1])];
    found.push(`${path}: ${statuses.join(", ")}, ${runs} run${runs === 1 ? "" : "s"}`);
  }
  server.close();
  return found.join("; ");
};

(async () => {
  const found = [await seen(apicache.middleware("5 minutes")), await seen(cacheSeconds(300))];
  console.log(`apicache, two events each: ${found[0]}\nroute-cache: ${found[1]}`);
  const expected = [
    "/ok: 200, 200, 1 run; /empty: 204, 204, 2 runs; /checked: 401, 401, 1 run",
    "/ok: 200, 200, 1 run; /empty: 204, 204, 2 runs; /checked: 401, 204, 2 runs",
  ];
  process.exit(found.join() === expected.join() ? 0 : 1);
})();
NODE
node receiver.cjs
