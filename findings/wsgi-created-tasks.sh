#!/bin/bash
# Django 5.2.19 and django-ninja 1.7.1 under a WSGI server (gunicorn 27.0.1), and Flask 3.1.3, cancel a task of
# `asyncio.create_task` when an `async def` view has returned, also if the program keeps a reference to the task, and log nothing.
# Under an ASGI server (uvicorn 0.54.0), also with a synchronous middleware, the task of the same Django view goes on to its end.
# Django's documentation says of `async def` views under WSGI that they work "without any issues"; Flask's names the cancellation.
# Hurt: receivers of webhooks that answer at once and do the work in a task: the response is a 204, and the event is lost.
# Source: https://docs.djangoproject.com/en/5.2/topics/async/ and https://flask.palletsprojects.com/en/stable/async-await/
# Usage: findings/wsgi-created-tasks.sh. Needs Python 3.11 with pip, curl, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check asgiref==3.13.0 django==5.2.19 django-ninja==1.7.1 'flask[async]==3.1.3' \
  gunicorn==27.0.1 uvicorn==0.54.0
cat > receiver.py <<'PYTHON'
import asyncio, os
import django, django.conf, django.core.asgi, django.core.wsgi, django.http, django.urls, flask

tasks = set()


async def work(path):
    with open(os.environ["OUTCOMES"], "a") as outcomes:
        try:
            await asyncio.sleep(0.5)
            print(f"{path} done", file=outcomes)
        except asyncio.CancelledError:
            print(f"{path} canceled", file=outcomes)


async def hook(request):
    tasks.add(asyncio.create_task(work(request.path)))
    return django.http.HttpResponse(status=204)


def middleware(get_response):
    return lambda request: get_response(request)


urlpatterns = [django.urls.path("hook", hook)]
django.conf.settings.configure(
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["receiver.middleware"] if "MIDDLEWARE" in os.environ else [],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a key for a test",
)
django.setup()

import ninja

api = ninja.NinjaAPI()


@api.post("/hook", response={204: None})
async def hook_of_ninja(request):
    tasks.add(asyncio.create_task(work(request.path)))
    return 204, None


urlpatterns.append(django.urls.path("ninja/", api.urls))
wsgi = django.core.wsgi.get_wsgi_application()
asgi = django.core.asgi.get_asgi_application()
in_flask = flask.Flask(__name__)


@in_flask.post("/hook")
async def hook_of_flask():
    tasks.add(asyncio.create_task(work(flask.request.path)))
    return "", 204
PYTHON
port=$((20000 + $$ % 12000))
start() { # NAME COMMAND...
  env OUTCOMES="$1.outcomes" "${@:2}" > "$1.log" 2>&1 &
  servers+=" $!"
}
servers=
start 1-django-wsgi python/bin/gunicorn --bind "127.0.0.1:$port" receiver:wsgi
start 2-django-wsgi-threads python/bin/gunicorn --threads 4 --bind "127.0.0.1:$((port + 1))" receiver:wsgi
start 3-django-asgi python/bin/uvicorn receiver:asgi --port $((port + 2))
start 4-django-asgi-middleware env MIDDLEWARE=1 python/bin/uvicorn receiver:asgi --port $((port + 3))
start 5-flask python/bin/gunicorn --bind "127.0.0.1:$((port + 4))" receiver:in_flask
for one in {0..4}; do
  for path in /hook /ninja/hook; do
    if [ "$one$path" = 4/ninja/hook ]; then continue; fi
    curl --silent --retry 60 --retry-connrefused --retry-delay 1 --retry-max-time 60 --max-time 20 --write-out '%{http_code}\n' \
      --data '{"event":"job.completed"}' "http://127.0.0.1:$((port + one))$path" >> statuses
  done
done
sleep 2
sort --unique statuses
grep --with-filename . ./*.outcomes | sort > seen
cat seen
[ "$(sort --unique statuses)" = 204 ]
diff seen - <<'EXPECTED' || { tail --lines 5 ./*.log; exit 1; }
./1-django-wsgi.outcomes:/hook canceled
./1-django-wsgi.outcomes:/ninja/hook canceled
./2-django-wsgi-threads.outcomes:/hook canceled
./2-django-wsgi-threads.outcomes:/ninja/hook canceled
./3-django-asgi.outcomes:/hook done
./3-django-asgi.outcomes:/ninja/hook done
./4-django-asgi-middleware.outcomes:/hook done
./4-django-asgi-middleware.outcomes:/ninja/hook done
./5-flask.outcomes:/hook canceled
EXPECTED
if grep --ignore-case cancel ./*.log; then exit 1; fi
