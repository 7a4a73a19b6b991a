#!/bin/bash
# Two queues in PostgreSQL that do not run a job again soon if its worker was ended by a SIGKILL, an out-of-memory kill or a
# failure of its machine, although it has retries. procrastinate 3.10.0 leaves it in the state "doing": a later worker removes
# the dead one from its list, but runs the job only if the program looks for stalled jobs itself. graphile-worker 0.17.3 runs it
# after four hours, whatever its options. Hurt: receivers of webhooks that answer 204 once the event is in such a queue: the
# events in progress are lost, or are processed hours later than newer ones, without an error. With procrastinate, retry the
# result of `get_stalled_jobs()` in a periodic task; with graphile-worker, call `forceUnlockWorkers` with the id of the dead
# worker.
# Source: sql/resetLockedAt.js of graphile-worker, and `get_stalled_jobs` in procrastinate/manager.py
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
python/bin/pip install --quiet --disable-pip-version-check procrastinate==3.10.0 psycopg-binary==3.3.9 psycopg==3.3.9
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
)
echo "$seen"
[ "$seen" = "procrastinate, after the next worker: first second 
procrastinate, after retry_job: first second first 
graphile-worker, after 3:59 hours: first second 
graphile-worker, after 4:01 hours: first second first " ] || { tail -20 output; exit 1; }
