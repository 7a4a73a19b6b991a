#!/bin/bash
# Huey 3.5.4's consumer interrupts a running task at a SIGTERM and does not put it back into its queue, also if the task has
# `retries`: an interruption is not an error, so a later consumer does not run the task. SIGTERM is what systemd, Docker and
# Kubernetes send. At a SIGINT, Huey finishes the task first. At a SIGTERM, Dramatiq 2.2.1 and RQ 3.0.0 finish it, and SAQ
# 0.26.4 runs it again after its restart. Hurt: receivers of webhooks that answer 204 once the event is in Huey's queue: at
# each deployment, the events whose tasks are running are lost, although the queue is stored and the tasks have retries.
# Source: https://huey.readthedocs.io/en/latest/consumer.html
# Usage: findings/huey-sigterm.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check croniter==7.0.0 dramatiq==2.2.1 huey==3.5.4 \
  packaging==26.4 redis==6.4.0 rq==3.0.0 saq==0.26.4 typing-extensions==4.16.0
export PORT=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$PORT" --save "" > log 2>&1 &
server=$!
cat > tasks.py <<'PYTHON'
import asyncio, os, pathlib, time
import dramatiq, dramatiq.brokers.redis, huey, saq

PORT = int(os.environ["PORT"])
URL = f"redis://127.0.0.1:{PORT}"
SECONDS = 4
huey_queue = huey.RedisHuey("huey", url=URL)
dramatiq.set_broker(dramatiq.brokers.redis.RedisBroker(url=URL))
saq_queue = saq.Queue.from_url(URL)


def log(name, state):
    with pathlib.Path(name).open("a") as file:
        print(state, file=file)


def work(name):
    log(name, "begun")
    time.sleep(SECONDS)
    log(name, "done")


@huey_queue.task(retries=2)
def work_in_huey(name):
    work(name)


@dramatiq.actor
def work_in_dramatiq(name):
    work(name)


async def work_in_saq(_, *, name):
    log(name, "begun")
    await asyncio.sleep(SECONDS)
    log(name, "done")


settings_of_saq = {"queue": saq_queue, "functions": [work_in_saq]}
PYTHON
cat > check.py <<'PYTHON'
import asyncio, pathlib, signal, subprocess, sys, time
import redis, rq, tasks


async def enqueue_in_saq(name):
    await tasks.saq_queue.enqueue("work_in_saq", name=name)
    await tasks.saq_queue.disconnect()


def worker(command, name):
    with open(f"{name}.output", "a") as output:
        return subprocess.Popen(["python/bin/" + command.split()[0], *command.split()[1:]], stdout=output, stderr=output)


def end(process, name, number):
    process.send_signal(number)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise SystemExit(pathlib.Path(f"{name}.output").read_text())


def seen(name, number, command, enqueue):
    """The states of a task whose worker gets a signal, until a second worker has had time to run it again."""
    log = pathlib.Path(name)
    process = worker(command, name)
    enqueue(name)
    for _ in range(200):
        if log.exists():
            break
        time.sleep(0.1)
    time.sleep(1)
    end(process, name, number)
    process = worker(command, name)
    for _ in range(10 * (tasks.SECONDS + 4)):
        if "done" in log.read_text():
            break
        time.sleep(0.1)
    end(process, name, signal.SIGINT)
    return " ".join(log.read_text().split())


rq_queue = rq.Queue(connection=redis.Redis(port=tasks.PORT))
found = {
    name: seen(name, *arguments)
    for name, *arguments in [
        ("Huey, SIGTERM", signal.SIGTERM, "huey_consumer tasks.huey_queue", tasks.work_in_huey),
        ("Huey, SIGINT", signal.SIGINT, "huey_consumer tasks.huey_queue", tasks.work_in_huey),
        ("Dramatiq, SIGTERM", signal.SIGTERM, "dramatiq tasks --processes 1 --threads 1", tasks.work_in_dramatiq.send),
        ("RQ, SIGTERM", signal.SIGTERM, f"rq worker --url {tasks.URL}", lambda name: rq_queue.enqueue(tasks.work, name)),
        ("SAQ, SIGTERM", signal.SIGTERM, "saq tasks.settings_of_saq", lambda name: asyncio.run(enqueue_in_saq(name))),
    ]
}
for name, states in found.items():
    print(f"{name}: {states}")
sys.exit(list(found.values()) != ["begun", "begun done", "begun done", "begun done", "begun begun done"])
PYTHON
PYTHONPATH=. python/bin/python check.py
