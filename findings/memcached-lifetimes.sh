#!/bin/bash
# memcached 1.6.18 (Debian 12) takes a lifetime of more than 30 days as a time since 1970, so 31 days are long over: it
# answers STORED, and the item is gone at once. `add` of pymemcache 4.0.0, python-memcached 1.62, aiomcache 0.8.2, and
# npm's memjs 1.3.2 and memcached 2.2.2 therefore answers true each time. Django 5.2.19 and cachelib 0.17.0 send the
# time of the end instead, and npm's memcache 1.10.0 raises an error. Hurt: receivers of webhooks that keep the ids of
# events for longer than a sender can resend them, such as 31 days for a log of 30: no duplicate is ever found, without
# an error, and all tests with shorter lifetimes pass. Use 30 days at most, or send the time of the end.
# Source: https://github.com/memcached/memcached/blob/master/doc/protocol.txt
# Usage: findings/memcached-lifetimes.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libevent-2.1-7=2.1.12-stable-8+deb12u1 \
  memcached=1.6.18-1+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check aiomcache==0.8.2 cachelib==0.17.0 Django==5.2.19 \
  pymemcache==4.0.0 python-memcached==1.62
npm install --silent --no-audit --no-fund --ignore-scripts memcache@1.10.0 memcached@2.2.2 memjs@1.3.2
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/memcached -u "$(id --user --name)" -l 127.0.0.1 -p "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > clients.py <<'PYTHON'
import asyncio, sys
import aiomcache, django, memcache, pymemcache
from cachelib import MemcachedCache
from django.conf import settings

port = int(sys.argv[1])
address = f"127.0.0.1:{port}"
backend = {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache", "LOCATION": address}
settings.configure(CACHES={"default": backend})
django.setup()
from django.core.cache import cache


async def with_aiomcache(id, seconds):
    client = aiomcache.Client("127.0.0.1", port)
    try:
        return await client.add(id.encode(), b"1", exptime=seconds)
    finally:
        await client.close()


clients = {
    "pymemcache": lambda id, seconds: pymemcache.Client(("127.0.0.1", port)).add(id, "1", seconds, noreply=False),
    "python-memcached": lambda id, seconds: bool(memcache.Client([address]).add(id, "1", seconds)),
    "aiomcache": lambda id, seconds: asyncio.run(with_aiomcache(id, seconds)),
    "Django": lambda id, seconds: cache.add(id, "1", seconds),
    "cachelib": lambda id, seconds: bool(MemcachedCache([address]).add(id, "1", seconds)),
}
for days in [30, 31]:
    for name, add in clients.items():
        found = [add(f"{name}{days}", days * 86400) for _ in range(2)]
        print(f"{days} days, {name}: {found[0]}, {found[1]}")
PYTHON
cat > clients.cjs <<'NODE'
const Memcached = require("memcached");
const memjs = require("memjs");

async function main(address) {
  const { Memcache } = await import("memcache");
  const [first, second, third] = [memjs.Client.create(address), new Memcached(address), new Memcache({ nodes: [address] })];
  const clients = {
    memjs: (id, expires) => first.add(id, "1", { expires }),
    memcached: (id, seconds) =>
      new Promise((resolve) => second.add(id, "1", seconds, (_error, isNew) => resolve(Boolean(isNew)))),
    memcache: (id, seconds) => third.add(id, "1", seconds),
  };
  for (const days of [30, 31]) {
    for (const [name, add] of Object.entries(clients)) {
      const found = [];
      for (let times = 0; times < 2; times++) {
        found.push(await add(`${name}-${days}`, days * 86400).then((isNew) => (isNew ? "True" : "False"), () => "error"));
      }
      console.log(`${days} days, ${name}: ${found.join(", ")}`);
    }
  }
  process.exit();
}

main(process.argv[2]);
NODE
{ python/bin/python clients.py "$port"; node clients.cjs "127.0.0.1:$port"; } | tee seen
for name in pymemcache python-memcached aiomcache memjs memcached; do
  grep --quiet --line-regexp "30 days, $name: True, False" seen
  grep --quiet --line-regexp "31 days, $name: True, True" seen
done
for name in Django cachelib; do grep --quiet --line-regexp "31 days, $name: True, False" seen; done
grep --quiet --line-regexp "31 days, memcache: error, error" seen
