#!/bin/bash
# Three queues in PostgreSQL that do not run a job again soon if its worker was ended by a SIGKILL, an out-of-memory kill or a
# failure of its machine, although the first two have retries. procrastinate 3.10.0 leaves it in the state "doing": a later
# worker removes the dead one from its list, but runs the job only if the program looks for stalled jobs itself. graphile-worker
# 0.17.3 runs it after four hours, whatever its options. django-tasks-db 0.13.0, the database backend for Django's tasks, leaves
# it RUNNING forever. Hurt: receivers of webhooks that answer 204 once the event is in such a queue: the events in progress are
# lost, or are processed hours later than newer ones, without an error. With procrastinate, retry the result of
# `get_stalled_jobs()` in a periodic task; with graphile-worker, call `forceUnlockWorkers` with the id of the dead worker; with
# django-tasks-db, set tasks that have been RUNNING for too long to READY.
# Source: sql/resetLockedAt.js of graphile-worker, `get_stalled_jobs` in procrastinate/manager.py, and
# https://github.com/RealOrangeOne/django-tasks/issues/46
# Usage: findings/queue-killed-workers.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, PyPI,
# and setpriv if it runs as root. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${worker:-}" "${server:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libldap-2.5-0=2.5.13+dfsg-5 libpq5=15.20-0+deb12u1 \
  postgresql-15=15.20-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund graphile-worker@0.17.3 pg@8.23.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check Django==5.2.19 django-tasks==0.12.0 \
  django-tasks-db==0.13.0 procrastinate==3.10.0 psycopg-binary==3.3.9 psycopg==3.3.9
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
(run_postgres initdb --username postgres --auth trust --no-sync > initdb.log)
run_postgres postgres -k "$folder/data" -h 127.0.0.1 -p "$port" -c jit=off > postgres.log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
cat > jobs.py <<'PYTHON'
import asyncio, os, sys
import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE"]))


@app.task(name="process", retry=3)
async def process(event):
    with open("runs", "a") as file:
        print("procrastinate", event, file=file)
    await asyncio.sleep(60 if event == "first" and "killed" in sys.argv else 0)


async def main(action):
    async with app.open_async():
        if action == "prepare":
            await app.schema_manager.apply_schema_async()
        elif action == "add":
            await process.defer_async(event=sys.argv[2])
        elif action == "retry":
            for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=5):
                await app.job_manager.retry_job(job)
        else:
            await app.run_worker_async(update_heartbeat_interval=1, stalled_worker_timeout=5)


asyncio.run(main(sys.argv[1]))
PYTHON
cat > jobs.mjs <<'NODE'
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [action, value] = process.argv.slice(2);
const connectionString = process.env.DATABASE;
if (action === "add") {
  const utilities = await makeWorkerUtils({ connectionString });
  await utilities.migrate();
  await utilities.addJob("process", { event: value }, { maxAttempts: 5 });
  await utilities.release();
} else if (action === "age") {
  const client = new pg.Client(connectionString);
  await client.connect();
  await client.query("UPDATE graphile_worker._private_jobs SET locked_at = now() - $1::interval WHERE locked_at IS NOT NULL", [value]);
  await client.end();
} else {
  const preset = { worker: { connectionString, minResetLockedInterval: 1000, maxResetLockedInterval: 1000 } };
  await run({ preset, taskList: {
    process: async ({ event }) => {
      appendFileSync("runs", `graphile-worker ${event}\n`);
      if (event === "first" && value === "killed") await sleep(60_000);
    },
  } });
}
NODE
cat > jobs_of_django.py <<'PYTHON'
import os, sys, time, urllib.parse
import django
from django.conf import settings
from django.core.management import call_command

url = urllib.parse.urlsplit(os.environ["DATABASE"])
database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": url.hostname, "PORT": url.port}
settings.configure(
    DATABASES={"default": database},
    INSTALLED_APPS=["django_tasks", "django_tasks_db"],
    TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
    USE_TZ=True,
)
django.setup()
# Tasks are found by the name of their module.
sys.modules["jobs_of_django"] = sys.modules[__name__]
from django_tasks import task
from django_tasks_db.models import DBTaskResult


def process(event):
    with open("runs", "a") as file:
        print("django-tasks-db", event, file=file)
    time.sleep(60 if event == "first" and "killed" in sys.argv else 0)


process.__module__ = "jobs_of_django"
process = task(process)
action = sys.argv[1]
if action == "prepare":
    call_command("migrate", verbosity=0)
elif action == "add":
    process.enqueue(sys.argv[2])
elif action == "show":
    print(f"django-tasks-db, states: {' '.join(DBTaskResult.objects.order_by('enqueued_at').values_list('status', flat=True))}")
elif action == "ready":
    DBTaskResult.objects.filter(status="RUNNING").update(status="READY", started_at=None)
else:
    call_command("db_worker", startup_delay=False)
PYTHON
touch runs
# Starts a worker, and ends it with the signal in the first argument once the event in the second one runs, or after 10 seconds.
work() {
  local signal=$1 event=$2
  "${@:3}" >> output 2>&1 &
  worker=$!
  for _ in {1..100}; do grep --quiet "$event" runs && [ "$signal" = -KILL ] && break; sleep 0.1; done
  kill "$signal" "$worker"
  wait "$worker" 2> /dev/null || true
}
report() { echo "$1: $(grep "$2" runs | sed 's/.* //' | tr '\n' ' ')"; }
seen=$(
  python=(python/bin/python jobs.py)
  "${python[@]}" prepare 2>> output
  "${python[@]}" add first 2>> output
  work -KILL first "${python[@]}" work killed
  "${python[@]}" add second 2>> output
  work -TERM second "${python[@]}" work
  report "procrastinate, after the next worker" procrastinate
  "${python[@]}" retry 2>> output
  work -TERM none "${python[@]}" work
  report "procrastinate, after retry_job" procrastinate
  node jobs.mjs add first >> output
  work -KILL "graphile-worker first" node jobs.mjs work killed
  node jobs.mjs add second >> output
  node jobs.mjs age "3 hours 59 minutes"
  work -TERM none node jobs.mjs work
  report "graphile-worker, after 3:59 hours" graphile
  node jobs.mjs age "4 hours 1 minute"
  work -TERM none node jobs.mjs work
  report "graphile-worker, after 4:01 hours" graphile
  python=(python/bin/python jobs_of_django.py)
  "${python[@]}" prepare 2>> output
  "${python[@]}" add first 2>> output
  work -KILL "django-tasks-db first" "${python[@]}" work killed
  "${python[@]}" add second 2>> output
  work -TERM none "${python[@]}" work
  report "django-tasks-db, after the next worker" django
  "${python[@]}" show
  "${python[@]}" ready 2>> output
  work -TERM none "${python[@]}" work
  report "django-tasks-db, after READY" django
)
echo "$seen"
[ "$seen" = "procrastinate, after the next worker: first second 
procrastinate, after retry_job: first second first 
graphile-worker, after 3:59 hours: first second 
graphile-worker, after 4:01 hours: first second first 
django-tasks-db, after the next worker: first second 
django-tasks-db, states: RUNNING SUCCESSFUL
django-tasks-db, after READY: first second first " ] || { tail -20 output; exit 1; }
