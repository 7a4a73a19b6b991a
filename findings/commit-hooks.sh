#!/bin/bash
# A function of `transaction.on_commit` in Django 5.2.19, `delay_on_commit` of a task in Celery 5.7.0, and a listener
# for `after_commit` of SQLAlchemy 2.1.9 run after the commit, so if they raise an error, as while the broker is away,
# the response is a 500, and what the transaction stored remains. The next request finds the id of the event and
# answers 204. With `robust=True`, the first response is a 204 already. Django's documentation names background tasks
# as an example for the hook. If the task is queued before the commit, the error rolls the id back. Hurt: receivers of
# webhooks that store the `webhook-id` and queue the event in such a hook: during an outage of the broker, each event
# counts as delivered after its retry, and is never processed. Let the worker look for stored events that are not
# done, too, or store the id in the transaction of the work.
# Source: https://docs.djangoproject.com/en/5.2/topics/db/transactions/#performing-actions-after-commit and
# https://docs.celeryq.dev/en/stable/django/first-steps-with-django.html
# Usage: findings/commit-hooks.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check celery==5.7.0 Django==5.2.19 SQLAlchemy==2.1.9
cat > receivers.py <<'PYTHON'
import http.client, logging, os, socket, sqlite3, sys, threading, wsgiref.simple_server
import django
from django.conf import settings

logging.disable(logging.CRITICAL)
os.environ["DJANGO_SETTINGS_MODULE"] = "unused"
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": "events.db"}
settings.configure(SECRET_KEY="key", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DATABASES={"default": database})
django.setup()
from celery import Celery
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpResponse
from django.urls import path
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

INSERT = "INSERT INTO events VALUES ({}) ON CONFLICT DO NOTHING"
queued, away = [], True
# No broker listens on this port.
unused = socket.socket()
unused.bind(("127.0.0.1", 0))
tasks = Celery("receiver", broker=f"amqp://127.0.0.1:{unused.getsockname()[1]}//", fixups=["celery.fixups.django:fixup"])
tasks.conf.broker_connection_retry = False
tasks.conf.task_publish_retry = False
engine = create_engine("sqlite:///events.db")


@tasks.task
def process(_id):
    pass


def queue(id):
    if away:
        raise ConnectionError("the broker does not answer")
    queued.append(id)


def with_django(then):
    def receive(request):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(INSERT.format("%s"), [request.headers["webhook-id"]])
            if cursor.rowcount:
                then(request.headers["webhook-id"])
        return HttpResponse(status=204)

    return receive


def with_sqlalchemy(request):
    id = request.headers["webhook-id"]
    with Session(engine) as session:
        event.listen(session, "after_commit", lambda _session: queue(id), once=True)
        if session.execute(text(INSERT.format(":id")), {"id": id}).rowcount:
            session.commit()
    return HttpResponse(status=204)


def on_commit(id):
    transaction.on_commit(lambda: queue(id))


def robust(id):
    transaction.on_commit(lambda: queue(id), robust=True)


receivers = {
    "Django, on_commit": (with_django(on_commit), [500, 204], False),
    "Django, on_commit, robust": (with_django(robust), [204, 204], False),
    "Celery, delay_on_commit": (with_django(process.delay_on_commit), [500, 204], False),
    "SQLAlchemy, after_commit": (with_sqlalchemy, [500, 204], False),
    "Django, before the commit": (with_django(queue), [500, 204], True),
}
urlpatterns = [path(str(number), view) for number, (view, _, _) in enumerate(receivers.values())]
with sqlite3.connect("events.db") as events:
    events.execute("CREATE TABLE events (id PRIMARY KEY)")


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = wsgiref.simple_server.make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def post(number):
    client = http.client.HTTPConnection("127.0.0.1", server.server_port)
    client.request("POST", f"/{number}", b"{}", {"webhook-id": f"msg_{number}"})
    return client.getresponse().status


changed = False
for number, (name, (_, expected, is_queued)) in enumerate(receivers.items()):
    away = True
    statuses = [post(number)]
    # The broker is back, and the sender repeats the event. Celery's stays away: nothing is sent to it any more.
    away = False
    statuses.append(post(number))
    found = f"msg_{number}" in queued
    print(f"{name}: {statuses[0]}, then {statuses[1]}, {'queued' if found else 'not queued'}")
    changed |= (statuses, found) != (expected, is_queued)
sys.exit(changed)
PYTHON
python/bin/python receivers.py
