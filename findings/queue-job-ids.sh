#!/bin/bash
# BullMQ 6.7.0, Bull 4.16.5, bee-queue 2.0.0 and arq 0.28.0 ignore a new job whose id is that of a failed one, without an
# error: BullMQ and Bull return a job as if they had added it, bee-queue one whose id is null, arq returns None. RQ 3.0.0 has
# no duplicates at all: it runs a job twice that is added twice, even if the first one still waits, and with `unique=True`
# raises an error. Hurt: receivers of webhooks that answer 202 and use the id of the event as the id of a job, so that a
# repeated event runs once: if the job failed and the event is sent again by hand, the receiver answers 202 and does nothing.
# With BullMQ, `retry()` on a returned job whose state is "failed" runs it again.
# Usage: findings/queue-job-ids.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and PyPI.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund bullmq@6.7.0 bull@4.16.5 bee-queue@2.0.0
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check arq==0.28.0 rq==3.0.0
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

# Each function adds a job that fails, and then one with the same id that would not.
cat > jobs.mjs <<'NODE'
import { setTimeout as sleep } from "node:timers/promises";
import Bee from "bee-queue";
import Bull from "bull";
import { Queue, Worker } from "bullmq";

const redis = { host: "127.0.0.1", port: Number(process.argv[2]) };
const ID = "msg_1854d20f452c5b4c1e350d7c7a00518b";
let runs = 0;
const work = async () => {
  runs += 1;
  if (runs === 1) throw new Error("The database is away");
};

const bullmq = new Queue("bullmq", { connection: redis });
new Worker("bullmq", work, { connection: redis });
const bull = new Bull("bull", { redis });
bull.process(work);
const bee = new Bee("bee", { redis });
bee.process(work);
const queues = {
  BullMQ: () => bullmq.add("event", {}, { jobId: ID }),
  Bull: () => bull.add({}, { jobId: ID }),
  "bee-queue": () => bee.createJob({}).setId(ID).save(),
};

let changed = false;
for (const [name, add] of Object.entries(queues)) {
  runs = 0;
  await add();
  await sleep(500);
  const failed = runs;
  const { id } = await add();
  await sleep(500);
  console.log(`${name}: ${failed} run, then ${runs - failed} of the job that was returned with the id ${id}`);
  changed ||= failed !== 1 || runs !== 1 || id !== (name === "bee-queue" ? null : ID);
}
const job = await bullmq.add("event", {}, { jobId: ID });
if ((await job.getState()) === "failed") await job.retry();
await sleep(500);
console.log(`BullMQ with retry(): ${await job.getState()}`);
changed ||= (await job.getState()) !== "completed";
process.exit(changed ? 1 : 0);
NODE
cat > jobs.py <<'PYTHON'
import asyncio, logging, sys
import arq.connections, arq.worker, redis, rq, rq.exceptions

PORT = int(sys.argv[1])
ID = "msg_1854d20f452c5b4c1e350d7c7a00518b"
logging.disable()
runs = []


def work():
    runs.append(None)
    if len(runs) == 1:
        raise ValueError("The database is away")


async def work_in_arq(_):
    work()


async def with_arq():
    settings = arq.connections.RedisSettings(port=PORT)
    queue = await arq.create_pool(settings)
    added = []
    for _ in range(2):
        added.append(await queue.enqueue_job("work_in_arq", _job_id=ID))
        await arq.worker.Worker([work_in_arq], redis_settings=settings, burst=True, handle_signals=False).main()
    return len(runs), added[1]


def with_rq():
    connection = redis.Redis(port=PORT)
    queue = rq.Queue(connection=connection)
    runs.clear()
    for _ in range(2):
        queue.enqueue("jobs.work", job_id=ID)
    rq.SimpleWorker([queue], connection=connection).work(burst=True)
    try:
        queue.enqueue("jobs.work", job_id=ID, unique=True)
    except rq.exceptions.DuplicateJobError:
        return len(runs), "error"


if __name__ == "__main__":
    sys.modules["jobs"] = sys.modules["__main__"]
    found = asyncio.run(with_arq()), with_rq()
    print(f"arq: {found[0][0]} run of two, and the second was returned as {found[0][1]}")
    print(f"RQ: {found[1][0]} runs of two, and with unique=True, {found[1][1]}")
    sys.exit(found != ((1, None), (2, "error")))
PYTHON
node jobs.mjs "$port"
python/bin/python jobs.py "$port"
