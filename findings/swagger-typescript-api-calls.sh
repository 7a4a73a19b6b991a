#!/bin/bash
# A client by swagger-typescript-api 13.13.0 has no parameter for a header that a description of OpenAPI requires, such as an
# idempotency key, so a call compiles without it. A response with status 200 that is not JSON, such as the page of a proxy
# or a body that was cut off, is a success: the promise is fulfilled, `ok` is true, and `data` is null, against its type.
# openapi-typescript 7.13.0 with openapi-fetch 0.17.0 requires the header, and its call fails. Hurt: callers who believe
# that a call is done which the API has never seen, and whose repeated calls have two effects.
# Source: https://spec.openapis.org/oas/v3.1.1.html#parameter-object
# Usage: findings/swagger-typescript-api-calls.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts swagger-typescript-api@13.13.0 openapi-typescript@7.13.0 \
  openapi-fetch@0.17.0 typescript@5.9.3 @types/node@22.20.7
cat > openapi.json <<'JSON'
{"openapi": "3.1.0", "info": {"title": "Jobs", "version": "1"}, "paths": {"/resend": {"post": {
  "operationId": "resend",
  "parameters": [{"name": "idempotency-key", "in": "header", "required": true, "schema": {"type": "string"}}],
  "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object"}}}},
  "responses": {"200": {"description": "Resent", "content": {"application/json": {"schema": {
    "type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}}}}}}}}}
JSON
npx swagger-typescript-api generate --path openapi.json --output . --name swagger.ts > log 2>&1
npx openapi-typescript openapi.json --output fetch.ts > log 2>&1
echo '{"type": "module"}' > package.json
cat > call.ts <<'TYPESCRIPT'
import { createServer } from "node:http";
import createClient from "openapi-fetch";
import type { paths } from "./fetch.js";
import { Api } from "./swagger.js";

let body = "";
const server = createServer((request, response) => {
  console.log(`  the API gets idempotency-key: ${request.headers["idempotency-key"]}`);
  request.resume().on("end", () => response.writeHead(200, { "content-type": "application/json" }).end(body));
});
await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
const address = server.address();
if (typeof address !== "object" || address === null) throw new Error("No address");
const baseUrl = `http://127.0.0.1:${address.port}`;

const swagger = new Api({ baseUrl });
const fetching = createClient<paths>({ baseUrl });
const calls: Record<string, () => Promise<unknown>> = {
  "swagger-typescript-api": async () => {
    const response = await swagger.resend.resend({});
    const data: { id: string } = response.data;
    return { ok: response.ok, data };
  },
  "openapi-fetch": async () => {
    // @ts-expect-error: The header is missing.
    await fetching.POST("/resend", { body: {} });
    return (await fetching.POST("/resend", { body: {}, params: { header: { "idempotency-key": "key-1" } } })).data;
  },
};
const found: string[] = [];
for (const sent of ['{"id":"a"}', "<p>Please sign in.</p>", '{"id":']) {
  body = sent;
  for (const [name, call] of Object.entries(calls)) {
    const outcome = await call().then(JSON.stringify, (error) => `fails: ${error.name}`);
    console.log(`${name}, for ${sent}: ${outcome}`);
    found.push(outcome);
  }
}
server.close();
const failure = "fails: SyntaxError";
const lost = '{"ok":true,"data":null}';
const expected = ['{"ok":true,"data":{"id":"a"}}', '{"id":"a"}', lost, failure, lost, failure];
process.exit(JSON.stringify(found) === JSON.stringify(expected) ? 0 : 1);
TYPESCRIPT
# Compiles, although the call by swagger-typescript-api has no header.
npx tsc --strict --skipLibCheck --target es2022 --module nodenext --lib es2022,dom,dom.iterable call.ts
node call.js
