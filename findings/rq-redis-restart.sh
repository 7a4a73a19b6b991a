#!/bin/bash
# After an interruption of Redis of a second, a worker of RQ 3.0.0 connects again and runs new jobs, but its scheduler, a process
# of `--with-scheduler`, ends, and the worker does not look for it before ten minutes have passed, an idle one before 13. Until
# then, no scheduled job is run, such as one that waits for its retry: `Retry(max=3, interval=5)` waits minutes instead of
# seconds. With `--maintenance-interval 5` and `--worker-ttl 20`, the worker starts the scheduler again soon. Hurt: receivers of
# webhooks that answer 204 once the event is in RQ's queue: the events that fail after an interruption of Redis, which often
# fail because of it, are late, and nothing but the end of the scheduler is logged.
# Source: https://python-rq.org/docs/scheduling/
# Usage: findings/rq-redis-restart.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(cat "$folder"/pids 2> /dev/null) 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check croniter==7.0.0 redis==8.1.0 rq==3.0.0
cat > tasks.py <<'PYTHON'
import os, pathlib

NAME = os.environ["NAME"]
RUNS = pathlib.Path(f"{NAME}.runs")


def runs():
    return RUNS.read_text().split() if RUNS.exists() else []


def process(event):
    with RUNS.open("a") as file:
        print(event, file=file)
    if event == "failing" and runs().count(event) == 1:
        raise RuntimeError("The database is away.")
PYTHON
cat > check.py <<'PYTHON'
import os, pathlib, subprocess, sys, time
import redis, rq
from tasks import NAME, process, runs

PORT = int(os.environ["PORT"])
client = redis.Redis(port=PORT)
queue = rq.Queue(connection=client)
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


def end(child):
    child.terminate()
    return child.wait(timeout=30)


def wait_for(event, number, seconds):
    for _ in range(seconds * 10):
        if runs().count(event) >= number:
            break
        time.sleep(0.1)


pathlib.Path(NAME).mkdir()
server = start_redis()
options = ["--maintenance-interval", "5", "--worker-ttl", "20"] if NAME == "maintained" else []
worker = start(["python/bin/rq", "worker", "--with-scheduler", *options, "--url", f"redis://127.0.0.1:{PORT}"])
queue.enqueue(process, "first")
wait_for("first", 1, 30)
time.sleep(3)
if NAME != "control":
    end(server)
    time.sleep(1)
    server = start_redis()
queue.enqueue(process, "failing", retry=rq.Retry(max=3, interval=5))
wait_for("failing", 1, 30)
queue.enqueue(process, "new")
wait_for("new", 1, 30)
wait_for("failing", 2, 35)
print(f"{NAME}: {' '.join(sorted(runs()))}, {len(queue.scheduled_job_registry)} scheduled, worker {'ended' if worker.poll() else 'alive'}")
end(worker)
end(server)
PYTHON
port=$((20000 + $$ % 12000))
checks=()
for name in control interrupted maintained; do
  NAME=$name PORT=$port PYTHONPATH=$folder python/bin/python check.py > $name.seen &
  checks+=($!)
  port=$((port + 1))
done
wait "${checks[@]}"
seen=$(cat ./*.seen)
echo "$seen"
[ "$seen" = "control: failing failing first new, 0 scheduled, worker alive
interrupted: failing first new, 1 scheduled, worker alive
maintained: failing failing first new, 0 scheduled, worker alive" ] || { tail -n 5 ./*.log; exit 1; }
