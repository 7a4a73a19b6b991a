#!/bin/bash
# A client by @hey-api/openapi-ts 0.99.0 sends one credential in the places of all the alternatives of an operation. In
# OpenAPI, `security: [{key: []}, {session: []}]` means the one or the other; with `auth: "secret"`, the client sends
# "x-api-key: secret" and also "cookie: session=secret". With `auth` as a function that returns nothing for the cookie, it
# sends only the key. Hurt: users of services that accept a key or a session: the service may prefer the cookie and answer
# 401, and keys appear in the logs of proxies that record cookies but hide keys.
# Source: https://spec.openapis.org/oas/v3.1.1.html#operation-object
# Usage: findings/hey-api-alternatives.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @hey-api/openapi-ts@0.99.0 typescript@5.9.3
cat > openapi.json <<'JSON'
{
  "openapi": "3.1.0",
  "info": { "title": "Two credentials", "version": "1" },
  "paths": {
    "/things": {
      "get": {
        "operationId": "listThings",
        "security": [{ "key": [] }, { "session": [] }],
        "responses": { "204": { "description": "Done." } }
      }
    }
  },
  "components": {
    "securitySchemes": {
      "key": { "type": "apiKey", "in": "header", "name": "x-api-key" },
      "session": { "type": "apiKey", "in": "cookie", "name": "session" }
    }
  }
}
JSON
npx openapi-ts --input openapi.json --output client --client @hey-api/client-fetch --no-log-file > log
npx tsc --skipLibCheck --target es2022 --module node16 --lib es2022,dom,dom.iterable --outDir js client/index.ts
cat > call.cjs <<'NODE'
const { createServer } = require("node:http");
const { client } = require("./js/client.gen.js");
const { listThings } = require("./js");

let headers;
const server = createServer((request, response) => {
  headers = request.headers;
  response.writeHead(204).end();
});
server.listen(0, "127.0.0.1", async () => {
  const sent = async (auth) => {
    client.setConfig({ baseUrl: `http://127.0.0.1:${server.address().port}`, auth });
    await listThings();
    return [headers["x-api-key"], headers.cookie];
  };
  const text = await sent("secret");
  const chosen = await sent((scheme) => (scheme.in === "cookie" ? undefined : "secret"));
  console.log(`auth as a text: ${text}; as a function: ${chosen}`);
  const expected = [["secret", "session=secret"], ["secret", undefined]];
  process.exit(JSON.stringify([text, chosen]) === JSON.stringify(expected) ? 0 : 1);
});
NODE
node call.cjs
