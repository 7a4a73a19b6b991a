#!/bin/bash
# After an interruption of Redis of a second, workers of Dramatiq 2.2.1 connect again and run new messages, but forget those that
# they hold for later, which is how Dramatiq waits before a retry: they stay in Redis, marked as held by the worker, which no
# longer knows them. Even if the workers are restarted, another one takes them over only at one command in a thousand, by chance,
# unless `maintenance_chance=1000000` is set. Hurt: receivers of webhooks that answer 204 once the event is in Dramatiq's queue:
# each event that has failed once and waits for its retry when Redis is restarted or fails over is not run again, without an
# error, while new events are.
# Source: https://github.com/Bogdanp/dramatiq/issues/527
# Usage: findings/dramatiq-redis-restart.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(cat "$folder"/pids 2> /dev/null) 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check dramatiq==2.2.1 redis==8.1.0
cat > tasks.py <<'PYTHON'
import os, pathlib
import dramatiq
from dramatiq.brokers.redis import RedisBroker

NAME = os.environ["NAME"]
RUNS = pathlib.Path(f"{NAME}.runs")
# A worker that has ended counts as dead after five seconds instead of a minute.
options = {"heartbeat_timeout": 5000, "maintenance_chance": 1000000 if NAME == "maintained" else 1000}
dramatiq.set_broker(RedisBroker(url=f"redis://127.0.0.1:{os.environ['PORT']}", **options))


def runs():
    return RUNS.read_text().split() if RUNS.exists() else []


@dramatiq.actor(min_backoff=6000, max_backoff=6000)
def process(event):
    with RUNS.open("a") as file:
        print(event, file=file)
    if event == "failing" and runs().count(event) == 1:
        raise RuntimeError("The database is away.")
PYTHON
cat > check.py <<'PYTHON'
import os, pathlib, subprocess, sys, time
import redis
from tasks import NAME, process, runs

PORT = int(os.environ["PORT"])
client = redis.Redis(port=PORT)
log = open(f"{NAME}.log", "w")


def start(command, **options):
    child = subprocess.Popen(command, stdout=log, stderr=log, **options)
    with open("pids", "a") as file:
        print(child.pid, file=file)
    return child


def start_redis():
    libraries = {**os.environ, "LD_LIBRARY_PATH": f"{os.getcwd()}/usr/lib/x86_64-linux-gnu"}
    options = ["--bind", "127.0.0.1", "--port", str(PORT), "--dir", NAME, "--appendonly", "yes", "--appendfsync", "always"]
    child = start(["usr/bin/redis-server", *options], env=libraries)
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.1)
    return child


def start_worker():
    return start([sys.executable, "-m", "dramatiq", "tasks", "--processes", "1", "--threads", "1"])


def end(child):
    child.terminate()
    return child.wait(timeout=30)


def wait_for(event, number, seconds):
    for _ in range(seconds * 10):
        if runs().count(event) >= number:
            break
        time.sleep(0.1)


pathlib.Path(NAME).mkdir()
server, worker = start_redis(), start_worker()
process.send("failing")
wait_for("failing", 1, 20)
time.sleep(1)
if NAME != "control":
    end(server)
    time.sleep(1)
    server = start_redis()
process.send("new")
wait_for("new", 1, 20)
time.sleep(15)
first = f"{' '.join(runs())}, {client.hlen('dramatiq:default.DQ.msgs')} held"
alive = worker.poll() is None
end(worker)
worker = start_worker()
wait_for("failing", 2, 15)
second = " ".join(runs())
print(f"{NAME}: {first}, worker {'alive' if alive else 'ended'}; later {second}")
end(worker)
end(server)
PYTHON
port=$((20000 + $$ % 12000))
checks=()
for name in control interrupted maintained; do
  NAME=$name PORT=$port python/bin/python check.py > $name.seen &
  checks+=($!)
  port=$((port + 1))
done
wait "${checks[@]}"
cat ./*.seen
[ "$(cat control.seen maintained.seen)" = "control: failing new failing, 0 held, worker alive; later failing new failing
maintained: failing new, 1 held, worker alive; later failing new failing" ]
# In one of about thirty runs, the new worker takes the message over by chance.
grep --quiet '^interrupted: failing new, 1 held, worker alive; later failing new\( failing\)\?$' interrupted.seen
