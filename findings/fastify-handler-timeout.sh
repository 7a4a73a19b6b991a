#!/bin/bash
# Fastify 5.12.8's `handlerTimeout` does nothing for a request with a body over HTTP, on Node.js 20, 22 and 24: once the body has
# been read, the request emits `close`, which ends the timer and aborts `request.signal`. With `inject`, which tests use, the
# same route answers 503 in time, and so does a GET over HTTP. Hurt: receivers of webhooks that limit their work in this way:
# if a handler hangs, no response is sent, so the attempt fails after the sender's timeout, and a handler that passes
# `request.signal` to a query or to `fetch` is canceled at once with each event.
# Source: https://github.com/fastify/fastify/pull/6725
# Usage: findings/fastify-handler-timeout.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund fastify@5.12.8
cat > receiver.mjs <<'NODE'
import { setTimeout as sleep } from "node:timers/promises";
import Fastify from "fastify";

const app = Fastify({ handlerTimeout: 300 });
let aborted;
app.route({
  method: ["GET", "POST"],
  url: "/hook",
  handler: async (request, reply) => {
    const start = Date.now();
    const note = () => (aborted = Date.now() - start < 150 ? "at once" : "after the timeout");
    if (request.signal.aborted) note();
    request.signal.addEventListener("abort", note);
    await sleep(900);
    reply.code(204);
  },
});
await app.listen({ port: 0, host: "127.0.0.1" });
const url = `${app.listeningOrigin}/hook`;
const post = { method: "POST", headers: { "content-type": "application/json", connection: "close" }, body: "{}" };
const found = {};
for (const [name, send] of Object.entries({
  "POST with inject": async () => (await app.inject({ method: "POST", url: "/hook", payload: {} })).statusCode,
  "POST over HTTP": async () => (await fetch(url, post)).status,
  "GET over HTTP": async () => (await fetch(url, { headers: { connection: "close" } })).status,
})) {
  aborted = "never";
  const status = await send();
  found[name] = `${status}, signal aborted: ${aborted}`;
  await sleep(1000);
}
console.log(process.version, found);
const inTime = "503, signal aborted: after the timeout";
const expected = { "POST with inject": inTime, "POST over HTTP": "204, signal aborted: at once", "GET over HTTP": inTime };
process.exit(JSON.stringify(found) === JSON.stringify(expected) ? 0 : 1);
NODE
node receiver.mjs
