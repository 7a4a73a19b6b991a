#!/bin/bash
# A worker of Celery 5.7.0 (kombu 5.7.0) connects to Redis again after a restart of it, as documented, but only if it holds no
# task. If one waits for its `countdown` or its retry, or one with `acks_late` is in progress, the worker ends with status 1,
# because it wants to give the task back while it has no connection ("'NoneType' object has no attribute 'hostname'"). The next
# worker runs new tasks at once, and the one that was held only after the visibility timeout, an hour, whatever its countdown;
# with `broker_transport_options={"visibility_timeout": 3}` instead, it runs at once. Hurt: receivers of webhooks that answer 204
# once the event is in Celery's queue: each interruption of Redis ends all workers that hold a task, and the events that failed
# once and wait some seconds for a retry are late by an hour, without another error.
# Source: https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html
# Usage: findings/celery-redis-restart.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(cat "$folder"/pids 2> /dev/null) 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check celery==5.7.0 kombu==5.7.0 billiard==4.3.2 packaging==26.3 redis==8.1.0
cat > tasks.py <<'PYTHON'
import os, pathlib, time
import celery

NAME = os.environ["NAME"]
RUNS = pathlib.Path(f"{NAME}.runs")
app = celery.Celery(broker=f"redis://127.0.0.1:{os.environ['PORT']}")
if NAME == "short-timeout":
    app.conf.broker_transport_options = {"visibility_timeout": 3}


def runs():
    return RUNS.read_text().split() if RUNS.exists() else []


@app.task(name="process", bind=True, max_retries=3)
def process(self, event):
    with RUNS.open("a") as file:
        print(event, file=file)
    if event == "failing" and runs().count(event) == 1:
        raise self.retry(countdown=8)


@app.task(name="slow", acks_late=True)
def slow(event):
    with RUNS.open("a") as file:
        print(event, file=file)
    time.sleep(8)
PYTHON
cat > check.py <<'PYTHON'
import os, pathlib, subprocess, sys, time
import redis
from tasks import NAME, process, runs, slow

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
    return start([sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency", "1"])


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
if NAME == "acks-late":
    slow.delay("slow")
    wait_for("slow", 1, 30)
else:
    process.delay("first" if NAME == "nothing-held" else "failing")
    wait_for("first" if NAME == "nothing-held" else "failing", 1, 30)
time.sleep(2)
if NAME != "no-restart":
    end(server)
    time.sleep(1)
    server = start_redis()
process.delay("new")
try:
    status = f"ended with {worker.wait(timeout=15)}"
    worker = start_worker()
except subprocess.TimeoutExpired:
    status = "goes on"
wait_for("new", 1, 20)
if NAME != "nothing-held":
    wait_for("slow" if NAME == "acks-late" else "failing", 2, 20)
print(f"{NAME}: worker {status}; runs {' '.join(sorted(runs()))}; {client.hlen('unacked')} held")
end(worker)
end(server)
PYTHON
port=$((20000 + $$ % 12000))
checks=()
for name in no-restart nothing-held retry acks-late short-timeout; do
  NAME=$name PORT=$port python/bin/python check.py > $name.seen &
  checks+=($!)
  port=$((port + 1))
done
wait "${checks[@]}"
seen=$(cat ./*.seen)
echo "$seen"
grep --quiet "has no attribute 'hostname'" retry.log
[ "$seen" = "acks-late: worker ended with 1; runs new slow; 1 held
no-restart: worker goes on; runs failing failing new; 0 held
nothing-held: worker goes on; runs first new; 0 held
retry: worker ended with 1; runs failing new; 1 held
short-timeout: worker ended with 1; runs failing failing new; 0 held" ]
