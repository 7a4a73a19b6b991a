#!/bin/bash
# h3 1.15.11's `proxyRequest`, which also carries out the `proxy` of the route rules of Nitro 2 and Nuxt, follows a redirect of
# the application: after a 301, 302 or 303, it sends a GET without the body, and answers with the result. Hono 4.13.19's
# `proxy` does this after a 303, and answers 500 after the others, because it cannot send the body again. A proxy such as nginx
# passes a redirect on; so does h3 2.0.8, and both of the others with `redirect: "manual"`. Hurt: receivers of webhooks behind
# such a proxy whose application redirects requests that are not signed in, or to another path: the page that asks for a
# password is a 200, so each event counts as delivered and is lost. Without the proxy, its delivery fails and is repeated.
# Source: h3/dist/index.mjs (sendProxy), hono/dist/helper/proxy/index.js, nitropack/dist/runtime/internal/route-rules.mjs
# Usage: findings/proxied-redirects.sh. Needs Node.js 20, and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts h3-1@npm:h3@1.15.11 h3-2@npm:h3@2.0.8 hono@4.13.19 \
  @hono/node-server@2.1.9
cat > redirects.mjs <<'NODE'
import { once } from "node:events";
import { createServer } from "node:http";
import { serve } from "@hono/node-server";
import * as h3v1 from "h3-1";
import * as h3v2 from "h3-2";
import { Hono } from "hono";
import { proxy } from "hono/proxy";

console.error = () => {};

async function listening(server) {
  await once(server.listen?.(0, "127.0.0.1") ?? server, "listening");
  return `http://127.0.0.1:${server.address().port}`;
}

let seen = [];
const application = await listening(createServer((request, response) => {
  request.resume().on("end", () => {
    seen.push(`${request.method} ${request.url}`);
    const status = Number(request.url.slice(1));
    if (status) response.writeHead(status, { location: "/sign-in" }).end();
    else response.end("Please sign in");
  });
}));

const h3 = (options) => {
  const app = h3v1.createApp();
  app.use(h3v1.eventHandler((event) => h3v1.proxyRequest(event, application + event.path, options)));
  return listening(createServer(h3v1.toNodeListener(app)));
};
const newH3 = async () => {
  const app = new h3v2.H3().all("/**", (event) => h3v2.proxyRequest(event, application + event.url.pathname));
  const server = h3v2.serve(app, { port: 0, hostname: "127.0.0.1", silent: true });
  await server.ready();
  return server.url.replace(/\/$/, "");
};
const hono = (options) => {
  const app = new Hono().all("*", (c) => proxy(application + c.req.path, { raw: c.req.raw, ...options }));
  return new Promise((resolve) => {
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () => {
      resolve(`http://127.0.0.1:${server.address().port}`);
    });
  });
};
const followed = (status) => `200 after POST /${status}, GET /sign-in`;
const passedOn = (status) => `${status} after POST /${status}`;
let changed = false;
for (const [name, address, expected] of [
  ["h3 1", await h3(), [followed(302), followed(303)]],
  ["h3 1, manual", await h3({ fetchOptions: { redirect: "manual" } }), [passedOn(302), passedOn(303)]],
  ["h3 2", await newH3(), [passedOn(302), passedOn(303)]],
  ["Hono", await hono(), ["500 after POST /302", followed(303)]],
  ["Hono, manual", await hono({ redirect: "manual" }), [passedOn(302), passedOn(303)]],
]) {
  const found = [];
  for (const status of [302, 303]) {
    seen = [];
    const options = { method: "POST", body: "{}", headers: { "content-type": "application/json" }, redirect: "manual" };
    const response = await fetch(`${address}/${status}`, options);
    found.push(`${response.status} after ${seen.join(", ")}`);
  }
  console.log(`${name}: ${found.join("; ")}`);
  changed ||= `${found}` !== `${expected}`;
}
process.exit(changed ? 1 : 0);
NODE
node --no-warnings redirects.mjs
