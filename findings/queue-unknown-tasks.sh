#!/bin/bash
# A worker that does not know the name of a task, because the receiver was deployed before it, drops the task: Celery 5.7.0 logs
# that it was "ignored and discarded", also with `acks_late`; Huey 3.5.0 logs an exception and ignores `retries`; arq 0.28.0
# keeps a failed result for an hour and ignores `max_tries`. None keeps the arguments where they can be run again. RQ 3.0.0 and
# Dramatiq 2.2.1 keep the task among their failed ones. Hurt: receivers of webhooks that work through a queue: while a new kind
# of task, or another name for one, is deployed, each event that was answered with 204 is lost.
# Source: celery/worker/consumer/consumer.py (on_unknown_task), huey/consumer.py (Worker.loop), arq/worker.py (run_job)
# Usage: findings/queue-unknown-tasks.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check celery==5.7.0 dramatiq==2.2.1 huey==3.5.0 rq==3.0.0 redis==8.1.0 \
  packaging==25.0
python3 -m venv with-arq
with-arq/bin/pip install --quiet --disable-pip-version-check arq==0.28.0 redis==5.3.1
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
cat > tasks.py <<'PYTHON'
import asyncio, logging, re, sys, time
import redis

URL = f"redis://127.0.0.1:{sys.argv[1]}/0"
CONNECTION = redis.Redis.from_url(URL)
ID = "msg_1854d20f452c5b4c1e350d7c7a00518b"
logging.disable()


def known(*_):
    pass


def with_celery():
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    app = Celery(broker=URL)
    app.conf.task_acks_late = True
    app.task(known, name="known")
    app.send_task("new", args=[ID])
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="CRITICAL"):
        wait()


def with_huey():
    from huey import RedisHuey

    receiver, worker = RedisHuey(url=URL), RedisHuey(url=URL)
    receiver.task(name="new", retries=3)(lambda event: None)(ID)
    worker.task(name="known", retries=3)(known)
    consumer = worker.create_consumer(workers=1, periodic=False)
    consumer.start()
    wait()
    consumer.stop(graceful=True)


def with_arq():
    from arq import create_pool
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    async def known_in_arq(_):
        pass

    async def run():
        settings = RedisSettings.from_dsn(URL)
        receiver = await create_pool(settings)
        await receiver.enqueue_job("new", ID)
        functions = [func(known_in_arq, name="known")]
        await Worker(functions, redis_settings=settings, burst=True, handle_signals=False, max_tries=5).main()

    asyncio.run(run())


def with_rq():
    from rq import Queue, SimpleWorker

    queue = Queue(connection=CONNECTION)
    queue.enqueue("tasks.new", ID)
    SimpleWorker([queue], connection=CONNECTION).work(burst=True)


def with_dramatiq():
    from dramatiq import Message, Worker
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=URL)
    broker.declare_queue("default")
    broker.enqueue(Message(queue_name="default", actor_name="new", args=(ID,), kwargs={}, options={}))
    worker = Worker(broker, worker_timeout=100)
    worker.start()
    wait()
    worker.stop()


def wait():
    """Waits until the task has left the queue, and for its end."""
    queues = ["celery", "huey.redis.huey", "dramatiq:default"]
    for _ in range(200):
        if not CONNECTION.exists(*queues):
            break
        time.sleep(0.1)
    time.sleep(2)


def kept():
    """The keys that are left after the task, except for results that expire and what describes queues and workers."""
    ignored = ("_kombu.", "dramatiq:__", "rq:queues", "rq:worker", "rq:clean", "arq:queue:health", "arq:result:")
    names = (key.decode() for key in CONNECTION.scan_iter("*"))
    return sorted(re.sub(":[0-9a-f-]{36}$", "", name) for name in names if not name.startswith(ignored))


if __name__ == "__main__":
    sys.modules["tasks"] = sys.modules["__main__"]
    changed = False
    cases = [
        (with_celery, []), (with_huey, []), (with_rq, ["rq:failed:default", "rq:job", "rq:results"]),
        (with_dramatiq, ["dramatiq:default.XQ", "dramatiq:default.XQ.msgs"]),
    ]
    for run, expected in [(with_arq, [])] if "with-arq" in sys.prefix else cases:
        CONNECTION.flushall()
        run()
        found = kept()
        print(f"{run.__name__}: kept after an unknown task: {', '.join(found) or 'nothing'}")
        changed |= found != expected
    sys.exit(changed)
PYTHON
venv/bin/python -W ignore tasks.py "$port"
with-arq/bin/python -W ignore tasks.py "$port"
