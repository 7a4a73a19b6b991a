#!/bin/bash
# @nestjs/throttler 6.7.1 sends `Retry-After-short` instead of `Retry-After` with its 429 if its limits have names, as in
# its guide to several limits, such as "short" and "long". With one limit without a name, it sends `Retry-After`. Hurt:
# receivers of webhooks that rely on the header to slow a sender down: no client knows the other name, so the sender
# retries on its own schedule, meets the limit again, and may give up.
# Usage: findings/nest-throttler-retry-after.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @nestjs/core@12.5.1 @nestjs/common@12.5.1 @nestjs/platform-express@12.5.1 \
  @nestjs/throttler@6.7.1 reflect-metadata@0.2.2 rxjs@7.8.2
cat > limits.cjs <<'NODE'
require("reflect-metadata");
const { Controller, HttpCode, Module, Post } = require("@nestjs/common");
const { APP_GUARD, NestFactory } = require("@nestjs/core");
const { ThrottlerGuard, ThrottlerModule } = require("@nestjs/throttler");

/** The status and the headers about retries of the second request of a minute, where one is permitted. */
async function limited(limits) {
  class Hooks {
    receive() {}
  }
  const receive = Object.getOwnPropertyDescriptor(Hooks.prototype, "receive");
  for (const decorate of [Post("hook"), HttpCode(204)]) decorate(Hooks.prototype, "receive", receive);
  Controller()(Hooks);
  class App {}
  const guard = { provide: APP_GUARD, useClass: ThrottlerGuard };
  Module({ imports: [ThrottlerModule.forRoot(limits)], controllers: [Hooks], providers: [guard] })(App);
  const app = await NestFactory.create(App, { logger: false });
  await app.listen(0, "127.0.0.1");
  const post = async () => fetch(`${await app.getUrl()}/hook`, { method: "POST", headers: { connection: "close" } });
  const first = await post();
  const second = await post();
  await app.close();
  return [first.status, second.status, ...[...second.headers.keys()].filter((name) => name.startsWith("retry-after"))];
}

(async () => {
  const minute = { ttl: 60_000, limit: 1 };
  const one = await limited([minute]);
  const named = await limited([{ name: "short", ...minute }, { name: "long", ttl: 3_600_000, limit: 100 }]);
  console.log(`one limit: ${one.join(" ")}\nnamed limits: ${named.join(" ")}`);
  process.exit(`${one}` === "204,429,retry-after" && `${named}` === "204,429,retry-after-short" ? 0 : 1);
})();
NODE
node limits.cjs
