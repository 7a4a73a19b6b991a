#!/bin/bash
# Two packages that answer a repeated request with the stored response also block the repetition of a failed one. If a
# handler raises an error, express-idempotency 1.0.6 answers 409, "still in progress", to each repetition, with its default
# store until the process ends, and @node-idempotency/nestjs 1.0.4 repeats the 500 for a day. After a success, the first
# answers 409 to a repetition if the handler ended with `response.end()`, and the second 500 if it returned nothing. Hurt:
# receivers of webhooks that use `webhook-id` as the key: after one error, all retries of the event fail, and a harmless
# duplicate of a processed event looks like an outage.
# Usage: findings/idempotency-middleware.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund express@5.3.0 express-idempotency@1.0.6 @node-idempotency/nestjs@1.0.4 \
  @node-idempotency/storage-adapter-memory@1.0.2 @nestjs/core@10.4.22 @nestjs/common@10.4.22 \
  @nestjs/platform-express@10.4.22 reflect-metadata@0.2.2 rxjs@7.8.2
cat > receiver.cjs <<'NODE'
require("reflect-metadata");
const { Idempotent, NodeIdempotencyModule, StorageAdapterEnum } = require("@node-idempotency/nestjs");
const { Controller, HttpCode, Module, Post, Req } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const express = require("express");
const { getSharedIdempotencyService, idempotency } = require("express-idempotency");

/** A handler that fails in the first run for the key "fails once". */
const counted = (runs) => (request) => {
  const key = request.headers["webhook-id"];
  runs[key] = (runs[key] ?? 0) + 1;
  if (key === "fails once" && runs[key] === 1) throw new Error("The database is away");
};

async function expressReceiver(runs) {
  const app = express().set("env", "test");
  const handle = counted(runs);
  app.use(idempotency({ idempotencyKeyHeader: "webhook-id" }));
  app.post("/hook", async (request, response) => {
    if (getSharedIdempotencyService().isHit(request)) return;
    handle(request);
    response.status(204).end();
  });
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return [`http://127.0.0.1:${server.address().port}/hook`, () => server.close()];
}

async function nestReceiver(runs) {
  const handle = counted(runs);
  class Hooks {
    receive(request) {
      handle(request);
    }
  }
  const receive = Object.getOwnPropertyDescriptor(Hooks.prototype, "receive");
  for (const decorate of [Post("hook"), HttpCode(204), Idempotent()]) decorate(Hooks.prototype, "receive", receive);
  Req()(Hooks.prototype, "receive", 0);
  Controller()(Hooks);
  class App {}
  const storage = { adapter: StorageAdapterEnum.memory };
  const idempotent = NodeIdempotencyModule.forRootAsync({ storage, idempotencyKey: "webhook-id" });
  Module({ imports: [idempotent], controllers: [Hooks] })(App);
  const app = await NestFactory.create(App, { logger: false });
  await app.listen(0, "127.0.0.1");
  return [`${await app.getUrl()}/hook`, () => app.close()];
}

(async () => {
  let same = true;
  for (const [name, start, failed, repeated] of [
    ["express-idempotency", expressReceiver, [500, 409, 409], [204, 409, 409]],
    ["@node-idempotency/nestjs", nestReceiver, [500, 500, 500], [204, 500, 500]],
  ]) {
    const runs = {};
    const [url, stop] = await start(runs);
    for (const [key, expected] of [["fails once", failed], ["succeeds", repeated]]) {
      const seen = [];
      for (let attempt = 0; attempt < 3; attempt++) {
        const headers = { connection: "close", "content-type": "application/json", "webhook-id": key };
        seen.push((await fetch(url, { method: "POST", headers, body: "{}" })).status);
      }
      console.log(`${name}, ${key}: ${seen.join(" ")}, runs: ${runs[key]}`);
      same &&= `${seen}` === `${expected}` && runs[key] === 1;
    }
    await stop();
  }
  process.exit(same ? 0 : 1);
})();
NODE
node receiver.cjs
