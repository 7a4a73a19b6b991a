#!/bin/bash
# json-schema-to-typescript 16.0.0 types a property that permits any JSON as an object once it has a description: `{}` becomes
# `unknown`, and `{"description": "..."}` becomes `{[k: string]: unknown}`, to which neither a text nor a number nor null can
# be assigned. quicktype 26.0.0 makes both `unknown`. Hurt: producers of events in TypeScript who generate the type of an
# event from its published schema: correct events do not compile, and they wrap a value in an object to please the compiler.
# Usage: findings/json2ts-any-value.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund json-schema-to-typescript@16.0.0 typescript@5.9.3 quicktype@26.0.0
cat > schema.json <<'JSON'
{
  "type": "object",
  "additionalProperties": false,
  "required": ["bare", "described"],
  "properties": {"bare": {}, "described": {"description": "Any JSON."}}
}
JSON
npx json2ts --input schema.json --output json2ts.ts --bannerComment ''
npx quicktype --src-lang schema --lang typescript --just-types --top-level Schema --out quicktype.ts schema.json 2> /dev/null
changed=0

# Compiles the assignment of a text to a property of a generated type.
expect() {
  local seen=compiles
  printf 'import type { Schema } from "./%s.js";\nexport const value: Schema["%s"] = "nightly";\n' "$1" "$2" > use.ts
  npx tsc --strict --noEmit --skipLibCheck use.ts > log || seen=fails
  echo "$1: a text for the $2 property $seen"
  [ $seen = "$3" ] || { cat log; changed=1; }
}

expect json2ts bare compiles
expect json2ts described fails
expect quicktype bare compiles
expect quicktype described compiles
exit $changed
