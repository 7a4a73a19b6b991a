#!/bin/bash
# @koa/bodyparser 6.1.0 answers 499 "Request already closed" to a complete and healthy request whose body an earlier
# middleware has read, for example one that verifies a signature. 499 is nginx's code for a client that went away, so the
# sender's log blames the sender. Setting `ctx.request.body` in the earlier middleware makes it skip the parsing. Hurt:
# receivers that add a verification in front of their parser, and the readers of the delivery log.
# Usage: findings/koa-499.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund koa@3.3.0 @koa/bodyparser@6.1.0 raw-body@3.0.2
cat > server.cjs <<'NODE'
const { bodyParser } = require("@koa/bodyparser");
const Koa = require("koa");
const read = require("raw-body");

const answer = async (sets) => {
  const app = new Koa();
  app.silent = true;
  app.use(async (ctx, next) => {
    const raw = await read(ctx.req);
    if (sets) ctx.request.body = JSON.parse(raw);
    await next();
  });
  app.use(bodyParser());
  app.use((ctx) => {
    ctx.status = 204;
  });
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const headers = { "content-type": "application/json" };
  const url = `http://127.0.0.1:${server.address().port}/`;
  const { status } = await fetch(url, { method: "POST", headers, body: '{"n":1.50}' });
  server.close();
  return status;
};

(async () => {
  const [read, set] = [await answer(false), await answer(true)];
  console.log(`body read before: ${read}; body read and set: ${set}`);
  process.exit(read === 499 && set === 204 ? 0 : 1);
})();
NODE
node server.cjs
