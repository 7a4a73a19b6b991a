#!/bin/bash
# node-redis 4.7.1, 5.12.1 and 6.3.1 ignore the options of `set` in the forms of node-redis 3 and ioredis, `set(id, value,
# "EX", 60, "NX")`, and of Upstash and redis-py, `{ ex: 60, nx: true }`, without an error: they send a plain SET, which
# overwrites the key, answers OK each time and never expires. `{ EX: 60, NX: true }` works. In TypeScript, both are errors. Hurt:
# receivers of webhooks in JavaScript that store each `webhook-id` like this and were updated from node-redis 3 or changed
# from ioredis: they process each duplicate again, and fill Redis.
# Source: https://github.com/redis/node-redis/blob/master/docs/v3-to-v4.md
# Usage: findings/node-redis-set-options.sh. Needs apt-get of Debian 12, Node.js 20, and npm's registry. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund redis-3@npm:redis@3.1.2 redis-4@npm:redis@4.7.1 redis-5@npm:redis@5.12.1 \
  redis-6@npm:redis@6.3.1 ioredis@5.11.1
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > log &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
cat > set.mjs <<'NODE'
import { promisify } from "node:util";
import Redis from "ioredis";
import redis3 from "redis-3";

const port = Number(process.argv[2]);
const older = redis3.createClient(port, "127.0.0.1");
const clients = {
  "node-redis 3": { set: promisify(older.set).bind(older), ttl: promisify(older.ttl).bind(older) },
  ioredis: new Redis(port, "127.0.0.1"),
};
for (const version of [4, 5, 6]) {
  const { createClient } = await import(`redis-${version}`);
  clients[`node-redis ${version}`] = await createClient({ socket: { host: "127.0.0.1", port } }).connect();
}
const forms = { arguments: ["EX", 60, "NX"], "lower case": [{ ex: 60, nx: true }], "upper case": [{ EX: 60, NX: true }] };
for (const [form, options] of Object.entries(forms)) {
  for (const [name, client] of Object.entries(clients)) {
    if (form !== "arguments" && !/[4-6]/.test(name)) continue;
    const id = `${name}, ${form}`;
    const results = [await client.set(id, "1", ...options), await client.set(id, "1", ...options)];
    console.log(`${id}: ${results.join(" then ")}${results[1] === null ? "null" : ""}, expires: ${(await client.ttl(id)) > 0}`);
  }
}
process.exit();
NODE
seen=$(node set.mjs "$port")
echo "$seen"
[ "$seen" = "node-redis 3, arguments: OK then null, expires: true
ioredis, arguments: OK then null, expires: true
node-redis 4, arguments: OK then OK, expires: false
node-redis 5, arguments: OK then OK, expires: false
node-redis 6, arguments: OK then OK, expires: false
node-redis 4, lower case: OK then OK, expires: false
node-redis 5, lower case: OK then OK, expires: false
node-redis 6, lower case: OK then OK, expires: false
node-redis 4, upper case: OK then null, expires: true
node-redis 5, upper case: OK then null, expires: true
node-redis 6, upper case: OK then null, expires: true" ]
