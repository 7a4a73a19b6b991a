#!/bin/bash
# AdonisJS 6.21.0 with @adonisjs/session 7.7.1 answers 302 to `/` if a JSON request fails its validation, unless the request
# has `Accept: application/json`: without the header, and with `*/*`, it takes the sender for a browser that came from a
# form. Without a session, it answers 422. Hurt: receivers of webhooks in an application with pages, whose sessions are on
# for all routes: webhook senders send no such header and follow no redirects, so their logs show a redirect to the
# application's home page instead of the field that is wrong.
# Usage: findings/adonis-redirect.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund @adonisjs/core@6.21.0 @adonisjs/session@7.7.1 @vinejs/vine@4.4.0 edge.js@6.5.1
cat > handler.js <<'NODE'
import { ExceptionHandler } from "@adonisjs/core/http";

export default class Handler extends ExceptionHandler {
  debug = false;
}
NODE
cat > app.js <<'NODE'
import { createServer, request } from "node:http";
import { text } from "node:stream/consumers";
import { defineConfig as bodyparser } from "@adonisjs/core/bodyparser";
import { IgnitorFactory } from "@adonisjs/core/factories";
import { defineConfig, stores } from "@adonisjs/session";
import vine from "@vinejs/vine";

const hasSession = process.argv[2] === "with";
const session = defineConfig({ store: "cookie", stores: { cookie: stores.cookie() }, cookieName: "session" });
const providers = [() => import("@adonisjs/core/providers/vinejs_provider"), () => import("@adonisjs/session/session_provider")];
const config = { bodyparser: bodyparser({}), session };
const app = new IgnitorFactory()
  .withCoreConfig()
  .withCoreProviders()
  .merge({ config, rcFileContents: { providers } })
  .create(new URL("./", import.meta.url), { importer: (file) => import(file) })
  .createApp("web");
await app.init();
await app.boot();
const router = await app.container.make("router");
const server = await app.container.make("server");
server.errorHandler(() => import("./handler.js"));
server.use([() => import("@adonisjs/core/bodyparser_middleware")]);
if (hasSession) router.use([() => import("@adonisjs/session/session_middleware")]);
const event = vine.compile(vine.object({ event: vine.string(), workflow: vine.string() }));
router.post("/hook", async ({ request }) => {
  await request.validateUsing(event);
});
await server.boot();
const http = createServer(server.handle.bind(server)).listen(0, "127.0.0.1");
await app.start(() => new Promise((resolve) => http.once("listening", resolve)));

let same = true;
for (const [accept, expected] of [[undefined, 302], ["*/*", 302], ["application/json", 422], ["application/json, */*;q=0.8", 422]]) {
  const headers = { "content-type": "application/json", ...(accept && { accept }) };
  const { port } = http.address();
  const response = await new Promise((resolve) => {
    request({ port, host: "127.0.0.1", path: "/hook", method: "POST", headers }, resolve).end('{"event":"job.completed"}');
  });
  const body = (await text(response)).replace(/\s+/g, " ");
  console.log(`${process.argv[2]} session, accept: ${accept}: ${response.statusCode} ${body}`);
  same &&= response.statusCode === (hasSession ? expected : 422);
}
process.exit(same ? 0 : 1);
NODE
export APP_KEY=abcdefghijklmnopqrstuvwxyz012345 HOST=127.0.0.1 NODE_ENV=production PORT=0
node app.js no
node app.js with
