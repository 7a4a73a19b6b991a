#!/bin/bash
# openapi-to-postmanv2 6.3.3, the importer of Postman, turns optional headers on and gives each the same invented value,
# `<string>`, in all requests of a collection; `enableOptionalParameters: false` avoids it. Hurt: users of
# an API with an optional `idempotency-key`: the first call works, and each later one is answered as a repetition of the
# first, with 200 and no effect, or with 409.
# Usage: findings/postman-optional-headers.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts openapi-to-postmanv2@6.3.3
cat > convert.cjs <<'NODE'
const { convert } = require("openapi-to-postmanv2");

const parameter = { name: "idempotency-key", in: "header", required: false, schema: { type: "string" } };
const operation = { post: { parameters: [parameter], responses: { 200: { description: "Sent" } } } };
const data = { openapi: "3.0.3", info: { title: "Jobs", version: "1" }, paths: { "/send": operation, "/resend": operation } };
const requests = (item) => (item.item ? item.item.flatMap(requests) : [item.request]);

let failed = false;
for (const [options, expected] of [
  [{}, ["on: <string>", "on: <string>"]],
  [{ enableOptionalParameters: false }, ["off: <string>", "off: <string>"]],
]) {
  convert({ type: "json", data }, options, (_, { output }) => {
    const headers = requests(output[0].data).flatMap(({ header }) => header);
    const keys = headers.filter(({ key }) => key === "idempotency-key");
    const seen = keys.map(({ disabled, value }) => `${disabled ? "off" : "on"}: ${value}`);
    console.log(JSON.stringify(options), seen);
    failed ||= JSON.stringify(seen) !== JSON.stringify(expected);
  });
}
process.on("exit", () => { process.exitCode = failed ? 1 : 0; });
NODE
node convert.cjs
