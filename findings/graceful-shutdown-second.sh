#!/bin/bash
# Three packages that stop a server of Node.js gracefully close the connections of requests in progress one second after the
# SIGTERM, unless they are given another time: http-terminator 3.2.0, whose README says that it waits for 5 seconds,
# @godaddy/terminus 4.12.1 and @gquittet/graceful-server 5.2.17. `fastify start` of fastify-cli 8.0.2 ends after half a second,
# unless it has `--close-grace-delay`. `server.close` of Node.js, stoppable 1.1.0 and http-graceful-shutdown 4.0.0 wait for the
# response. Hurt: receivers of webhooks whose handlers take longer: at each deployment, the events in progress are cut off in
# the middle of their work, and then repeated.
# Source: https://www.npmjs.com/package/http-terminator
# Usage: findings/graceful-shutdown-second.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @godaddy/terminus@4.12.1 @gquittet/graceful-server@5.2.17 \
  fastify-cli@8.0.2 http-graceful-shutdown@4.0.0 http-terminator@3.2.0 stoppable@1.1.0
cat > plugin.cjs <<'NODE'
module.exports = async (app, options) => {
  app.post("/", () => new Promise((resolve) => setTimeout(resolve, 3000, "")));
};
NODE
# Answers after three seconds, and prints its port.
cat > receiver.cjs <<'NODE'
const server = require("node:http").createServer((request, response) => {
  request.resume().on("end", () => setTimeout(() => response.writeHead(204).end(), 3000));
});
const onSignal = (stop) => process.on("SIGTERM", async () => process.exit(await stop()));
({
  "node:http": () => onSignal(() => new Promise((resolve) => server.close(() => resolve(0)))),
  stoppable: (stoppable) => {
    stoppable(server);
    onSignal(() => new Promise((resolve) => server.stop(() => resolve(0))));
  },
  "http-graceful-shutdown": (shutdown) => shutdown(server),
  "http-terminator": ({ createHttpTerminator }) => onSignal(createHttpTerminator({ server }).terminate),
  "@godaddy/terminus": ({ createTerminus }) => createTerminus(server, { signal: "SIGTERM" }),
  "@gquittet/graceful-server": (create) => create(server).setReady(),
  "fastify-cli/start.js": async ({ start }) => {
    const app = await start(["--address", "127.0.0.1", "--port", "0", ...process.argv.slice(3), "plugin.cjs"]);
    process.send(app.server.address().port);
  },
})[process.argv[2]](require(process.argv[2]));
if (process.argv[2] !== "fastify-cli/start.js") server.listen(0, "127.0.0.1", () => process.send(server.address().port));
NODE
cat > client.mjs <<'NODE'
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const agent = new Agent({ keepAlive: true });

// The response to an event that is in progress when the receiver gets a SIGTERM.
async function seen(name, ...options) {
  const receiver = fork("receiver.cjs", [name, ...options], { silent: true });
  const port = await new Promise((resolve) => receiver.on("message", resolve));
  const response = new Promise((resolve) => {
    const options = { port, host: "127.0.0.1", method: "POST", headers: { "content-type": "application/json" }, agent };
    const post = request(options, ({ statusCode }) => resolve(statusCode));
    post.on("error", () => resolve("none")).end("{}");
  });
  await sleep(500);
  const start = Date.now();
  receiver.kill();
  const status = await response;
  const seconds = Math.round((Date.now() - start) / 500) / 2;
  receiver.kill("SIGKILL");
  return `${status} after ${seconds} s`;
}

const names = ["node:http", "stoppable", "http-graceful-shutdown"];
const early = ["http-terminator", "@godaddy/terminus", "@gquittet/graceful-server"];
let changed = !/default: 5000/.test(readFileSync("node_modules/http-terminator/README.md", "utf8"));
for (const name of [...names, ...early]) {
  const found = await seen(name);
  console.log(`${name}: ${found}`);
  changed ||= found !== (names.includes(name) ? "204 after 2.5 s" : "none after 1 s");
}
for (const [options, expected] of [[[], "none after 0.5 s"], [["--close-grace-delay", "15000"], "200 after 2.5 s"]]) {
  const found = await seen("fastify-cli/start.js", ...options);
  console.log(`${["fastify start", ...options].join(" ")}: ${found}`);
  changed ||= found !== expected;
}
process.exit(changed ? 1 : 0);
NODE
node client.mjs
