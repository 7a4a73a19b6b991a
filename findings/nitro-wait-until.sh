#!/bin/bash
# The Node.js servers of Nitro 2.13.6, which Nuxt uses, and Nitro 3.0.0 end at a SIGTERM without waiting for the work of
# `event.waitUntil`, with the status 0 and no warning, although they wait up to 30 seconds for a request in progress. Nitro
# 3.0.260903-beta waits for it. Hurt: receivers of webhooks that answer 204 and process the event in `waitUntil`: at each
# deployment, events that count as delivered are lost.
# Sources: https://nitro.build/deploy/runtimes/node and `setupGracefulShutdown` in `nitropack/dist/runtime/internal/shutdown.mjs`
# Usage: findings/nitro-wait-until.sh. Needs Node.js 20, npm's registry and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
port=$((20000 + $$ % 12000))
receiver() { # the name of the folder, the package, the imports, the object with `waitUntil`
  mkdir --parents "$folder/$1/routes"
  cd "$folder/$1"
  echo '{"private": true, "type": "module"}' > package.json
  npm install --silent --no-audit --no-fund "$2"
  echo 'export default { preset: "node-server", serverDir: ".", compatibilityDate: "2026-01-01" };' > nitro.config.mjs
  cat > routes/request.post.mjs <<NODE
import { writeFileSync } from "node:fs";
$3
export default handler(async () => {
  writeFileSync("begun", "");
  await new Promise((resolve) => setTimeout(resolve, 4000));
  writeFileSync("done", "");
  return null;
});
NODE
  cat > routes/wait-until.post.mjs <<NODE
import { writeFileSync } from "node:fs";
$3
export default handler(async (event) => {
  const work = async () => {
    writeFileSync("begun", "");
    await new Promise((resolve) => setTimeout(resolve, 4000));
    writeFileSync("done", "");
  };
  $4.waitUntil(work());
  return null;
});
NODE
}
receiver 'Nitro 2' nitropack@2.13.6 'import { defineEventHandler as handler } from "h3";' event
receiver 'Nitro 3.0.0' nitro@3.0.0 'import { defineHandler as handler } from "nitro/h3";' event
receiver 'Nitro 3.0.260903-beta' nitro@3.0.260903-beta 'import { defineHandler as handler } from "nitro/h3";' event
seen=()
for name in 'Nitro 2' 'Nitro 3.0.0' 'Nitro 3.0.260903-beta'; do
  cd "$folder/$name"
  if [ "$name" = 'Nitro 2' ]; then build=nitropack; else build=nitro; fi
  npx "$build" build > build.log 2>&1 || { cat build.log; exit 1; }
  for path in request wait-until; do
    [[ $name$path == *betarequest ]] && continue
    rm -f begun done
    PORT=$port HOST=127.0.0.1 node .output/server/index.mjs > log 2>&1 &
    server=$!
    for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
    curl --silent --output body --write-out '%{http_code}' --request POST "http://127.0.0.1:$port/$path" > status &
    client=$!
    for _ in {1..100}; do [ -e begun ] && break; sleep 0.1; done
    sleep 0.3
    kill "$server"
    wait "$client" || true
    wait "$server" && end=0 || end=$?
    if [ -e done ]; then work=done; else work=lost; fi
    echo "$name, $path: $(< status), $work, ended with $end"
    seen+=("$(< status):$work")
  done
done
[ "${seen[*]}" = '204:done 204:lost 200:done 200:lost 200:done' ]
