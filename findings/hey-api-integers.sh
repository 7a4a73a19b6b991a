#!/bin/bash
# Of one property with `format: int64`, @hey-api/openapi-ts 0.99.0 with Zod 4.6.7 makes two types: `number` in its types, and
# `z.coerce.bigint()` in its schemas. A response that is parsed with the generated schema holds a bigint where the types of
# the same client say number, so it does not equal the number, and JSON.stringify fails. Hurt: users of APIs that describe
# counts or times as int64, however small they are.
# Usage: findings/hey-api-integers.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @hey-api/openapi-ts@0.99.0 typescript@5.9.3 zod@4.6.7
cat > openapi.json <<'JSON'
{
  "openapi": "3.1.0",
  "info": { "title": "Counts", "version": "1" },
  "paths": {},
  "components": {
    "schemas": {
      "Count": {
        "type": "object",
        "required": ["count"],
        "properties": { "count": { "type": "integer", "format": "int64" } }
      }
    }
  }
}
JSON
npx openapi-ts --input openapi.json --output client --plugins @hey-api/typescript zod --no-log-file > log
cat > parse.ts <<'TYPESCRIPT'
import type { Count } from "./client";
import { zCount } from "./client/zod.gen";

const typed: Count = { count: 7 };
const parsed = zCount.parse(typed);
const types: [number, bigint] = [typed.count, parsed.count];
let text: string;
try {
  text = JSON.stringify(parsed);
} catch (error) {
  text = String(error);
}
console.log(`in the types: ${typeof types[0]}; parsed: ${typeof types[1]}; as JSON: ${text}`);
if (typeof types[1] !== "bigint" || !text.startsWith("TypeError")) throw new Error("the behavior has changed");
TYPESCRIPT
npx tsc --skipLibCheck --strict --target es2022 --module node16 --lib es2022,dom --outDir js parse.ts
node js/parse.js
