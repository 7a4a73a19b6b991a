#!/bin/bash
# workerd 1.20260730.1, the server of Cloudflare Workers that npm's newest Miniflare 4.20260730.0 brings, completes a chunked
# 200 whose body fails: after the error of a `ReadableStream`, or the `abort` of a `TransformStream`, it sends the last chunk
# and logs the error. workerd 1.20261117.1 and Deno 2.9.6 break off the same response. workerd 1.20261117.1 also ends at a
# SIGTERM without waiting for the work of `ctx.waitUntil`, although it waits for a request in progress. Hurt: receivers of
# webhooks that run workerd: an event that failed counts as delivered, and so does one whose work a deployment ended.
# Source: https://developers.cloudflare.com/workers/runtime-apis/streams/
# Usage: findings/workerd-cut-responses.sh. Needs npm's registry and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund deno@2.9.6 new@npm:workerd@1.20261117.1 \
  old@npm:workerd@1.20260730.1
port=$((20000 + $$ % 12000))
cat > receiver.js <<'NODE'
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const text = new TextEncoder().encode("working");

const routes = {
  "/stream": () => {
    let pulls = 0;
    const pull = async (controller) => {
      pulls += 1;
      if (pulls === 1) return controller.enqueue(text);
      await wait(100);
      throw new Error("failed");
    };
    return new Response(new ReadableStream({ pull }));
  },
  "/transform": () => {
    const { readable, writable } = new TransformStream();
    const work = async () => {
      const writer = writable.getWriter();
      await writer.write(text);
      await wait(100);
      await writer.abort(new Error("failed"));
    };
    work();
    return new Response(readable);
  },
  "/request": async () => {
    await wait(2000);
    console.log("done: /request");
    return new Response(null, { status: 204 });
  },
  "/wait-until": (context) => {
    const work = async () => {
      await wait(2000);
      console.log("done: /wait-until");
    };
    context.waitUntil(work());
    return new Response(null, { status: 204 });
  },
};
export default {
  async fetch(request, environment, context) {
    await request.arrayBuffer();
    return routes[new URL(request.url).pathname](context);
  },
};
NODE
cat > config.capnp <<CAPNP
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .receiver)],
  sockets = [(name = "http", address = "127.0.0.1:$port", http = (), service = "main")],
);
const receiver :Workerd.Worker = (
  modules = [(name = "receiver.js", esModule = embed "receiver.js")],
  compatibilityDate = "2026-01-01",
);
CAPNP
start() {
  "$@" > log 2>&1 &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
}
post() {
  curl --silent --max-time 15 --output body --write-out '%{http_code}' --data '{}' "http://127.0.0.1:$port$1" \
    && echo ' complete' || echo ' broken off'
}
stop() {
  kill "$server"
  wait "$server" || true
}
seen=()
for version in old new; do
  start "node_modules/$version/bin/workerd" serve config.capnp
  for path in /stream /transform; do
    seen+=("$(post $path)")
    echo "workerd, $version, $path: ${seen[-1]}"
  done
  stop
done
for path in /request /wait-until; do
  start node_modules/new/bin/workerd serve config.capnp
  post $path > status &
  client=$!
  sleep 0.7
  stop
  wait "$client"
  seen+=("$(< status), $(grep --quiet "done: $path" log && echo done || echo lost)")
  echo "workerd, new, $path, SIGTERM: ${seen[-1]}"
done
start node_modules/.bin/deno serve --quiet --host 127.0.0.1 --port "$port" receiver.js
for path in /stream /transform; do
  seen+=("$(post $path)")
  echo "Deno, $path: ${seen[-1]}"
done
expected=(
  '200 complete' '200 complete' '200 broken off' '200 broken off' '204 complete, done' '204 complete, lost'
  '200 broken off' '200 broken off'
)
[ "${seen[*]}" = "${expected[*]}" ]
