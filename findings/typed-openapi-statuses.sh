#!/bin/bash
# Clients by typed-openapi 2.2.7 return the body of a 520 to 530, with which Cloudflare answers while the service behind it is away,
# as the result of a successful call, and its mutations for TanStack Query call `onSuccess`: a client throws only for the 40 statuses
# of a list, although the help says "4xx and 5xx ranges" and the type of the result is that of a 200. The 561 of AWS's load
# balancer is not in the list either. A 502 throws. With `--error-status-codes` or `withResponse: true` and `ok`, the call fails as
# it should. Hurt: callers of an API behind Cloudflare: during an outage, a delivery that was not resent, or an endpoint that was
# not created, looks as if it was.
# Source: https://github.com/astahmer/typed-openapi, https://developers.cloudflare.com/support/troubleshooting/http-status-codes/
# Usage: findings/typed-openapi-statuses.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund typed-openapi@2.2.7 typescript@5.9.3 tsx@4.23.15 @tanstack/react-query@5.108.4 react@19.3.1
cat > openapi.json <<'JSON'
{
  "openapi": "3.1.0", "info": {"title": "Deliveries", "version": "1"},
  "paths": {"/resend": {"post": {
    "operationId": "resend",
    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Delivery"}}}},
    "responses": {
      "200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Result"}}}},
      "default": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    }
  }}},
  "components": {"schemas": {
    "Delivery": {"type": "object", "properties": {"delivery_id": {"type": "string"}}},
    "Result": {"type": "object", "properties": {"message": {"type": "string"}}},
    "Problem": {"type": "object", "properties": {"code": {"type": "string"}}}
  }}
}
JSON
npx typed-openapi --help > help
grep --only-matching 'Comma-separated list of error status codes (defaults to 4xx and 5xx ranges)' help
codes=$(seq --separator=, 400 599)
for name in listed all; do
  options=()
  if [ $name = all ]; then options=(--error-status-codes "$codes"); fi
  mkdir $name
  (cd $name && npx typed-openapi ../openapi.json --output client.ts --default-fetcher --tanstack "${options[@]}" > log)
done
cat > check.mts <<'NODE'
import { createServer } from "node:http";
import { MutationObserver, QueryClient } from "@tanstack/react-query";

let status = 0;
const server = createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(status, { "content-type": "text/plain" }).end(`error code: ${status}`));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
process.env.API_BASE_URL = `http://127.0.0.1:${(server.address() as { port: number }).port}`;

for (const name of ["listed", "all"]) {
  const { api } = await import(`./${name}/api.client.ts`);
  const { TanstackQueryApiClient } = await import(`./${name}/tanstack.client.ts`);
  for (status of [401, 502, 520, 522, 530, 561]) {
    const called = await api.post("/resend", { body: {} }).then(
      (data: unknown) => `returns ${JSON.stringify(data)}`,
      (error: Error) => `throws ${error.name}`,
    );
    let result = "";
    const handlers = { onSuccess: () => (result = "onSuccess"), onError: () => (result = "onError") };
    const options = new TanstackQueryApiClient(api).mutation("post", "/resend").mutationOptions;
    // `useMutation` is this observer in a component.
    await new MutationObserver(new QueryClient(), { ...options, ...handlers }).mutate({ body: {} }).catch(() => {});
    const { ok } = await api.post("/resend", { body: {}, withResponse: true });
    console.log(`${name} ${status}: ${called}, ${result}, ok: ${ok}`);
  }
}
server.close();
NODE
seen=$(npx tsx check.mts)
echo "$seen"
[ "$seen" = 'listed 401: throws TypedStatusError, onError, ok: false
listed 502: throws TypedStatusError, onError, ok: false
listed 520: returns "error code: 520", onSuccess, ok: false
listed 522: returns "error code: 522", onSuccess, ok: false
listed 530: returns "error code: 530", onSuccess, ok: false
listed 561: returns "error code: 561", onSuccess, ok: false
all 401: throws TypedStatusError, onError, ok: false
all 502: throws TypedStatusError, onError, ok: false
all 520: throws TypedStatusError, onError, ok: false
all 522: throws TypedStatusError, onError, ok: false
all 530: throws TypedStatusError, onError, ok: false
all 561: throws TypedStatusError, onError, ok: false' ]
