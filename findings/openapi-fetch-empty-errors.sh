#!/bin/bash
# openapi-fetch 0.17.0 returns `error: undefined`, or an empty string, for an error without a body, such as the 502 that Caddy
# answers while the application is away. The README checks a call with `if (error)`, so the call looks like a success without
# data. openapi-react-query 0.5.4 does the same: the query or mutation succeeds, is not repeated and calls `onSuccess`. An
# error with a body is right in both. @openapi-qraft/react 2.14.1 has an empty string, or null with `content-length: 0`, and its
# README checks with `if (error)`, too. Hurt: callers of an API behind a proxy: a delivery that was not resent, or an endpoint
# that was not created, looks as if it was.
# Source: openapi-fetch/src/index.js, https://github.com/openapi-ts/openapi-typescript/issues/2530 and .../issues/2070
# Usage: findings/openapi-fetch-empty-errors.sh. Needs Node.js 20, and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts openapi-fetch@0.17.0 openapi-react-query@0.5.4 \
  @tanstack/react-query@5.90.11 react@19.2.0 react-dom@19.2.0 @openapi-qraft/react@2.14.1
cat > call.mjs <<'NODE'
import { once } from "node:events";
import { createServer } from "node:http";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { requestFn } from "@openapi-qraft/react";
import createFetchClient from "openapi-fetch";
import createClient from "openapi-react-query";
import { createElement } from "react";
import { renderToString } from "react-dom/server";

const answers = {
  "/empty": (response) => response.writeHead(502).end(),
  "/zero": (response) => response.writeHead(502, { "content-length": "0" }).end(),
  "/chunked": (response) => response.writeHead(503, { "transfer-encoding": "chunked" }).end(),
  "/text": (response) => response.writeHead(503).end("busy"),
};
const server = createServer((request, response) => answers[request.url](response)).listen(0, "127.0.0.1");
await once(server, "listening");
const baseUrl = `http://127.0.0.1:${server.address().port}`;
const fetchClient = createFetchClient({ baseUrl });

/** The function that a component gets from a mutation, with the component's `onSuccess` and `onError`. */
function mutation(path, handlers) {
  let mutateAsync;
  const Component = () => {
    ({ mutateAsync } = createClient(fetchClient).useMutation("post", path, handlers));
  };
  renderToString(createElement(QueryClientProvider, { client: new QueryClient() }, createElement(Component)));
  return mutateAsync;
}

const found = [];
for (const path of Object.keys(answers)) {
  const { error, response } = await fetchClient.POST(path, { body: {} });
  let called = "nothing";
  const handlers = { onSuccess: () => (called = "onSuccess"), onError: () => (called = "onError") };
  await mutation(path, handlers)({ body: {} }).catch(() => {});
  const qraft = await requestFn({ url: path, method: "post", mediaType: ["application/json"] }, { baseUrl, body: {} });
  found.push(`${response.status} ${path}: ${error ? "an" : "no"} error, and the mutation calls ${called}; qraft: ${JSON.stringify(qraft.error)}`);
}
server.close();
server.closeAllConnections();
console.log(found.join("\n"));
const expected = [
  '502 /empty: no error, and the mutation calls onSuccess; qraft: ""',
  "502 /zero: no error, and the mutation calls onSuccess; qraft: null",
  '503 /chunked: no error, and the mutation calls onSuccess; qraft: ""',
  '503 /text: an error, and the mutation calls onError; qraft: "busy"',
];
process.exit(`${found}` === `${expected}` ? 0 : 1);
NODE
node --no-warnings call.mjs
