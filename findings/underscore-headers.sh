#!/bin/bash
# gunicorn 27.0.1, waitress 3.0.2, Werkzeug 3.1.9, gevent 26.9.0 and Daphne 4.2.3 drop a request header whose name contains
# an underscore, such as `x_api_key`, without an error or a log line. uvicorn 0.54.0, Hypercorn 0.18.0, granian 2.8.9 and
# Cheroot 11.1.2 pass it on. Hurt: receivers of webhooks whose sender adds such a header as a token: it works with one
# server and is missing behind another, and the sender's log shows that it was sent.
# Usage: findings/underscore-headers.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check gunicorn==27.0.1 waitress==3.0.2 Werkzeug==3.1.9 gevent==26.9.0 \
  daphne==4.2.3 uvicorn==0.54.0 hypercorn==0.18.0 granian==2.8.9 cheroot==11.1.2
cat > app.py <<'PYTHON'
def wsgi(environ, start_response):
    """Answers the names of the headers that begin with an x, in alphabetical order."""
    names = sorted(name.removeprefix("HTTP_").lower() for name in environ if name.startswith("HTTP_X"))
    body = " ".join(names).encode()
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
    names = sorted(name.decode().replace("-", "_") for name, _ in scope["headers"] if name.startswith(b"x"))
    body = " ".join(names).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
PYTHON
cat > serve.py <<'PYTHON'
import sys
from app import wsgi

server, port = sys.argv[1], int(sys.argv[2])
if server == "Werkzeug":
    from werkzeug.serving import run_simple

    run_simple("127.0.0.1", port, wsgi)
else:
    from gevent.pywsgi import WSGIServer

    WSGIServer(("127.0.0.1", port), wsgi).serve_forever()
PYTHON
cat > ask.py <<'PYTHON'
import http.client, sys, time

port, name, expected = int(sys.argv[1]), sys.argv[2], sys.argv[3]
connection = http.client.HTTPConnection("127.0.0.1", port)
for attempt in range(100):
    try:
        connection.connect()
        break
    except ConnectionRefusedError:
        time.sleep(0.2)
connection.request("POST", "/", b"{}", {"x_api_key": "a", "x-api-token": "b", "connection": "close"})
seen = connection.getresponse().read().decode()
print(f"{name}: {seen}")
sys.exit(seen != ("x_api_token" if expected == "drops" else "x_api_key x_api_token"))
PYTHON
port=$((20000 + $$ % 12000))
changed=0

# Starts the server of this name on the next port, and compares the headers that it passes on.
expect() {
  port=$((port + 1))
  local expected=$1 name=$2
  PYTHONPATH=. "${@:3}" > log 2>&1 &
  server=$!
  python3 ask.py $port "$name" "$expected" || changed=1
  kill $server 2> /dev/null || cat log
  wait $server 2> /dev/null || true
}

bin=venv/bin
expect drops gunicorn $bin/gunicorn --bind 127.0.0.1:$((port + 1)) app:wsgi
expect drops waitress $bin/waitress-serve --listen=127.0.0.1:$((port + 1)) app:wsgi
expect drops Werkzeug $bin/python serve.py Werkzeug $((port + 1))
expect drops gevent $bin/python serve.py gevent $((port + 1))
expect drops Daphne $bin/daphne --bind 127.0.0.1 --port $((port + 1)) app:asgi
expect keeps uvicorn $bin/uvicorn --port $((port + 1)) app:asgi
expect keeps Hypercorn $bin/hypercorn --bind 127.0.0.1:$((port + 1)) app:asgi
expect keeps granian $bin/granian --port $((port + 1)) --interface wsgi app:wsgi
expect keeps Cheroot $bin/cheroot --bind 127.0.0.1:$((port + 1)) app:wsgi
exit $changed
