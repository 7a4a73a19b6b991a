#!/bin/bash
# redis-py 8.1.0 waits for each reply for five seconds only, and then sends the command again on a new connection, also one that
# the server has received. So after a pause of the server of six seconds, one `rpop` has removed two events and returned one, and
# one `lpush` has added its event twice; and a `brpop` without a timeout, the loop of many workers, raises a TimeoutError after a
# minute without an event, as do `blmove` and `xread`. redis-py 7.4.1 has no such limit by default, waits, and repeats nothing, as
# does 8.1.0 with `socket_timeout=None`. Hurt: receivers of webhooks whose queue is a list in Redis: a pause loses events that
# were confirmed, or runs them twice, and the worker ends in a quiet minute.
# Source: https://redis.readthedocs.io/en/stable/connections.html
# Usage: findings/redis-py-timeouts.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${paused:-} ${quiet:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check redis==7.4.1
python/bin/pip install --quiet --disable-pip-version-check --target 8 redis==8.1.0
port=$((20000 + $$ % 12000))
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > log 2>&1 &
paused=$!
usr/bin/redis-server --bind 127.0.0.1 --port $((port + 1)) --save "" > log-quiet 2>&1 &
quiet=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port + 1))") 2> /dev/null && break; sleep 0.1; done
cat > calls.py <<'PYTHON'
import os, signal, sys, threading, time
import redis

port, paused = int(sys.argv[1]), int(sys.argv[2])
OLD = redis.__version__.startswith("7.")
found = {}


def wait(name, call):
    try:
        found[name] = "an event" if call() else "nothing"
    except redis.TimeoutError:
        found[name] = "TimeoutError"


def during_pause(call, **options):
    """The result of a call that is made while the server pauses for six seconds, and what is then in the list."""
    client = redis.Redis(port=port, **options)
    client.delete("events")
    client.rpush("events", "first", "second")
    result = []
    thread = threading.Thread(target=lambda: result.append(call(client)))
    os.kill(paused, signal.SIGSTOP)
    thread.start()
    time.sleep(6)
    os.kill(paused, signal.SIGCONT)
    thread.join()
    return result[0], [event.decode() for event in client.lrange("events", 0, -1)]


# A second server without events, which does not pause.
client = redis.Redis(port=port + 1)
forever = redis.Redis(port=port + 1, socket_timeout=None)
calls = {} if OLD else {
    "brpop": lambda: client.brpop("list-1"),
    "blmove": lambda: client.blmove("list-2", "taken", 0),
    "xread": lambda: client.xread({"stream": "$"}, block=0),
    "brpop, socket_timeout=None": lambda: forever.brpop("list-3"),
}
threads = [threading.Thread(target=wait, args=call) for call in calls.items()]
begun = time.monotonic()
for thread in threads:
    thread.start()

found["rpop"] = during_pause(lambda client: client.rpop("events").decode())
found["lpush"] = during_pause(lambda client: client.lpush("events", "third") and "added")
if not OLD:
    found["rpop, socket_timeout=None"] = during_pause(lambda client: client.rpop("events").decode(), socket_timeout=None)
    time.sleep(begun + 66 - time.monotonic())
    for number in 1, 2, 3:
        client.lpush(f"list-{number}", "event")
    client.xadd("stream", {"event": "event"})
for thread in threads:
    thread.join()

for name, result in found.items():
    print(f"redis-py {redis.__version__}, {name}: {result}")
right = {"rpop": ("second", ["first"]), "lpush": ("added", ["third", "first", "second"])}
wrong = {
    "rpop": ("first", []),
    "lpush": ("added", ["third", "third", "first", "second"]),
    "rpop, socket_timeout=None": right["rpop"],
    "brpop": "TimeoutError",
    "blmove": "TimeoutError",
    "xread": "TimeoutError",
    "brpop, socket_timeout=None": "an event",
}
sys.exit(found != (right if OLD else wrong))
PYTHON
python/bin/python calls.py "$port" "$paused"
PYTHONPATH=8 python/bin/python calls.py "$port" "$paused"
