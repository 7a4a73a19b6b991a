#!/bin/bash
# If the connection breaks after Redis has run a command and before its reply has arrived, ioredis 5.11.1, iovalkey 0.4.0,
# redis-py 8.1.0 and Debian's ruby-redis 4.8.0 connect again and send the command again, by default. `SET id 1 NX` then finds
# the key that it wrote itself, and returns null, None or false without an error, as for a key of another request; INCR counts
# twice. redis-py 5.3.1 and node-redis 6.3.1 raise an error. Hurt: receivers of webhooks that store each `webhook-id` with
# SET NX and answer 200 to a duplicate: after a restart of a proxy or a failover, a new event looks like a duplicate and is
# lost. Store a value of this attempt with `SET id VALUE NX GET`: its result is null or this value for a new event.
# Source: https://redis.readthedocs.io/en/stable/retry.html and https://github.com/redis/ioredis#auto-reconnect
# Usage: findings/redis-repeated-commands.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# PyPI, and Ruby 3.1. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" "${proxy:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3 ruby-redis=4.8.0-1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund ioredis@5.11.1 iovalkey@0.4.0 redis@6.3.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check redis==8.1.0
python3 -m venv older
older/bin/pip install --quiet --disable-pip-version-check redis==5.3.1
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port $((port - 10000)) --save "" > log &
server=$!

# Passes on all bytes, but closes a connection before the reply to the first command with a key "once-...".
cat > proxy.py <<'PYTHON'
import asyncio, re, sys

cut = set()


async def pass_on(source, sink, cuts):
    while data := await source.read(65536):
        sink.write(data)
        key = re.search(rb"once-[-.\w]+", data) if cuts else None
        if key and key[0] not in cut:
            cut.add(key[0])
            return


async def connection(reader, writer):
    from_redis, to_redis = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    replies = asyncio.ensure_future(pass_on(from_redis, writer, False))
    await pass_on(reader, to_redis, True)
    replies.cancel()
    await asyncio.sleep(0.2)
    to_redis.close()
    writer.close()


async def main():
    async with await asyncio.start_server(connection, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()


asyncio.run(main())
PYTHON
python3 proxy.py "$port" $((port - 10000)) 2> proxy.log &
proxy=$!
for used in "$port" $((port - 10000)); do
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$used") 2> /dev/null && break; sleep 0.1; done
done

cat > store.mjs <<'NODE'
import Redis from "ioredis";
import Valkey from "iovalkey";
import { createClient } from "redis";

const [host, port] = ["127.0.0.1", Number(process.argv[2])];
for (const [name, Client] of Object.entries({ ioredis: Redis, iovalkey: Valkey })) {
  const client = new Client({ host, port });
  const stored = await client.set(`once-${name}`, "1", "EX", 60, "NX");
  const count = await client.incr(`once-count-${name}`);
  const value = await client.set(`once-value-${name}`, "of this attempt", "EX", 60, "NX", "GET");
  console.log(`${name}: SET NX: ${stored}, INCR: ${count}, SET NX GET: ${value}`);
  client.disconnect();
}
const client = createClient({ socket: { host, port } });
client.on("error", () => {});
await client.connect();
const stored = await client.set("once-node", "1", { EX: 60, NX: true }).catch(({ message }) => message);
console.log(`node-redis: SET NX: ${stored}`);
process.exit();
NODE
cat > store.py <<'PYTHON'
import sys
import redis

client, version = redis.Redis(port=int(sys.argv[1])), redis.__version__


def seen(call):
    try:
        return call()
    except redis.ConnectionError as error:
        return type(error).__name__


stored = seen(lambda: client.set(f"once-py{version}", "1", nx=True, ex=60))
count = seen(lambda: client.incr(f"once-count{version}"))
value = seen(lambda: client.set(f"once-value{version}", "of this attempt", nx=True, get=True, ex=60))
print(f"redis-py {version}: SET NX: {stored}, INCR: {count}, SET NX GET: {value}")
PYTHON
cat > store.rb <<'RUBY'
require "redis"
client = Redis.new(host: "127.0.0.1", port: ARGV[0].to_i)
stored = client.set("once-ruby", "1", nx: true, ex: 60)
count = client.incr("once-count-ruby")
puts "ruby-redis: SET NX: #{stored}, INCR: #{count}"
RUBY
seen=$(
  node store.mjs "$port"
  python/bin/python store.py "$port"
  older/bin/python store.py "$port"
  ruby -I usr/share/rubygems-integration/all/gems/redis-4.8.0/lib store.rb "$port"
)
echo "$seen"
[ "$seen" = "ioredis: SET NX: null, INCR: 2, SET NX GET: of this attempt
iovalkey: SET NX: null, INCR: 2, SET NX GET: of this attempt
node-redis: SET NX: Socket closed unexpectedly
redis-py 8.1.0: SET NX: None, INCR: 2, SET NX GET: b'of this attempt'
redis-py 5.3.1: SET NX: ConnectionError, INCR: ConnectionError, SET NX GET: ConnectionError
ruby-redis: SET NX: false, INCR: 2" ]
