#!/bin/bash
# AWS's runtime client for Node.js 3.3.0 returns `null` as the result, without an error, if the promise of a handler never
# settles and nothing is left to do. So with serverless-http 4.0.0, @codegenie/serverless-express 4.17.1,
# @h4ad/serverless-adapter 4.4.0 and @fastify/aws-lambda 6.4.1, a route that sends no response, and a route of Express 5.3.0
# whose error comes after the first part of the body, return `null` at once. Function URLs and HTTP APIs turn a result without
# `statusCode` into a 200. Over HTTP, the same routes time out and break off the connection. Hurt: receivers of webhooks: an
# event that failed counts as delivered, and the sender does not repeat it. Version 4.0.2, for Node.js 22 and later, exits.
# Sources: https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html and
# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
# Usage: findings/lambda-unanswered-requests.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Without its build: the native part only does the HTTP of the client.
npm install --silent --no-audit --no-fund --ignore-scripts aws-lambda-ric@3.3.0 serverless-http@4.0.0 \
  @codegenie/serverless-express@4.17.1 @h4ad/serverless-adapter@4.4.0 @fastify/aws-lambda@6.4.1 express@5.3.0 fastify@5.12.8
touch node_modules/aws-lambda-ric/dist/rapid-client.node
cat > client.cjs <<'NODE'
const Module = require("node:module");
const found = {};
const paths = ["/answers", "/throws", "/never-answers", "/breaks-off"];
const adapters = ["plain", "serverless-http", "codegenie", "h4ad", "fastify"];
const withExpress = (adapter) => adapter !== "plain" && adapter !== "fastify";
const events = adapters.flatMap((adapter) => paths.slice(0, withExpress(adapter) ? 4 : 3).map((path) => ({ adapter, path })));
let next = -1;
const settle = (text) => ((found[events[next].adapter] ??= {})[events[next].path] = text);
const client = {
  initializeClient() {},
  async next() {
    next += 1;
    if (next === events.length) finish();
    const { adapter, path } = events[next];
    const event = {
      version: "2.0", routeKey: "$default", rawPath: path, rawQueryString: "", adapter, isBase64Encoded: false, body: "{}",
      headers: { "content-type": "application/json", "content-length": "2", host: "example.lambda-url.eu-west-1.on.aws" },
      requestContext: { domainName: "example", http: { method: "POST", path, sourceIp: "127.0.0.1" }, stage: "$default" },
    };
    const headers = { "lambda-runtime-aws-request-id": `request-${next}`, "lambda-runtime-deadline-ms": `${Date.now() + 30000}` };
    return { bodyJson: JSON.stringify(event), headers };
  },
  done: (_, body) => settle(JSON.parse(body)?.statusCode ?? body),
  error: (_, body) => settle(`error: ${JSON.parse(body).errorMessage}`),
};

function finish() {
  const rows = Object.entries(found).map(([adapter, results]) => `${adapter}: ${JSON.stringify(results)}\n`);
  const express = { "/answers": 204, "/throws": 500, "/never-answers": "null", "/breaks-off": "null" };
  const expected = {
    plain: { "/answers": 204, "/throws": "error: failed", "/never-answers": "null" },
    "serverless-http": express, codegenie: express, h4ad: express,
    fastify: { "/answers": 204, "/throws": 500, "/never-answers": "null" },
  };
  require("node:fs").writeSync(2, rows.join(""));
  process.exit(JSON.stringify(found) === JSON.stringify(expected) ? 0 : 1);
}
Module._extensions[".node"] = (module) => (module.exports = client);
NODE
cat > receiver.mjs <<'NODE'
import serverlessExpress from "@codegenie/serverless-express";
import awsLambdaFastify from "@fastify/aws-lambda";
import { ApiGatewayV2Adapter } from "@h4ad/serverless-adapter/adapters/aws";
import { ExpressFramework } from "@h4ad/serverless-adapter/frameworks/express";
import { DefaultHandler } from "@h4ad/serverless-adapter/handlers/default";
import { PromiseResolver } from "@h4ad/serverless-adapter/resolvers/promise";
import { ServerlessAdapter } from "@h4ad/serverless-adapter";
import express from "express";
import Fastify from "fastify";
import serverlessHttp from "serverless-http";

const app = express();
app.post("/answers", (request, response) => response.sendStatus(204));
app.post("/throws", () => {
  throw new Error("failed");
});
app.post("/never-answers", () => {});
app.post("/breaks-off", async (request, response) => {
  response.status(200).write("working");
  throw new Error("failed");
});
const fastify = Fastify();
fastify.post("/answers", async (request, reply) => reply.code(204).send());
fastify.post("/throws", async () => {
  throw new Error("failed");
});
fastify.post("/never-answers", () => new Promise(() => {}));

async function plain({ rawPath }) {
  if (rawPath === "/answers") return { statusCode: 204 };
  if (rawPath === "/throws") throw new Error("failed");
  await new Promise(() => {});
}

const handlers = {
  plain,
  "serverless-http": serverlessHttp(app),
  codegenie: serverlessExpress({ app }),
  h4ad: ServerlessAdapter.new(app).setFramework(new ExpressFramework()).setHandler(new DefaultHandler())
    .setResolver(new PromiseResolver()).addAdapter(new ApiGatewayV2Adapter()).build(),
  fastify: awsLambdaFastify(fastify),
};
export const handler = (event, context, callback) => handlers[event.adapter](event, context, callback);
NODE
AWS_LAMBDA_RUNTIME_API=127.0.0.1:1 timeout 60 node --require ./client.cjs node_modules/aws-lambda-ric/bin/index.mjs \
  receiver.handler > log || { cat log; exit 1; }
