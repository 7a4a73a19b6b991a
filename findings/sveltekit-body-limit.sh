#!/bin/bash
# A SvelteKit 2.70.4 application that is built with @sveltejs/adapter-node 5.5.7 takes request bodies up to 512 KB only.
# `vite dev` and `vite preview` of the same application take any size. Above the limit, `request.text()` and
# `request.arrayBuffer()` throw inside the handler, so one that reads and verifies a body in the same `try` answers 401, "bad
# signature", instead of 413. Hurt: receivers of webhooks that work locally: in production, each larger event fails, and the
# status points to the secret. `BODY_SIZE_LIMIT` raises the limit.
# Usage: findings/sveltekit-body-limit.sh. Needs Node.js 20, npm's registry and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund @sveltejs/kit@2.70.4 @sveltejs/adapter-node@5.5.7 svelte@5.57.3 vite@8.4.0 \
  @sveltejs/vite-plugin-svelte@7.3.1
mkdir -p src/routes/hook src/routes/uncaught
echo '%sveltekit.head% %sveltekit.body%' > src/app.html
cat > svelte.config.js <<'NODE'
import adapter from "@sveltejs/adapter-node";

export default { kit: { adapter: adapter() } };
NODE
cat > vite.config.js <<'NODE'
import { sveltekit } from "@sveltejs/kit/vite";

export default { plugins: [sveltekit()] };
NODE
cat > src/routes/hook/+server.js <<'NODE'
export async function POST({ request }) {
  try {
    const body = await request.text();
    // The signature is verified here.
    return new Response(null, { status: body ? 204 : 400 });
  } catch {
    return new Response(null, { status: 401 });
  }
}
NODE
cat > src/routes/uncaught/+server.js <<'NODE'
export async function POST({ request }) {
  await request.text();
  return new Response(null, { status: 204 });
}
NODE
npx vite build > log 2>&1
head --bytes=524288 /dev/zero | tr '\0' 1 > fits
head --bytes=524289 /dev/zero | tr '\0' 1 > larger
port=$((20000 + $$ % 12000))
changed=0

# Starts a server, and prints and compares the statuses of its responses.
expect() {
  local name=$1 expected=$2 seen=()
  "${@:3}" > log 2>&1 &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
  for request in fits:hook larger:hook larger:uncaught; do
    seen+=("$(curl --silent --output /dev/null --write-out '%{http_code}' --header 'content-type: application/json' \
      --data-binary "@${request%:*}" "http://127.0.0.1:$port/${request#*:}")")
  done
  kill -KILL $server
  wait $server 2> /dev/null || true
  echo "$name: 512 KB: ${seen[0]}; one byte more: ${seen[1]}, or ${seen[2]} if the error is not caught"
  [ "${seen[*]}" = "$expected" ] || changed=1
}

vite=node_modules/vite/bin/vite.js
expect 'vite dev' '204 204 204' node $vite dev --host 127.0.0.1 --port $port --strictPort
port=$((port + 1))
expect 'vite preview' '204 204 204' node $vite preview --host 127.0.0.1 --port $port --strictPort
port=$((port + 1))
expect 'node build' '204 401 413' env HOST=127.0.0.1 PORT=$port node build
port=$((port + 1))
expect 'with BODY_SIZE_LIMIT' '204 204 204' env HOST=127.0.0.1 PORT=$port BODY_SIZE_LIMIT=2M node build
exit $changed
