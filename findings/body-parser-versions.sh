#!/bin/bash
# body-parser 2.4.0 and 1.20.3, which is that of Express 4.21.2 and of Sails 1.5.18, do not recognize each other's work: after
# `raw()` of version 2 on a route, `express.json()` of Express 4 answers 500, and Sails 400, "stream is not readable", to each
# request of this route. Two parsers of version 1 skip a body that was read, and so does version 2 after version 1. Hurt:
# receivers of webhooks in Express 4 or Sails that add `npm install body-parser`, or `express` 5 for its `express.raw`, to get
# the raw body for the signature: each event fails before it reaches the route.
# Usage: findings/body-parser-versions.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund express@4.21.2 express5@npm:express@5.3.0 sails@1.5.18 parser1@npm:body-parser@1.20.3 \
  parser2@npm:body-parser@2.4.0
cat > receiver.cjs <<'NODE'
const express4 = require("express");
const express5 = require("express5");

const post = async (port) => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${port}/hook`, { method: "POST", headers, body: '{"n":1.50}' });
  return `${response.status} ${(await response.text()).includes("stream is not readable") ? "stream is not readable" : ""}`.trim();
};

const express = async (express, raw) => {
  const app = express();
  app.use("/hook", raw({ type: "application/json" }));
  app.use(express.json());
  app.post("/hook", (request, response) => response.status(Buffer.isBuffer(request.body) ? 204 : 500).end());
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const found = await post(server.address().port);
  server.close();
  return found;
};

const sails = async (raw) => {
  const app = new (require("sails").constructor)();
  await new Promise((resolve, reject) => app.lift({
    appPath: __dirname, environment: "development", port: 0, explicitHost: "127.0.0.1", hooks: { grunt: false, session: false },
    log: { level: "silent" },
    http: { middleware: { order: ["raw", "bodyParser", "router"], raw: raw({ type: "application/json" }) } },
    routes: { "POST /hook": (request, response) => response.status(Buffer.isBuffer(request.body) ? 204 : 500).end() },
  }, (error) => (error ? reject(error) : resolve())));
  const found = await post(app.hooks.http.server.address().port);
  await new Promise((resolve) => app.lower(resolve));
  return found;
};

(async () => {
  console.error = () => {};
  const { raw: raw1 } = require("parser1");
  const { raw: raw2 } = require("parser2");
  const seen = {
    "Express 4, raw() of 1": await express(express4, raw1),
    "Express 4, raw() of 2": await express(express4, raw2),
    "Express 5, raw() of 1": await express(express5, raw1),
    "Express 5, raw() of 2": await express(express5, raw2),
    "Sails, raw() of 1": await sails(raw1),
    "Sails, raw() of 2": await sails(raw2),
  };
  for (const [name, found] of Object.entries(seen)) console.log(`${name}: ${found}`);
  const expected = ["204", "500 stream is not readable", "204", "204", "204", "400 stream is not readable"];
  process.exit(Object.values(seen).join() === expected.join() ? 0 : 1);
})();
NODE
node receiver.cjs
