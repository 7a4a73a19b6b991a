#!/bin/bash
# A listener of asyncpg 0.32.0 gets no notification any more once PostgreSQL 15 has been restarted, or its connection was ended,
# and no error: `add_listener` has no result to wait for, nothing is raised or logged, and the process goes on. psycopg 3.3.9's
# `notifies()` raises OperationalError, node-postgres 8.23.1 emits `error`, and postgres.js 3.4.9 connects and listens again.
# Hurt: receivers of webhooks that store each event in a table and wake the worker with NOTIFY: after a restart or failover of
# the database, events are answered with 204 and wait, until the worker is restarted. `add_termination_listener` tells the
# worker, which should then end or listen again; a worker should also look at the table from time to time.
# Source: https://magicstack.github.io/asyncpg/current/api/index.html#asyncpg.connection.Connection.add_listener
# Usage: findings/asyncpg-listeners.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, PyPI, and
# setpriv if it runs as root. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${python:-}" "${node:-}" "${server:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libldap-2.5-0=2.5.13+dfsg-5 libpq5=15.20-0+deb12u1 \
  postgresql-15=15.20-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund pg@8.23.1 postgres@3.4.9
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check asyncpg==0.32.0 psycopg-binary==3.3.9 psycopg==3.3.9
port=$((20000 + $$ % 12000))
export DATABASE=postgresql://postgres@127.0.0.1:$port/postgres
# PostgreSQL does not run as root.
mkdir data
other=()
if [ "$(id --user)" = 0 ]; then
  chmod 711 .
  chown 65534 data
  other=(setpriv --reuid 65534 --clear-groups)
fi
run_postgres() {
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu exec "${other[@]}" "usr/lib/postgresql/15/bin/$1" -D "$folder/data" "${@:2}"
}
start() {
  run_postgres postgres -k "$folder/data" -h 127.0.0.1 -p "$port" -c jit=off >> postgres.log 2>&1 &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
  sleep 1
}
(run_postgres initdb --username postgres --auth trust --no-sync > initdb.log)
start

cat > listen.py <<'PYTHON'
import asyncio, os
import asyncpg, psycopg


async def listen_with_psycopg():
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE"], autocommit=True) as connection:
        await connection.execute("LISTEN events")
        try:
            async for notification in connection.notifies():
                print(f"psycopg: {notification.payload}", flush=True)
        except psycopg.OperationalError as error:
            print(f"psycopg: {type(error).__name__}", flush=True)


async def main():
    connection = await asyncpg.connect(os.environ["DATABASE"])
    await connection.add_listener("events", lambda *values: print(f"asyncpg: {values[3]}", flush=True))
    other = await asyncpg.connect(os.environ["DATABASE"])
    await other.add_listener("events", lambda *values: None)
    other.add_termination_listener(lambda _: print("asyncpg, add_termination_listener: ended", flush=True))
    psycopg_listener = asyncio.create_task(listen_with_psycopg())
    while True:
        await asyncio.sleep(1)


asyncio.run(main())
PYTHON
cat > listen.mjs <<'NODE'
import pg from "pg";
import postgres from "postgres";

const client = new pg.Client(process.env.DATABASE);
await client.connect();
let ended = false;
client.on("error", () => {
  if (!ended) console.log("node-postgres: error");
  ended = true;
});
client.on("notification", ({ payload }) => console.log(`node-postgres: ${payload}`));
await client.query("LISTEN events");
await postgres(process.env.DATABASE).listen("events", (payload) => console.log(`postgres.js: ${payload}`));
NODE
notify() {
  environment/bin/python -c 'import os, psycopg, sys
with psycopg.connect(os.environ["DATABASE"]) as connection: connection.execute("SELECT pg_notify(%s, %s)", ("events", sys.argv[1]))' "$1"
}
environment/bin/python listen.py > python.log 2> errors.log &
python=$!
node listen.mjs > node.log &
node=$!
for _ in {1..100}; do
  notify ready
  [ "$(cat python.log node.log | grep --count ready)" -ge 4 ] && break
  sleep 0.3
done
notify "an event"
sleep 1
kill -INT "$server"
wait "$server" || true
sleep 1
start
sleep 5
notify "an event after the restart"
sleep 3
kill -0 "$python"
seen=$(cat python.log node.log | grep --invert-match ready | LC_ALL=C sort)
echo "$seen"
echo "asyncpg's errors: $(wc --lines < errors.log) lines"
[ ! -s errors.log ]
[ "$seen" = "asyncpg, add_termination_listener: ended
asyncpg: an event
node-postgres: an event
node-postgres: error
postgres.js: an event
postgres.js: an event after the restart
psycopg: OperationalError
psycopg: an event" ]
