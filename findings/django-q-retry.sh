#!/bin/bash
# django-q2 1.11.1 starts a task again after 60 seconds while it is still running: `retry` is 60 seconds by default, `timeout` is
# unset, and the broker in Django's database takes a task that has not ended by then for a lost one. Each further minute adds
# another run, until one ends. One warning at the start says that `retry` has to be larger than `timeout`. With `timeout` and a
# larger `retry`, a task runs once. Hurt: receivers of webhooks that queue a task for each event: work that takes longer than a
# minute, as during an outage of what it calls, runs twice or more at the same time, and repeats its effects.
# Source: https://django-q2.readthedocs.io/en/master/configure.html#retry
# Usage: findings/django-q-retry.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${clusters:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check django==5.2.19 django-q2==1.11.1
cat > settings.py <<'PYTHON'
import os

NAME = os.environ["NAME"]
SECRET_KEY = "findings"
INSTALLED_APPS = ["django_q"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{NAME}.sqlite3", "OPTIONS": {"timeout": 20}}}
Q_CLUSTER = {"orm": "default", "workers": 2} | ({"timeout": 300, "retry": 360} if NAME == "with-timeout" else {})
PYTHON
cat > tasks.py <<'PYTHON'
import pathlib, time


def process(log):
    with open(log, "a") as file:
        print("begun", file=file)
    for _ in range(660):
        if pathlib.Path("stop").exists():
            return
        time.sleep(0.1)
    with open(log, "a") as file:
        print("done", file=file)
PYTHON
cat > start.py <<'PYTHON'
import django

django.setup()
import django.core.management, django_q.tasks, settings

django.core.management.call_command("migrate", verbosity=0)
django_q.tasks.async_task("tasks.process", settings.NAME)
django.core.management.call_command("qcluster")
PYTHON
export DJANGO_SETTINGS_MODULE=settings
for name in default with-timeout; do
  NAME=$name python/bin/python start.py >> log 2>&1 &
  clusters+=" $!"
done
for name in default with-timeout; do
  for _ in {1..900}; do ! grep --quiet done $name 2> /dev/null || break; sleep 0.1; done
done
touch stop
seen=$(for name in default with-timeout; do echo "$name: $(tr '\n' ' ' < $name)"; done)
echo "$seen"
[ "$seen" = "default: begun begun done 
with-timeout: begun done " ]
