#!/bin/bash
# openapi-zod-client 1.18.3 writes a client that does not compile if an optional choice lists null among its values, as in
# `"type": ["string", "null"], "enum": ["totp", null]`: OpenAPI's form of a nullable enum, also in 3.0 with `nullable`. It
# writes `z.enum(["totp", null])`, which zod's types reject. The same choice as an `anyOf` compiles. Hurt: users of such an
# API, whose whole client is broken by one field, and its authors, because JSON Schema requires the null in the list.
# Source: https://spec.openapis.org/oas/v3.0.4.html#data-types
# Usage: findings/openapi-zod-client-null.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts openapi-zod-client@1.18.3 @zodios/core@10.9.6 zod@3.25.76 \
  axios@1.13.2 typescript@5.9.3
# Makes a client from a description with this field, in this version of OpenAPI, and compares the result of the compiler.
expect() {
  local expected=$1 version=$2 field=$3 found=compiles
  cat > api.json <<JSON
{
  "openapi": "$version", "info": {"title": "Factors", "version": "1"},
  "paths": {"/enable": {"post": {
    "operationId": "enable", "responses": {"204": {"description": "Enabled"}},
    "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"method": $field}}}}}
  }}}
}
JSON
  npx openapi-zod-client api.json -o client.ts > log 2>&1
  npx tsc --noEmit --strict --skipLibCheck --module nodenext --target es2022 client.ts > log ||
    found=$(grep -o 'error TS[0-9]*' log | head -n 1)
  echo "$version, $field: $found"
  [ "$found" = "$expected" ]
}
expect compiles 3.1.0 '{"type": "string", "enum": ["totp"]}'
expect "error TS2769" 3.1.0 '{"type": ["string", "null"], "enum": ["totp", null]}'
expect "error TS2769" 3.0.4 '{"type": "string", "nullable": true, "enum": ["totp", null]}'
expect compiles 3.1.0 '{"anyOf": [{"type": "string", "enum": ["totp"]}, {"type": "null"}]}'
