#!/bin/bash
# orval 8.38.0 and kubb 4.39.3 with its fetch client make hooks for React Query and SWR that call `onSuccess` after a 401 or a 500, and
# type the error that they never pass. orval's fetch client, the default since version 8, returns each response, and a hook takes
# what is returned as a success; in version 7, the default was axios, which throws. With `includeHttpResponseReturnType: false` and
# with kubb, the body of the error even has the type of the success, and the status is gone. `forceSuccessResponse` or `httpClient:
# "axios"` in orval and `client: "axios"` in kubb make errors of them. Hurt: users of an API from React: a page that resends
# deliveries or changes a secret says that it worked, although nothing happened.
# Sources: https://github.com/orval-labs/orval/issues/1839 and https://kubb.dev/plugins/plugin-client
# Usage: findings/generated-hook-successes.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund orval@8.38.0 typescript@5.9.3 tsx@4.23.15 react@19.3.1 axios@1.21.1 swr@2.5.1 \
  @tanstack/react-query@5.108.4 @kubb/cli@4.39.3 @kubb/core@4.39.3 @kubb/plugin-client@4.39.3 @kubb/plugin-oas@4.39.3 \
  @kubb/plugin-react-query@4.39.3 @kubb/plugin-ts@4.39.3
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
cat > kubb.config.mjs <<'NODE'
import { defineConfig } from "@kubb/core";
import { pluginOas } from "@kubb/plugin-oas";
import { pluginReactQuery } from "@kubb/plugin-react-query";
import { pluginTs } from "@kubb/plugin-ts";

export default ["fetch", "axios"].map((client) => defineConfig({
  name: client,
  root: ".",
  input: { path: "./openapi.json" },
  output: { path: `./kubb-${client}`, format: false, lint: false },
  plugins: [pluginOas(), pluginTs(), pluginReactQuery({ client: { client } })],
}));
NODE
npx kubb generate > log
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
for (const name of ["fetch", "axios"]) {
  const called: string[] = [];
  for (status of [200, 401, 500]) {
    const { resendMutationOptions } = await import(`./kubb-${name}/hooks/useResend.ts`);
    const mutation = {
      ...resendMutationOptions(),
      onSuccess: (result: object) => called.push(`onSuccess of ${Object.keys(result)}`),
      onError: () => called.push("onError"),
    };
    const observer = new MutationObserver(new QueryClient(), mutation);
    await observer.mutate({ data: { delivery_id: "1" } } as never).catch(() => {});
  }
  console.log(`React Query, kubb, ${name}: ${called.join(", ")}`);
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
React Query, kubb, fetch: onSuccess of code, onSuccess of code, onSuccess of code
React Query, kubb, axios: onSuccess of code, onError, onError
SWR: resolved with 200, resolved with 401, resolved with 500" ]
