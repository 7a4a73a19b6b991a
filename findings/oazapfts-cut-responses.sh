#!/bin/bash
# A client by oazapfts 7.5.0 (@oazapfts/runtime 1.2.0) returns a 200 whose body was cut off, because the service or a proxy ended
# the connection, as a success with the data `null`, also with `ok` and `handle`, and one that is a text with `undefined`: the
# runtime drops the error of reading the body. `fetch` in Node.js 20 raises "terminated", which openapi-fetch 0.17.0 passes on. Hurt:
# callers of an API: the key that only this response contains is lost, and a program that looks for failed deliveries finds none.
# Source: https://www.npmjs.com/package/@oazapfts/runtime
# Usage: findings/oazapfts-cut-responses.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund oazapfts@7.5.0 @oazapfts/runtime@1.2.0 openapi-fetch@0.17.0 typescript@5.9.3 tsx@4.23.15
cat > openapi.json <<'JSON'
{
  "openapi": "3.0.3", "info": {"title": "Keys", "version": "1"},
  "paths": {"/create": {"post": {
    "operationId": "create",
    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Name"}}}},
    "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Key"}}}}}
  }}},
  "components": {"schemas": {
    "Name": {"type": "object", "properties": {"name": {"type": "string"}}},
    "Key": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}}
  }}
}
JSON
npx oazapfts openapi.json client.ts > log
cat > check.mts <<'NODE'
import { createServer } from "node:net";
import { handle, ok } from "@oazapfts/runtime";
import createFetchClient from "openapi-fetch";
import { create } from "./client.ts";

const json = "content-type: application/json\r\n";
const responses = {
  "complete": `connection: close\r\n${json}content-length: 14\r\n\r\n{"key":"ak_1"}`,
  "cut, with a length": `${json}content-length: 14\r\n\r\n{"key":`,
  "cut, chunked": `${json}transfer-encoding: chunked\r\n\r\n7\r\n{"key":\r\n`,
  "cut, a text": `content-type: text/plain\r\ncontent-length: 14\r\n\r\n{"key":`,
};
let response = "";
const server = createServer((connection) => {
  connection.on("error", () => {});
  // The end of the connection comes after the headers have been read, as with a service that fails while it writes the body.
  connection.once("data", () => connection.write(response, () => setTimeout(() => connection.end(), 200)));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
const baseUrl = `http://127.0.0.1:${(server.address() as { port: number }).port}`;

const shown = async (call: Promise<unknown>) =>
  call.then((data) => JSON.stringify(data) ?? "undefined", (error) => `error: ${error.message}`);
for (const [name, text] of Object.entries(responses)) {
  response = `HTTP/1.1 200 OK\r\n${text}`;
  const seen = [
    await shown(create({ name: "ci" }, { baseUrl }).then(({ status, data }) => [status, data])),
    await shown(ok(create({ name: "ci" }, { baseUrl }))),
    await shown(handle(create({ name: "ci" }, { baseUrl }), { 200: (key) => ({ key }) })),
    await shown(createFetchClient({ baseUrl }).POST("/create" as never, { body: {} } as never).then(({ data }) => data)),
  ];
  console.log(`${name}: ${seen.join(" | ")}`);
}
server.close();
NODE
seen=$(npx tsx check.mts)
echo "$seen"
[ "$seen" = 'complete: [200,{"key":"ak_1"}] | {"key":"ak_1"} | {"key":{"key":"ak_1"}} | {"key":"ak_1"}
cut, with a length: [200,null] | null | {"key":null} | error: terminated
cut, chunked: [200,null] | null | {"key":null} | error: terminated
cut, a text: [200,null] | undefined | {} | error: terminated' ]
