#!/bin/bash
# Celery 5.7.0 (kombu 5.7.0) with Redis keeps the bindings of a topic exchange in a set of Redis. If the set is gone, because
# Redis was restarted without its data or has evicted it, `delay` returns as before and stores nothing, until a worker or a new
# process of the receiver declares the queue again: a process declares it once, and not after it has connected again. With a
# direct exchange, the default, the task is stored. Hurt: receivers of webhooks that route events by a topic, such as
# `job.completed`, and answer 200: after a restart of Redis, all events are lost while no worker runs, without an error.
# Source: https://docs.celeryq.dev/en/stable/userguide/routing.html
# Usage: findings/celery-redis-topics.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" "${receiver:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check celery==5.7.0 kombu==5.7.0 packaging==26.3 redis==8.1.0
port=$((20000 + $$ % 12000))
start_redis() {
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > log &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
}
start_redis
cat > receiver.py <<'PYTHON'
import pathlib, sys, time
import celery, redis
from kombu import Exchange, Queue

port = int(sys.argv[1])
stored = redis.Redis(port=port).llen


def receiver(queue, kind):
    """A function that queues one event like a request to the receiver does."""
    app = celery.Celery(broker=f"redis://127.0.0.1:{port}/0")
    pattern = "job.#" if kind == "topic" else "job.completed"
    app.conf.task_queues = [Queue(queue, Exchange(f"jobs-{queue}", kind), routing_key=pattern)]
    app.conf.update(
        task_default_exchange=f"jobs-{queue}", task_default_exchange_type=kind, task_default_queue=queue,
        task_default_routing_key="job.completed",
    )

    @app.task(name="process")
    def process(event):
        """Not run, because there is no worker."""

    return lambda: process.delay("{}").id


if "new" in sys.argv:
    receiver("topics", "topic")()
    print(f"topics, from a new process: {stored('topics')} stored")
    sys.exit()
queues = {name: receiver(name, kind) for name, kind in {"topics": "topic", "direct": "direct"}.items()}


def queue_events(when):
    for name, queue_event in queues.items():
        ids = [queue_event() for _ in range(3)]
        print(f"{name}, {when}: {len(set(ids))} without an error, {stored(name)} stored", flush=True)


queue_events("before the restart")
pathlib.Path("before").touch()
while not pathlib.Path("restarted").exists():
    time.sleep(0.1)
queue_events("after it")
PYTHON
python/bin/python receiver.py "$port" > seen 2> errors &
receiver=$!
for _ in {1..200}; do [ -e before ] && break; sleep 0.1; done
kill "$server"
wait "$server" || true
start_redis
touch restarted
wait "$receiver"
python/bin/python receiver.py "$port" new >> seen 2>> errors
cat seen
[ "$(cat seen)" = "topics, before the restart: 3 without an error, 3 stored
direct, before the restart: 3 without an error, 3 stored
topics, after it: 3 without an error, 0 stored
direct, after it: 3 without an error, 3 stored
topics, from a new process: 1 stored" ]
