#!/bin/bash
# undici 7.30.2's RetryAgent cannot repeat a request of its `fetch` that has a body, also a string: after a 503 with `Retry-After`,
# it waits, and then fails with "fetch failed", because the body was a stream that it has read, and the length does not match.
# This holds for POST among its `methods` and for PUT, which is among the default ones. A text as the body of `request` is
# repeated, and without the agent, `fetch` returns the 503. Hurt: developers who want their calls of an API to survive a 503
# or a 429: each such call fails later than without the agent, and the program no longer sees the status or the problem.
# Source: https://undici.nodejs.org/#/docs/api/RetryAgent
# Usage: findings/undici-retry-bodies.sh. Needs Node.js 20 and npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit undici@7.30.2
cat > client.mjs <<'JS'
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { Agent, RetryAgent, fetch, request } from "undici";

// Answers 503 to the first request for a path, and 200 to the next one.
const paths = new Set();
const server = createServer(async (incoming, response) => {
  const first = !paths.has(incoming.url);
  paths.add(incoming.url);
  await text(incoming).catch(() => "cut off");
  response.writeHead(first ? 503 : 200, { "retry-after": "1" }).end();
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const url = `http://127.0.0.1:${server.address().port}`;
const body = '{"name":"ci"}';
const posts = new RetryAgent(new Agent(), { methods: ["POST"] });
const defaults = new RetryAgent(new Agent());
const calls = {
  "fetch, POST": async (path) => (await fetch(path, { method: "POST", body, dispatcher: posts })).status,
  "fetch, PUT": async (path) => (await fetch(path, { method: "PUT", body, dispatcher: defaults })).status,
  "fetch, POST, no agent": async (path) => (await fetch(path, { method: "POST", body })).status,
  "request, POST": async (path) => (await request(path, { method: "POST", body, dispatcher: posts })).statusCode,
  "request, PUT": async (path) => (await request(path, { method: "PUT", body, dispatcher: defaults })).statusCode,
};
const seen = [];
for (const [name, call] of Object.entries(calls)) {
  const result = await call(`${url}/${seen.length}`).catch((error) => `${error.message}, ${error.cause?.code}`);
  console.log(`${name}: ${result}`);
  seen.push(result);
}
const failed = "fetch failed, UND_ERR_REQ_CONTENT_LENGTH_MISMATCH";
process.exit(seen.join() === [failed, failed, 503, 200, 200].join() ? 0 : 1);
JS
timeout 60 node client.mjs
