#!/bin/bash
# Celery 5.7.0 (prefork, its default pool) loses the running task at a SIGTERM to all of its processes: its children end at the
# signal, and the main process logs a WorkerLostError, exits within two seconds, and has removed the task from Redis. A later
# worker does not run it, also with `acks_late` or with `autoretry_for`, only with `acks_late` and `reject_on_worker_lost`.
# Debian's dumb-init 1.2.5 sends such a SIGTERM, unless DUMB_INIT_SETSID is 0. A SIGTERM to the main process alone, or with
# `--pool threads`, lets the task end first, and RQ 3.0.0 under dumb-init ends its job first, too. Hurt: receivers of webhooks
# that answer 204 once the event is in Celery's queue, with dumb-init as the first process of the container: each deployment
# loses the events whose tasks are running.
# Source: https://github.com/Yelp/dumb-init#session-behavior
# Usage: findings/celery-dumb-init.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3 dumb-init=1.2.5-2
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check celery==5.7.0 kombu==5.7.0 billiard==4.3.2 croniter==7.0.0 \
  packaging==26.4 redis==6.4.0 rq==3.0.0
export PORT=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$PORT" --save "" > log 2>&1 &
server=$!
cat > tasks.py <<'PYTHON'
import os, pathlib, time
import celery

URL = f"redis://127.0.0.1:{os.environ['PORT']}"
app = celery.Celery(broker=URL)


def log(name, state):
    with pathlib.Path(name).open("a") as file:
        print(state, file=file)


def work(name):
    log(name, "begun")
    time.sleep(4)
    log(name, "done")


plain = app.task(name="plain")(work)
retried = app.task(name="retried", autoretry_for=(Exception,), max_retries=3)(work)
late = app.task(name="late", acks_late=True)(work)
rejected = app.task(name="rejected", acks_late=True, reject_on_worker_lost=True)(work)
PYTHON
cat > check.py <<'PYTHON'
import os, pathlib, signal, subprocess, sys, time
import redis, rq, tasks


def worker(command, output):
    return subprocess.Popen(command.split(), stdout=output, stderr=output)


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)


def seen(name, command, enqueue):
    """The states of a task whose worker gets a SIGTERM, until a second worker has had time to run it again."""
    log = pathlib.Path(name)
    with open(f"{name}.output", "w") as output:
        process = worker(command, output)
        enqueue(name)
        for _ in range(200):
            if log.exists():
                break
            time.sleep(0.1)
        time.sleep(1)
        end(process)
        process = worker(command, output)
        for _ in range(70):
            time.sleep(0.1)
            if "done" in log.read_text():
                break
        end(process)
    return " ".join(log.read_text().split())


INIT = "usr/bin/dumb-init "
CELERY = "python/bin/celery --app tasks worker --concurrency 2"
jobs = rq.Queue(connection=redis.Redis.from_url(tasks.URL))
found = {
    name: seen(name, *arguments)
    for name, *arguments in [
        ("plain", INIT + CELERY, tasks.plain.delay),
        ("retried", INIT + CELERY, tasks.retried.delay),
        ("late", INIT + CELERY, tasks.late.delay),
        ("rejected", INIT + CELERY, tasks.rejected.delay),
        ("threads", f"{INIT}{CELERY} --pool threads", tasks.plain.delay),
        ("without dumb-init", CELERY, tasks.plain.delay),
        ("DUMB_INIT_SETSID=0", f"env DUMB_INIT_SETSID=0 {INIT}{CELERY}", tasks.plain.delay),
        ("RQ", f"{INIT}python/bin/rq worker --url {tasks.URL}", lambda name: jobs.enqueue(tasks.work, name)),
    ]
}
for name, states in found.items():
    print(f"{name}: {states}")
sys.exit(list(found.values()) != ["begun"] * 3 + ["begun begun done"] + ["begun done"] * 4)
PYTHON
PYTHONPATH=. python/bin/python check.py
