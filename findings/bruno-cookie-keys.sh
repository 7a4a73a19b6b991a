#!/bin/bash
# Bruno's importer (@usebruno/converters 0.23.0) makes a header of an API key that a description of OpenAPI places in a cookie: a
# request with `Cookie: session=...` becomes one with the header `session: ...`, without a warning, so each call gets 401.
# Keys in a header and in the query are right. It also gives all keys of a description the same variable, `apiKey`, so a value
# that is set for one is sent as the others, too. Hurt: callers of an API with sessions, and those who import an API with
# both: their session goes out in the header of the key.
# Source: https://spec.openapis.org/oas/v3.1.1.html#security-scheme-object
# Usage: findings/bruno-cookie-keys.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @usebruno/converters@0.23.0
cat > import.cjs <<'NODE'
const { openApiToBruno } = require("@usebruno/converters");

const places = ["header", "query", "cookie"];
const responses = { 204: { description: "Done" } };
const { items } = openApiToBruno({
  openapi: "3.1.0",
  info: { title: "Jobs", version: "1" },
  servers: [{ url: "http://127.0.0.1:9000" }],
  paths: Object.fromEntries(places.map((place) => [`/${place}`, { get: { operationId: place, security: [{ [place]: [] }], responses } }])),
  components: {
    securitySchemes: Object.fromEntries(places.map((place) => [place, { type: "apiKey", in: place, name: `by-${place}` }])),
  },
});
const requests = (list) => list.flatMap((item) => (item.items ? requests(item.items) : [item.request]));
const expected = {
  header: { headers: ["by-header: {{apiKey}}"], query: [] },
  query: { headers: [], query: ["by-query: {{apiKey}}"] },
  cookie: { headers: ["by-cookie: {{apiKey}}"], query: [] },
};
for (const place of places) {
  const request = requests(items).find(({ url }) => url.endsWith(`/${place}`));
  const lines = (list) => list.map(({ name, value }) => `${name}: ${value}`);
  const found = { headers: lines(request.headers), query: lines(request.params.filter(({ type }) => type === "query")) };
  console.log(`${place}: ${JSON.stringify(found)} ${JSON.stringify(request.auth.apikey)}`);
  if (JSON.stringify(found) !== JSON.stringify(expected[place])) process.exit(1);
}
NODE
node import.cjs
