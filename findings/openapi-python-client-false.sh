#!/bin/bash
# openapi-python-client 0.29.1 makes no client at all of an OpenAPI 3.1 document with the schema `false`, which JSON Schema
# permits wherever a schema is, such as in `items: false` at the end of a tuple. A validator of OpenAPI accepts the document,
# and one such schema in any unused component is enough. Hurt: users of services whose descriptions have tuples of a fixed
# length.
# Source: https://json-schema.org/understanding-json-schema/reference/array#tupleValidation
# Usage: findings/openapi-python-client-false.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openapi-python-client==0.29.1 openapi-spec-validator==0.9.0
echo 'post_hooks: []' > config.yaml
made() {
  cat > openapi.json <<JSON
{
  "openapi": "3.1.0",
  "info": { "title": "Points", "version": "1" },
  "paths": { "/": { "get": { "operationId": "get", "responses": { "204": { "description": "Done." } } } } },
  "components": {
    "schemas": { "Point": { "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "integer" }]$1 } }
  }
}
JSON
  venv/bin/openapi-spec-validator openapi.json > /dev/null
  rm -rf client
  venv/bin/openapi-python-client generate --path openapi.json --output-path client --meta none --config config.yaml > log 2>&1 || true
  [ -e client ]
}
made ''
echo "an open tuple: a client"
if made ', "items": false'; then exit 1; fi
echo "a closed tuple: no client: $(grep --max-count 1 Input log)"
