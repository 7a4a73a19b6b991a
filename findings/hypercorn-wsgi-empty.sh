#!/bin/bash
# Hypercorn 0.18.0 answers 500 to each response of a WSGI application whose body has no parts, because it sends the status
# with the first part: a 204 of Flask 3.1.2, Bottle 0.13.4 and Falcon 4.4.0, and a 410 of Flask without a text. A 204 of
# Django 5.2.0 has one empty part, and is sent. Hurt: receivers of webhooks with Hypercorn as a WSGI server: the event is
# processed, the sender sees a 500, and each retry repeats it; a 410 disables nothing. granian 2.8.9 sends all of them.
# Source: https://peps.python.org/pep-3333/#specification-details
# Usage: findings/hypercorn-wsgi-empty.sh. Needs Python 3.11 with pip, PyPI and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check bottle==0.13.4 Django==5.2.0 falcon==4.4.0 Flask==3.1.2 \
  granian==2.8.9 hypercorn==0.18.0
cat > app.py <<'PYTHON'
import os

import bottle, django, django.conf, django.http, django.urls, falcon, flask
from django.core.wsgi import get_wsgi_application

name = os.environ["FRAMEWORK"]
if name == "Flask":
    app = flask.Flask(__name__)
    responses = {"200": "stored", "204": ("", 204), "410": flask.Response(status=410), "410-with-text": ("gone", 410)}
    app.post("/<name>")(lambda name: responses[name])
elif name == "Bottle":
    app = bottle.Bottle()
    app.post("/204")(lambda: bottle.HTTPResponse(status=204))
elif name == "Falcon":

    class Receiver:
        def on_post(self, request, response):
            response.status = 204

    app = falcon.App()
    app.add_route("/204", Receiver())
else:
    urlpatterns = [django.urls.path("204", lambda request: django.http.HttpResponse(status=204))]
    django.conf.settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=[])
    app = get_wsgi_application()
PYTHON
port=$((20000 + $$ % 12000))
changed=0

# Starts a server with a framework on the next port, and compares the status of a POST to each path.
expect() {
  port=$((port + 1))
  local framework=$1 server_name=$2 seen path
  case $server_name in
    Hypercorn) FRAMEWORK=$framework venv/bin/hypercorn --bind "127.0.0.1:$port" wsgi:app:app > log 2>&1 & ;;
    granian) FRAMEWORK=$framework venv/bin/granian --interface wsgi --port "$port" app:app > log 2>&1 & ;;
  esac
  server=$!
  for _ in {1..200}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
  seen=
  for path in "${@:4}"; do
    seen+=" $(curl --silent --max-time 10 --output /dev/null --write-out '%{http_code}' --data '{}' \
      "http://127.0.0.1:$port/$path")"
  done
  echo "$framework on $server_name, ${*:4}:$seen"
  [ "$seen" = " $3" ] || changed=1
  kill "$server"
  wait "$server" || true
}

expect Flask Hypercorn '200 500 500 410' 200 204 410 410-with-text
expect Bottle Hypercorn 500 204
expect Falcon Hypercorn 500 204
expect Django Hypercorn 204 204
expect Flask granian '200 204 410 410' 200 204 410 410-with-text
exit $changed
