#!/bin/bash
# lambda-api 1.5.1 gives the base64 text of a request as `rawBody` if API Gateway or a load balancer encoded it, while
# `body` is the decoded and parsed object of the same request. Hono 4.13.19 decodes both. Hurt: receivers of webhooks on AWS
# Lambda that verify the raw body, as they should: they work until an operator sets `binaryMediaTypes` to `*/*` for a
# download in the same API, and then reject every event.
# Usage: findings/lambda-api-raw-body.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund lambda-api@1.5.1 hono@4.13.19
cat > receiver.mjs <<'NODE'
import { Hono } from "hono";
import { handle } from "hono/aws-lambda";
import lambdaApi from "lambda-api";

const TEXT = '{"event":"job.completed"}';
const seen = {};
const api = lambdaApi();
api.post("/hook", (request, response) => {
  seen["lambda-api"] = [request.rawBody === TEXT, request.body.event];
  response.sendStatus(204);
});
const hono = new Hono().post("/hook", async (c) => {
  const text = await c.req.text();
  seen.Hono = [text === TEXT, JSON.parse(text).event];
  return c.body(null, 204);
});
const receivers = [(event) => api.run(event, {}), handle(hono)];

let same = true;
for (const isBase64Encoded of [false, true]) {
  const headers = { "content-type": "application/json", host: "example.com" };
  const event = {
    version: "1.0", resource: "/hook", path: "/hook", httpMethod: "POST", headers,
    multiValueHeaders: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]])),
    requestContext: { path: "/hook", stage: "prod", httpMethod: "POST", identity: {} },
    body: isBase64Encoded ? Buffer.from(TEXT).toString("base64") : TEXT, isBase64Encoded,
  };
  for (const receive of receivers) await receive(structuredClone(event));
  console.log(`${isBase64Encoded ? "base64" : "text"}: raw body as sent, and event: ${JSON.stringify(seen)}`);
  const expected = { "lambda-api": [!isBase64Encoded, "job.completed"], Hono: [true, "job.completed"] };
  same &&= JSON.stringify(seen) === JSON.stringify(expected);
}
process.exit(same ? 0 : 1);
NODE
node receiver.mjs
