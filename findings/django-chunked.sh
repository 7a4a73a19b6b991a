#!/bin/bash
# Django 5.2.19 under gunicorn 27.0.1 gives an empty `request.body` for a chunked request, with status 200 and no error,
# while Flask 3.1.3 under the same server gives the body: Django reads as many bytes as content-length says, and there is
# none. Hurt: receivers of signed webhooks behind a proxy that passes bodies on in chunks: every signature is wrong, and
# nothing says why.
# Usage: findings/django-chunked.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check django==5.2.19 flask==3.1.3 werkzeug==3.1.9 gunicorn==27.0.1
cat > dj.py <<'PYTHON'
from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x" * 50, MIDDLEWARE=[])
import django
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

django.setup()
urlpatterns = [path("", lambda request: HttpResponse(str(len(request.body))))]
app = get_wsgi_application()
PYTHON
cat > fl.py <<'PYTHON'
from flask import Flask, request

app = Flask(__name__)
app.post("/")(lambda: str(len(request.get_data())))
PYTHON
cat > client.py <<'PYTHON'
import http.client
import sys
import time


def lengths(port):
    """The number of bytes that the handler saw, for a request with a length and for a chunked one."""
    seen = []
    for chunked in [False, True]:
        for _ in range(100):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                body = iter([b'{"n":', b"1.50}"]) if chunked else b'{"n":1.50}'
                headers = {"content-type": "application/json"}
                connection.request("POST", "/", body, headers, encode_chunked=chunked)
                answer = connection.getresponse()
                seen.append((answer.status, int(answer.read())))
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
    return seen


print(lengths(int(sys.argv[1])))
PYTHON
port=$((20000 + $$ % 12000))
for app in dj fl; do
  venv/bin/gunicorn --log-level critical --bind "127.0.0.1:$port" "$app:app" &
  server=$!
  seen=$(venv/bin/python client.py "$port")
  echo "$app: with a length, and chunked: $seen"
  if [ "$app" = dj ]; then expected='[(200, 10), (200, 0)]'; else expected='[(200, 10), (200, 10)]'; fi
  [ "$seen" = "$expected" ]
  kill "$server"
  wait "$server" 2> /dev/null || true
  port=$((port + 1))
done
