#!/bin/bash
# @hey-api/openapi-ts 0.99.0 with its zod plugin writes TypeScript that does not compile if a pattern in an OpenAPI description
# contains `\u2028` or `\u2029`, as one that excludes line breaks does. The escapes are pure ASCII, but the plugin decodes
# them and writes a regular expression literal with the characters themselves, which end a line in JavaScript. It leaves
# `\n` as it is. Hurt: users of such an API, whose whole client is broken by one field, and its authors, whose description
# is valid.
# Usage: findings/zod-line-separator.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @hey-api/openapi-ts@0.99.0 typescript@5.9.3 zod@4.6.7
compiles() {
  npx openapi-ts --input api.json --output client --plugins @hey-api/typescript zod --silent > log 2>&1
  npx tsc --noEmit --skipLibCheck --module nodenext --target es2022 client/zod.gen.ts >> log
}
for pattern in '^[^\\n]+$' '^[^\\u2028\\u2029]+$'; do
  cat > api.json <<JSON
{
  "openapi": "3.1.0", "info": {"title": "Jobs", "version": "1"}, "paths": {},
  "components": {"schemas": {"Job": {"type": "object", "properties": {"name": {"type": "string", "pattern": "$pattern"}}}}}
}
JSON
  if compiles; then seen=compiles; else seen="$(grep -o 'error TS1161.*' log)"; fi
  echo "$pattern: $seen"
  case $pattern in
    *u2028*) [ "$seen" = "error TS1161: Unterminated regular expression literal." ] ;;
    *) [ "$seen" = compiles ] ;;
  esac
done
