#!/bin/bash
# taskiq-redis 1.2.4 (taskiq 0.13.0, redis-py 8.1.0), the RedisStreamBroker with its defaults: a task whose worker was killed runs
# again only when a newer task arrives after ten minutes (`idle_timeout`), because the workers look for pending tasks only after
# they have read a new one, so the last event before a quiet night stays until the morning. And a worker runs its own task a second
# time while the first run goes on if that takes longer than ten minutes and a newer task arrives. The script sets the idle time of
# a pending task in Redis to eleven minutes instead of a wait. With `idle_timeout` of an hour, nothing runs twice. Hurt: receivers
# of webhooks that answer 204 once the event is in the stream: events wait without a limit, and those of slow work run twice.
# Source: listen() in taskiq_redis/redis_broker.py, https://github.com/taskiq-python/taskiq-redis#redisstreambroker-configuration
# Usage: findings/taskiq-redis-streams.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -KILL ${worker:+-"$worker"} 2> /dev/null || true; kill "${server:-}" 2> /dev/null || true; sleep 0.5; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check taskiq==0.13.0 taskiq-redis==1.2.4 redis==8.1.0
port=$((20000 + $$ % 12000))
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu REDIS=redis://127.0.0.1:$port
usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > redis.log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
cat > jobs.py <<'PYTHON'
import asyncio, json, os, sys
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(os.environ["REDIS"], **json.loads(os.environ.get("OPTIONS", "{}")))


@broker.task
async def process(event, seconds):
    with open("runs", "a") as file:
        print(event, file=file)
    await asyncio.sleep(seconds)


async def add(event, seconds):
    await broker.startup()
    await process.kiq(event, seconds)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(add(sys.argv[1], int(sys.argv[2])))
PYTHON
redis() { usr/bin/redis-cli -p "$port" "$@"; }
# Adds an event whose work takes some seconds, and gives the worker time to see it.
add() { python/bin/python jobs.py "$@"; sleep 4; }
start_worker() {
  setsid python/bin/taskiq worker --workers 1 jobs:broker >> output 2>&1 &
  worker=$!
  sleep 5
}
kill_worker() {
  kill -KILL -- "-$worker"
  wait "$worker" 2> /dev/null || true
  worker=
}
# As if the oldest task had been delivered eleven minutes ago.
age() {
  mapfile -t pending < <(redis XPENDING taskiq taskiq - + 1)
  redis XCLAIM taskiq taskiq "${pending[1]}" 0 "${pending[0]}" IDLE 660000 JUSTID > /dev/null
}
report() { echo "$1: $(tr '\n' ' ' < runs)"; }
show() {
  start_worker
  add first 60
  kill_worker
  age
  start_worker
  sleep 5
  report "10 seconds after the next worker has started"
  add second 0
  report "after a newer event"
  age
  add third 0
  report "the work of the first event takes eleven minutes, and a newer event comes"
  kill_worker
}
seen=$(
  show
  echo "With an idle_timeout of an hour:"
  redis FLUSHALL > /dev/null
  rm runs
  export OPTIONS='{"idle_timeout": 3600000}'
  start_worker
  add first 60
  age
  add second 0
  report "the work of the first event takes eleven minutes, and a newer event comes"
  kill_worker
)
echo "$seen"
[ "$seen" = "10 seconds after the next worker has started: first 
after a newer event: first second first 
the work of the first event takes eleven minutes, and a newer event comes: first second first third first 
With an idle_timeout of an hour:
the work of the first event takes eleven minutes, and a newer event comes: first second " ] || { tail -20 output; exit 1; }
