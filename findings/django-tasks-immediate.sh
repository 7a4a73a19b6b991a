#!/bin/bash
# django-tasks 0.12.0, from which Django 6's `django.tasks` came, runs a task within `enqueue` by default, catches its error, and
# returns a result with the status FAILED; nothing is stored. `aenqueue` does the same, and so does Huey 3.5.0's integration
# into Django with `DEBUG`, whatever its storage. Hurt: receivers of webhooks that enqueue the work and answer 204: without a
# backend in `TASKS`, an event whose task fails is answered 204 as if it waited in a queue, and is lost, and the answer takes
# as long as the task. Set a backend that stores tasks, and in tests look at the status of the result.
# Source: https://docs.djangoproject.com/en/6.0/topics/tasks/ and https://huey.readthedocs.io/en/latest/django.html
# Usage: findings/django-tasks-immediate.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check django==5.2.19 django-tasks==0.12.0 huey==3.5.0
cat > receiver.py <<'PYTHON'
import logging, sys, time
import django
from django.conf import settings

logging.disable()
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, DEBUG=True,
    HUEY={"huey_class": "huey.SqliteHuey", "filename": "huey"}, INSTALLED_APPS=["django_tasks", "huey.contrib.djhuey"], ROOT_URLCONF=__name__,
    SECRET_KEY="key",
)
django.setup()
import huey.contrib.djhuey
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from django_tasks import task

results = []


def process(event):
    time.sleep(0.5)
    raise ValueError("The database is away")


in_django = task()(process)
in_huey = huey.contrib.djhuey.task()(process)


def with_django(request):
    results.append(in_django.enqueue(event=request.body.decode()).status)
    return HttpResponse(status=204)


async def with_asynchronous_django(request):
    results.append((await in_django.aenqueue(event=request.body.decode())).status)
    return HttpResponse(status=204)


def with_huey(request):
    in_huey(request.body.decode())
    results.append(f"immediate: {huey.contrib.djhuey.HUEY.immediate}")
    return HttpResponse(status=204)


receivers = [with_django, with_asynchronous_django, with_huey]
urlpatterns = [path(receiver.__name__, receiver) for receiver in receivers]
for receiver in receivers:
    start = time.monotonic()
    status = Client().post(f"/{receiver.__name__}", b"{}", "application/json").status_code
    slow = time.monotonic() - start >= 0.5
    print(f"{receiver.__name__}: {status}, {results[-1]}, {'after' if slow else 'before'} the task")
PYTHON
seen=$(python/bin/python receiver.py)
echo "$seen"
[ "$seen" = "with_django: 204, FAILED, after the task
with_asynchronous_django: 204, FAILED, after the task
with_huey: 204, immediate: True, after the task" ]
