#!/bin/bash
# Nitro 3.0.0, the version that npm installs, gives an empty body to the handler of a POST if a route rule such as
# `"/api/**": { swr: 60 }` or `{ cache: ... }` matches, or with `defineCachedHandler`. It does not cache a POST, but makes the
# request anew without its body, while `content-length` keeps its value. Nitro 2.13.6, with the same rule, and Nitro
# 3.0.260903-beta give the body. Hurt: receivers of webhooks beside cached routes of an API: no signature matches, or the
# handler reads an empty event and confirms it.
# Source: `defineCachedEventHandler` in `dist/runtime/internal/cache.mjs` of the package
# Usage: findings/nitro-cached-routes.sh. Needs Node.js 20, npm's registry, curl and jq. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
port=$((20000 + $$ % 12000))
receiver() { # the name of the folder, the package, its imports, its way to the body
  mkdir --parents "$folder/$1/routes"
  cd "$folder/$1"
  echo '{"private": true, "type": "module"}' > package.json
  npm install --silent --no-audit --no-fund "$2"
  cat > nitro.config.mjs <<'NODE'
export default {
  preset: "node-server",
  serverDir: ".",
  compatibilityDate: "2026-01-01",
  routeRules: { "/swr/**": { swr: 60 }, "/cache/**": { cache: { maxAge: 60 } } },
};
NODE
  for path in plain swr cache; do
    mkdir "routes/$path"
    cat > "routes/$path/hook.post.mjs" <<NODE
$3
export default handler(async (event) => ({ length: Number($4), body: await $5 }));
NODE
  done
}
receiver "Nitro 2" nitropack@2.13.6 'import { defineEventHandler as handler, getRequestHeader, readRawBody } from "h3";' \
  'getRequestHeader(event, "content-length")' 'readRawBody(event)'
for version in 3.0.0 3.0.260903-beta; do
  receiver "Nitro $version" "nitro@$version" 'import { defineHandler as handler } from "nitro/h3";' \
    'event.req.headers.get("content-length")' 'event.req.text()'
done
seen=()
for name in 'Nitro 2' 'Nitro 3.0.0' 'Nitro 3.0.260903-beta'; do
  cd "$folder/$name"
  if [ "$name" = 'Nitro 2' ]; then build=(nitropack); else build=(nitro); fi
  npx "${build[@]}" build > build.log 2>&1 || { cat build.log; exit 1; }
  PORT=$port HOST=127.0.0.1 node .output/server/index.mjs > log 2>&1 &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
  for path in plain swr cache; do
    response=$(curl --silent --header 'content-type: application/json' --data '{"n":1}' "http://127.0.0.1:$port/$path/hook")
    echo "$name, $path: $response"
    seen+=("$(jq --raw-output '"\(.length):\(.body)"' <<< "$response")")
  done
  kill "$server" && wait "$server" || true
done
whole='7:{"n":1}'
[ "${seen[*]}" = "$whole $whole $whole $whole 7: 7: $whole $whole $whole" ]
