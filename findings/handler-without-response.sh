#!/bin/bash
# h3 1.15.11, Hono 4.13.19 and itty-router 5.0.24 answer 404 if the handler of a matching route returns nothing, after it
# has done its work, and log nothing. h3 even says "Cannot find any path matching /hook". h3 2.0.8 and Fastify 5.12.8
# answer 200. Hurt: receivers of webhooks that forget the response, or leave it out because other frameworks need none: each
# event is processed, counts as failed and is sent again, up to the sender's last attempt, and the 404 makes the developer
# look for a mistake in the route.
# Usage: findings/handler-without-response.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund h3-1@npm:h3@1.15.11 h3@2.0.8 hono@4.13.19 itty-router@5.0.24 fastify@5.12.8
cat > receivers.mjs <<'NODE'
import { createServer } from "node:http";
import Fastify from "fastify";
import { H3 } from "h3";
import { createApp, createRouter, defineEventHandler, readRawBody, toNodeListener } from "h3-1";
import { Hono } from "hono";
import { AutoRouter } from "itty-router";

const BODY = '{"event":"job.completed"}';
let processed;

async function overHttp(listener) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const headers = { connection: "close", "content-type": "application/json" };
  const url = `http://127.0.0.1:${server.address().port}/hook`;
  const response = await fetch(url, { method: "POST", headers, body: BODY });
  const seen = [response.status, await response.text()];
  server.close();
  return seen;
}

async function direct(app) {
  const response = await app.fetch(new Request("http://localhost/hook", { method: "POST", body: BODY }));
  return [response.status, await response.text()];
}

const receivers = {
  "h3 1": [404, () => {
    const router = createRouter().post("/hook", defineEventHandler(async (event) => {
      processed = await readRawBody(event);
    }));
    return overHttp(toNodeListener(createApp().use(router)));
  }],
  Hono: [404, () => direct(new Hono().post("/hook", async (c) => {
    processed = await c.req.text();
  }))],
  "itty-router": [404, () => direct(AutoRouter().post("/hook", async (request) => {
    processed = await request.text();
  }))],
  "h3 2": [200, () => direct(new H3().post("/hook", async (event) => {
    processed = await event.req.text();
  }))],
  Fastify: [200, async () => {
    const app = Fastify();
    app.post("/hook", async (request) => {
      processed = JSON.stringify(request.body);
    });
    const { statusCode, body } = await app.inject({ method: "POST", url: "/hook", payload: JSON.parse(BODY) });
    return [statusCode, body];
  }],
};

let same = true;
for (const [name, [expected, receive]] of Object.entries(receivers)) {
  processed = undefined;
  const [status, body] = await receive();
  console.log(`${name}: ${status}, event ${processed === BODY ? "processed" : "lost"}: ${body.replace(/\s+/g, " ").slice(0, 90)}`);
  same &&= status === expected && processed === BODY;
}
process.exit(same ? 0 : 1);
NODE
node receivers.mjs
