#!/bin/bash
# NestJS 11.2.10 with `rawBody: true` loses the raw body if the size limit is raised as the Express documentation says,
# with `app.use(express.json({ limit }))`: `req.rawBody` is undefined, the parsed body is there, and the answer is 201.
# `app.useBodyParser("json", { limit })` raises the limit and keeps it. Hurt: receivers of signed webhooks, whose
# verification breaks on the day on which they allow larger events, without an error from the framework.
# Usage: findings/nest-raw-body.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @nestjs/core@11.2.10 @nestjs/common@11.2.10 @nestjs/platform-express@11.2.10 \
  express@5.3.0 reflect-metadata@0.2.2 rxjs@7.8.2
cat > server.cjs <<'NODE'
require("reflect-metadata");
const { NestFactory } = require("@nestjs/core");
const { Controller, Module, Post, Req } = require("@nestjs/common");
const express = require("express");

class Hook {
  receive(request) {
    return { raw: request.rawBody?.toString() ?? null, parsed: request.body };
  }
}
Post("hook")(Hook.prototype, "receive", Object.getOwnPropertyDescriptor(Hook.prototype, "receive"));
Req()(Hook.prototype, "receive", 0);
Controller()(Hook);
class Root {}
Module({ controllers: [Hook] })(Root);

const WAYS = {
  "the default limit": () => {},
  "app.use(express.json({ limit }))": (app) => app.use(express.json({ limit: "2mb" })),
  'app.useBodyParser("json", { limit })': (app) => app.useBodyParser("json", { limit: "2mb" }),
};

(async () => {
  const seen = [];
  for (const [name, raise] of Object.entries(WAYS)) {
    const app = await NestFactory.create(Root, { rawBody: true, logger: false });
    raise(app);
    await app.listen(0, "127.0.0.1");
    const { port } = app.getHttpServer().address();
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`http://127.0.0.1:${port}/hook`, { method: "POST", headers, body: '{"n":1.50}' });
    const { raw, parsed } = await answer.json();
    console.log(`${name}: ${answer.status}, raw ${raw}, parsed ${JSON.stringify(parsed)}`);
    seen.push([answer.status, raw, parsed.n]);
    await app.close();
  }
  const expected = [[201, '{"n":1.50}', 1.5], [201, null, 1.5], [201, '{"n":1.50}', 1.5]];
  process.exit(JSON.stringify(seen) === JSON.stringify(expected) ? 0 : 1);
})();
NODE
node server.cjs
