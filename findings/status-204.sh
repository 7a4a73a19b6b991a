#!/bin/bash
# Elysia 1.4.30 answers 500 to `status(204)` and `set.status = 204` on Node.js through `app.fetch`, as in Next.js or
# SvelteKit, and 204 through its own adapter @elysiajs/node 1.4.5. Hono 4.13.19 answers 500 to `c.json({ ok: true }, 204)` or
# `c.text("", 204)` on AWS Lambda and in Next.js, and 204 with @hono/node-server 2.1.9, which developers run on their
# machines. React Router 8.5.3 answers 500 to an action that returns `data(null, { status: 204 })`. The handler has run: the
# constructor of `Response` refuses any body, even an empty one, with the status 204. Hurt: receivers of webhooks, for which
# 204 is the usual answer: each event is processed, counts as failed and is sent again, up to the sender's last attempt.
# `new Response(null, { status: 204 })` works in all of them.
# Usage: findings/status-204.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund elysia@1.4.30 @elysiajs/node@1.4.5 hono@4.13.19 @hono/node-server@2.1.9 \
  react-router@8.5.3 react@19.3.1 react-dom@19.3.1
cat > receivers.mjs <<'NODE'
import { node } from "@elysiajs/node";
import { serve } from "@hono/node-server";
import { Elysia } from "elysia";
import { Hono } from "hono";
import { handle as onLambda } from "hono/aws-lambda";
import { handle as inNext } from "hono/vercel";
import { createRequestHandler, data } from "react-router";

console.error = () => {};
const POST = { method: "POST", headers: { connection: "close", "content-type": "application/json" }, body: "{}" };
const request = () => new Request("http://localhost/hook", POST);
let port = 20000 + (process.pid % 20000);
let runs;
const counted = (answer) => (context) => {
  runs += 1;
  return answer(context);
};

async function elysiaOnNode(answer) {
  const app = new Elysia({ adapter: node() }).post("/hook", answer);
  port += 1;
  await new Promise((resolve) => app.listen({ port, hostname: "127.0.0.1" }, resolve));
  return (await fetch(`http://127.0.0.1:${port}/hook`, POST)).status;
}

async function honoOnNode(answer) {
  const { fetch: handle } = new Hono().post("/hook", answer);
  const port = await new Promise((resolve) => serve({ fetch: handle, port: 0, hostname: "127.0.0.1" }, ({ port }) => resolve(port)));
  return (await fetch(`http://127.0.0.1:${port}/hook`, POST)).status;
}

async function honoOnLambda(answer) {
  const event = {
    version: "2.0", routeKey: "$default", rawPath: "/hook", rawQueryString: "", headers: POST.headers, body: POST.body,
    isBase64Encoded: false, requestContext: { domainName: "localhost", http: { method: "POST", path: "/hook" } },
  };
  return (await onLambda(new Hono().post("/hook", answer))(event, {})).statusCode;
}

/** The parts of a build that a route without a page needs. */
async function reactRouter(action) {
  const build = {
    entry: { module: {} },
    routes: { hook: { id: "hook", path: "hook", module: { action } } },
    assets: { entry: { module: "", imports: [] }, routes: {}, url: "", version: "" },
    future: {}, ssr: true, prerender: [], routeDiscovery: { mode: "initial" }, publicPath: "/",
  };
  return (await createRequestHandler(build, "production")(request())).status;
}

const elysiaFetch = async (answer) => (await new Elysia().post("/hook", answer).fetch(request())).status;
const honoInNext = async (answer) => (await inNext(new Hono().post("/hook", answer))(request())).status;
const honoAnswers = { json: (c) => c.json({ ok: true }, 204), text: (c) => c.text("", 204), "body(null)": (c) => c.body(null, 204) };
const elysiaAnswers = {
  "status(204)": ({ status }) => status(204),
  "set.status": ({ set }) => void (set.status = 204),
  Response: () => new Response(null, { status: 204 }),
};
const seen = [];
for (const [name, receive, answers] of [
  ["Elysia, app.fetch", elysiaFetch, elysiaAnswers],
  ["Elysia, @elysiajs/node", elysiaOnNode, elysiaAnswers],
  ["Hono on AWS Lambda", honoOnLambda, honoAnswers],
  ["Hono in Next.js", honoInNext, honoAnswers],
  ["Hono, @hono/node-server", honoOnNode, honoAnswers],
  ["React Router", reactRouter, { data: () => data(null, { status: 204 }), Response: () => new Response(null, { status: 204 }) }],
]) {
  runs = 0;
  const statuses = {};
  for (const [form, answer] of Object.entries(answers)) statuses[form] = await receive(counted(answer));
  const processed = runs === Object.keys(answers).length;
  seen.push([...Object.values(statuses), processed]);
  console.log(name, statuses, processed ? "each after the handler has run" : "");
}
const expected = [
  [500, 500, 204, true], [204, 204, 204, true], [500, 500, 204, true], [500, 500, 204, true], [204, 204, 204, true],
  [500, 204, true],
];
process.exit(JSON.stringify(seen) === JSON.stringify(expected) ? 0 : 1);
NODE
node receivers.mjs
