#!/bin/bash
# A job that exceeds its time limit is not run again by three queues, whatever its number of tries. Celery 5.7.0 kills the
# process of a task at `time_limit`, acknowledges the message also with `acks_late` and `reject_on_worker_lost`, and does not
# apply `autoretry_for=(Exception,)`, which it does after `soft_time_limit`. arq 0.28.0 fails a job at its `timeout` (300 s by
# default) in its first try, whatever `max_tries`, and streaq 7.2.0 unless `retry_timeouts=True` is set. SAQ 0.26.4 ends each
# job after 10 seconds unless `timeout` is set, and runs it once unless `retries` is set. RQ 3.0.0 applies its `Retry`. Hurt:
# receivers of webhooks that answer 204 once the event is in such a queue: while a database or another service is slow, each
# event that takes too long is lost.
# Source: https://github.com/celery/celery/pull/10448, https://streaq.readthedocs.io and `Job` in saq/job.py
# Usage: findings/queue-time-limits.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
workers=()
trap 'kill "${workers[@]}" 2> /dev/null || true; sleep 1; kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
install() {
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}
install new celery==5.7.0 kombu==5.7.0 packaging==26.4 redis==6.4.0 rq==3.0.0 saq==0.26.4
install old arq==0.28.0 coredis==6.9.0 redis==5.3.1 streaq==7.2.0
export PORT=$((20000 + $$ % 12000))
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
usr/bin/redis-server --bind 127.0.0.1 --port "$PORT" --save "" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null && break; sleep 0.1; done
cat > common.py <<'PYTHON'
import asyncio, os, time

PORT, LIMIT, LONG = int(os.environ["PORT"]), 2, 30
URL = f"redis://127.0.0.1:{PORT}"


def log(name):
    with open("runs", "a") as file:
        print(name, file=file)


def work(name):
    log(name)
    time.sleep(LONG)


async def work_async(name):
    log(name)
    await asyncio.sleep(LONG)
PYTHON
cat > in_celery.py <<'PYTHON'
import celery, common

app = celery.Celery(broker=f"{common.URL}/1")
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1)
retries = {"autoretry_for": (Exception,), "max_retries": 2, "default_retry_delay": 1}
app.conf.broker_transport_options = {"visibility_timeout": 10}


@app.task(name="hard", time_limit=common.LIMIT, **retries)
def hard():
    common.work("Celery, time_limit")


@app.task(name="soft", soft_time_limit=common.LIMIT, **retries)
def soft():
    common.work("Celery, soft_time_limit")


def enqueue():
    hard.delay()
    soft.delay()
PYTHON
cat > in_saq.py <<'PYTHON'
import asyncio, common, saq

queue = saq.Queue.from_url(f"{common.URL}/2")


async def work(_, *, name):
    await common.work_async(name)


settings = {"queue": queue, "functions": [work]}


async def enqueue_all():
    await queue.enqueue("work", name="SAQ")
    await queue.enqueue("work", name="SAQ, retries=2", retries=2)
    await queue.disconnect()


def enqueue():
    asyncio.run(enqueue_all())
PYTHON
cat > in_rq.py <<'PYTHON'
import common, redis, rq


def enqueue():
    queue = rq.Queue(connection=redis.Redis(port=common.PORT, db=3))
    queue.enqueue(common.work, "RQ, Retry", job_timeout=common.LIMIT, retry=rq.Retry(max=2))
PYTHON
cat > in_arq.py <<'PYTHON'
import asyncio, arq, common
from arq.connections import RedisSettings

settings = RedisSettings(port=common.PORT, database=4)


async def work(_):
    await common.work_async("arq, max_tries=3")


class WorkerSettings:
    functions = [arq.func(work, timeout=common.LIMIT, max_tries=3)]
    redis_settings = settings


async def enqueue_all():
    await (await arq.create_pool(settings)).enqueue_job("work")


def enqueue():
    asyncio.run(enqueue_all())
PYTHON
cat > in_streaq.py <<'PYTHON'
import asyncio, common
from streaq import Worker

worker = Worker(redis_url=f"{common.URL}/5")


@worker.task(timeout=common.LIMIT, max_tries=3)
async def work():
    await common.work_async("streaq, max_tries=3")


@worker.task(timeout=common.LIMIT, max_tries=3, retry_timeouts=True)
async def retried():
    await common.work_async("streaq, retry_timeouts")


async def enqueue_all():
    async with worker:
        await work.enqueue()
        await retried.enqueue()


def enqueue():
    asyncio.run(enqueue_all())
PYTHON
export PYTHONPATH=.
work() {
  "$@" >> output 2>&1 &
  workers+=($!)
}
work new/bin/celery --app in_celery worker --concurrency 2
work new/bin/saq in_saq.settings
work new/bin/rq worker --url "redis://127.0.0.1:$PORT/3"
work old/bin/arq in_arq.WorkerSettings
work old/bin/streaq run in_streaq:worker
# A worker of SAQ may repeat a job that it takes during the clean-up at its start.
for _ in {1..300}; do [ "$(usr/bin/redis-cli -p "$PORT" -n 2 exists saq:default:sweep)" = 1 ] && break; sleep 0.1; done
for name in celery saq rq; do new/bin/python -c "import in_$name; in_$name.enqueue()"; done
for name in arq streaq; do old/bin/python -c "import in_$name; in_$name.enqueue()"; done
sleep 35
seen=$(sort runs | uniq --count | sed 's/^ *\([0-9]*\) \(.*\)/\2: \1/')
echo "Runs of a job that takes too long:
$seen"
[ "$seen" = "Celery, soft_time_limit: 3
Celery, time_limit: 1
RQ, Retry: 3
SAQ: 1
SAQ, retries=2: 2
arq, max_tries=3: 1
streaq, max_tries=3: 1
streaq, retry_timeouts: 3" ] || { tail -40 output; exit 1; }
