#!/bin/bash
# APScheduler 3.11.3 drops a job that waits longer than a second for a thread: the pool has ten threads, and a job that the
# eleventh thread would run comes too late after `misfire_grace_time`, which is 1 s. This is so for a job that `add_job` is asked
# to run at once, without a trigger. A job is removed from a stored job store when it is handed to the pool, so if the process
# ends, jobs in progress and those that wait are gone. A job whose time passed while the process was stopped is dropped, too.
# Only a warning says that its run "was missed". Hurt: receivers of webhooks that answer 204 and add a job for each event: of
# thirty events at once whose work takes two seconds, twenty are lost, and a restart loses those that it interrupts.
# `misfire_grace_time=None` runs late jobs. Source: https://apscheduler.readthedocs.io/en/3.x/userguide.html
# Usage: findings/apscheduler-missed-jobs.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check APScheduler==3.11.3 SQLAlchemy==2.1.9 tzlocal==5.3.1
cat > receiver.py <<'PYTHON'
import datetime, os, pathlib, sys, time
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

EVENTS = 30


def process(name, event, seconds):
    time.sleep(seconds)
    with pathlib.Path(name).open("a") as done:
        print(event, file=done)


def receive(scheduler, name, seconds, **options):
    for event in range(EVENTS):
        scheduler.add_job("receiver:process", args=[name, event, seconds], **options)


def hand_over(scheduler):
    """Waits until the job store is empty."""
    while scheduler.get_jobs():
        time.sleep(0.1)


if __name__ == "__main__":
    name, action = sys.argv[1:]
    stored = SQLAlchemyJobStore(url=f"sqlite:///{name}.sqlite")
    scheduler = BackgroundScheduler(jobstores={} if action == "process" else {"default": stored})
    scheduler.start(paused=action == "stop")
    if action == "process":
        receive(scheduler, name, 4, **({"misfire_grace_time": None} if "None" in name else {}))
    elif action == "kill":
        receive(scheduler, name, 60)
        hand_over(scheduler)
        os._exit(1)
    elif action == "stop":
        receive(scheduler, name, 0, run_date=datetime.datetime.now() + datetime.timedelta(seconds=1), trigger="date")
        os._exit(1)
    elif action == "restart":
        time.sleep(3)
    hand_over(scheduler)
    scheduler.shutdown()
    done = pathlib.Path(name)
    print(f"{name}: {len(done.read_text().split()) if done.exists() else 0} of {EVENTS} processed")
PYTHON
run() { python/bin/python receiver.py "$@" 2>> log; }
run "at once" process > 1 &
run "with misfire_grace_time=None" process > 2 &
{ run "killed and restarted" kill || run "killed and restarted" restart > 3; } &
{ run "due while stopped" stop || { sleep 3; run "due while stopped" restart > 4; } } &
wait
seen=$(cat 1 2 3 4)
echo "$seen"
echo "in the log: $(grep --count 'was missed' log) times that a run was missed"
[ "$seen" = "at once: 10 of 30 processed
with misfire_grace_time=None: 30 of 30 processed
killed and restarted: 0 of 30 processed
due while stopped: 0 of 30 processed" ]
