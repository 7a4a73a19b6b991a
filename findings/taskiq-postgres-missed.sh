#!/bin/bash
# A worker of taskiq-postgres 0.9.1 runs only those tasks whose NOTIFY it hears. The tasks are in a table, which no
# worker looks through: those that were added while no worker was connected stay `pending`, also after the workers have
# started and run newer ones. A task with a `delay` waits in the memory of the process that added it, so a restart of
# that process leaves the task in the table, too. After a restart of PostgreSQL 15, a worker with AsyncpgBroker hears
# nothing more, without ending, until it is restarted. The README calls it a message broker, and names none of this. A
# receiver should notify the workers again of each row that is `pending`, when they start and from time to time. Hurt:
# receivers of webhooks that answer 204 once the event is in the table: the events of each deployment of the workers,
# and after a failover all of them, are never processed, although they are stored.
# Source: https://github.com/danfimov/taskiq-postgres
# Usage: findings/taskiq-postgres-missed.sh. Needs apt-get of Debian 12, Python 3.11 with pip, PyPI, and setpriv if it
# runs as root. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${worker:-}" "${server:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libldap-2.5-0=2.5.13+dfsg-5 libpq5=15.20-0+deb12u1 \
  postgresql-15=15.20-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check asyncpg==0.32.0 taskiq==0.13.0 taskiq-postgres==0.9.1
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
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu exec "${other[@]}" "usr/lib/postgresql/15/bin/$1" \
    -D "$folder/data" "${@:2}"
}
start_server() {
  run_postgres postgres -k "$folder/data" -h 127.0.0.1 -p "$port" -c jit=off >> postgres.log 2>&1 &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
  sleep 1
}
(run_postgres initdb --username postgres --auth trust --no-sync > initdb.log)
start_server

cat > tasks.py <<'PYTHON'
import os, pathlib
from taskiq_pg.asyncpg import AsyncpgBroker

broker = AsyncpgBroker(os.environ["DATABASE"])


@broker.task
async def process(name):
    with pathlib.Path("processed").open("a") as file:
        print(name, file=file)
PYTHON
cat > add.py <<'PYTHON'
import asyncio, sys
from tasks import broker, process


async def main(name, delay=None):
    await broker.startup()
    labels = {"delay": int(delay)} if delay else {}
    await process.kicker().with_labels(**labels).kiq(name)
    await broker.shutdown()


asyncio.run(main(*sys.argv[1:]))
PYTHON
cat > notify.py <<'PYTHON'
import asyncio, os
import asyncpg


async def main():
    connection = await asyncpg.connect(os.environ["DATABASE"])
    await connection.execute("SELECT pg_notify('taskiq', id::text) FROM taskiq_messages WHERE status = 'pending'")
    await connection.close()


asyncio.run(main())
PYTHON
python() { PYTHONPATH=. environment/bin/python "$@"; }
start_worker() {
  PYTHONPATH=. environment/bin/taskiq worker tasks:broker > worker.log 2>&1 &
  worker=$!
  # It starts two processes.
  for _ in {1..200}; do
    [ "$(grep -c "Listening started" worker.log)" = 2 ] && break
    sleep 0.1
  done
  sleep 1
}
stop_worker() {
  local children
  children=$(cat "/proc/$worker/task/$worker/children")
  kill "$worker"
  for _ in {1..30}; do
    kill -0 "$worker" 2> /dev/null || break
    sleep 0.1
  done
  # After the restart of PostgreSQL, the worker does not end at a SIGTERM.
  # shellcheck disable=SC2086
  kill -9 "$worker" $children 2> /dev/null || true
  wait "$worker" 2> /dev/null || true
}
times() {
  for _ in {1..40}; do
    grep -qx "$1" processed 2> /dev/null && break
    sleep 0.1
  done
  sleep 1
  grep -cx "$1" processed || true
}
start_worker
python add.py present
seen="with a worker: $(times present)"
stop_worker
python add.py deployment
python add.py delayed 1
start_worker
python add.py newer
seen+="
after its restart: newer $(times newer), added before $(times deployment), delayed $(times delayed)"
python notify.py
seen+="
after NOTIFY: added before $(times deployment), delayed $(times delayed)"
kill -INT "$server"
wait "$server" || true
start_server
python add.py database
seen+="
after a restart of PostgreSQL: $(times database)"
kill -0 "$worker" && seen+=", the worker runs"
stop_worker
start_worker
python notify.py
seen+="
after a restart of the worker, and NOTIFY: $(times database)"
stop_worker
echo "$seen"
[ "$seen" = "with a worker: 1
after its restart: newer 1, added before 0, delayed 0
after NOTIFY: added before 1, delayed 1
after a restart of PostgreSQL: 0, the worker runs
after a restart of the worker, and NOTIFY: 1" ]
