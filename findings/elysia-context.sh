#!/bin/bash
# Elysia 1.4.30 (with @elysiajs/node 1.4.5) leaves the request's body unread for `ctx.request.text()`, unless the handler
# passes its context to another function, even one that does nothing: then the framework has parsed the body first, and
# `text()` fails with a TypeError. `parse: "none"` in the route's options avoids it. Hurt: receivers that verify a
# signature over the raw body, as soon as a log call with the context is added in front of the verification.
# Usage: findings/elysia-context.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund elysia@1.4.30 @elysiajs/node@1.4.5
cat > server.mjs <<'NODE'
import { node } from "@elysiajs/node";
import { Elysia } from "elysia";

const port = 20000 + (process.pid % 20000);
const text = async (ctx) => {
  try {
    return await ctx.request.text();
  } catch (error) {
    return error.name;
  }
};
const nothing = () => {};
new Elysia({ adapter: node() })
  .post("/alone", async (ctx) => {
    try {
      return await ctx.request.text();
    } catch (error) {
      return error.name;
    }
  })
  .post("/passed", async (ctx) => {
    nothing(ctx);
    return await text(ctx);
  })
  .post(
    "/none",
    async (ctx) => {
      nothing(ctx);
      return await text(ctx);
    },
    { parse: "none" },
  )
  .listen({ port, hostname: "127.0.0.1" });

const seen = {};
for (const path of ["alone", "passed", "none"]) {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: '{"n":1.50}' };
  let answer;
  for (let attempt = 0; answer === undefined && attempt < 50; attempt += 1) {
    answer = await fetch(`http://127.0.0.1:${port}/${path}`, post).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  seen[path] = await answer.text();
  console.log(`${path}: ${seen[path]}`);
}
const expected = { alone: '{"n":1.50}', passed: "TypeError", none: '{"n":1.50}' };
process.exit(JSON.stringify(seen) === JSON.stringify(expected) ? 0 : 1);
NODE
node server.mjs
