#!/bin/bash
# orval 8.38.0 makes hooks for React Query and SWR that call `onSuccess` after a 401 or a 500, and type the error that they never
# pass. Its fetch client, the default since version 8, returns each response, and a hook takes what is returned as a success; in
# version 7, the default was axios, which throws. With `includeHttpResponseReturnType: false`, the body of the error even has the
# type of the success, and the status is gone. `forceSuccessResponse` or `httpClient: "axios"` makes errors of them. Hurt: users
# of an API from React: a page that resends deliveries or changes a secret says that it worked, although nothing happened.
# Source: https://github.com/orval-labs/orval/issues/1839
# Usage: findings/orval-hook-successes.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund orval@8.38.0 typescript@5.9.3 tsx@4.23.15 react@19.3.1 axios@1.21.1 swr@2.5.1 \
  @tanstack/react-query@5.108.4
cat > openapi.json <<'JSON'
{
  "openapi": "3.1.0", "info": {"title": "Deliveries", "version": "1"},
  "paths": {"/resend": {"post": {
    "operationId": "resend",
    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Delivery"}}}},
    "responses": {
      "200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Result"}}}},
      "401": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    }
  }}},
  "components": {"schemas": {
    "Delivery": {"type": "object", "properties": {"delivery_id": {"type": "string"}}},
    "Result": {"type": "object", "properties": {"message": {"type": "string"}}},
    "Problem": {"type": "object", "properties": {"code": {"type": "string"}}}
  }}
}
JSON
cat > orval.config.mjs <<'NODE'
const made = (name, client, options = {}) => {
  return [name, { input: "openapi.json", output: { target: `${name}.ts`, client, ...options } }];
};

export default Object.fromEntries([
  made("query", "react-query"),
  made("bodies", "react-query", { override: { fetch: { includeHttpResponseReturnType: false } } }),
  made("forced", "react-query", { override: { fetch: { forceSuccessResponse: true } } }),
  made("axios", "react-query", { httpClient: "axios" }),
  made("swr", "swr"),
]);
NODE
npx orval > log
cat > check.mts <<'NODE'
import { createServer } from "node:http";
import axios from "axios";
import { MutationObserver, QueryClient } from "@tanstack/react-query";

let status = 401;
const server = createServer((request, response) => {
  request.resume().on("end", () => {
    response.writeHead(status, { "content-type": "application/json" }).end('{"code": "UNAUTHORIZED"}');
  });
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
const base = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
const native = globalThis.fetch;
globalThis.fetch = ((path: string, options: RequestInit) => native(base + path, options)) as typeof fetch;
axios.defaults.baseURL = base;

for (const name of ["query", "bodies", "forced", "axios"]) {
  const called: string[] = [];
  for (status of [200, 401, 500]) {
    const { getResendMutationOptions } = await import(`./${name}.ts`);
    const mutation = {
      onSuccess: (result: object) => called.push(`onSuccess of ${"status" in result ? result.status : Object.keys(result)}`),
      onError: () => called.push("onError"),
    };
    // `useMutation` is this observer in a component.
    const observer = new MutationObserver(new QueryClient(), getResendMutationOptions({ mutation }));
    await observer.mutate({ data: { delivery_id: "1" } } as never).catch(() => {});
  }
  console.log(`React Query, ${name}: ${called.join(", ")}`);
}
const { getResendMutationFetcher } = await import("./swr.ts");
const results: string[] = [];
for (status of [200, 401, 500]) {
  const call = getResendMutationFetcher()("/resend", { arg: { delivery_id: "1" } });
  results.push(await call.then((result: { status: number }) => `resolved with ${result.status}`, () => "rejected"));
}
console.log(`SWR: ${results.join(", ")}`);
server.close();
NODE
seen=$(npx tsx check.mts)
echo "$seen"
[ "$seen" = "React Query, query: onSuccess of 200, onSuccess of 401, onSuccess of 500
React Query, bodies: onSuccess of code, onSuccess of code, onSuccess of code
React Query, forced: onSuccess of 200, onError, onError
React Query, axios: onSuccess of 200, onError, onError
SWR: resolved with 200, resolved with 401, resolved with 500" ]
