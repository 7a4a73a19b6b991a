#!/bin/bash
# Work that Flask 3.1.3 runs after a response, with `response.call_on_close`, delays the next request on the same connection
# under gunicorn 27.0.1 (gthread) and waitress 3.0.2: they read it once the work has ended, although other threads are idle.
# waitress sends a 204 only after the work, and a 200 with a body before it. A request on another connection is not delayed.
# Hurt: receivers of webhooks that answer first and work then: they look quick, so the sender reuses the connection, and the
# next event waits for the work of the previous one, up to the sender's timeout; it is processed then, and sent again.
# Usage: findings/flask-call-on-close.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${gunicorn:-}" "${waitress:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check flask==3.1.3 gunicorn==27.0.1 waitress==3.0.2
cat > receiver.py <<'PYTHON'
import time
import flask

app = flask.Flask("receiver")


@app.post("/<int:status>")
def hook(status):
    response = flask.Response("" if status == 204 else "queued", status)
    if flask.request.get_data() == b"work":
        response.call_on_close(lambda: time.sleep(3))
    return response
PYTHON
port=$((20000 + $$ % 12000))
python/bin/gunicorn --bind "127.0.0.1:$port" --worker-class gthread --threads 4 --log-level critical receiver:app &
gunicorn=$!
python/bin/waitress-serve --listen "127.0.0.1:$((port + 1))" --threads 4 receiver:app > log 2>&1 &
waitress=$!
cat > client.py <<'PYTHON'
import http.client, sys, time


def connect(port):
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
            connection.connect()
            return connection
        except ConnectionRefusedError:
            time.sleep(0.1)


def waits(connection, status, body):
    """Whether the response took as long as the work."""
    start = time.monotonic()
    connection.request("POST", f"/{status}", body)
    response = connection.getresponse()
    response.read()
    assert response.status == status
    return time.monotonic() - start > 1.5


found = {}
for server, port in ("gunicorn", int(sys.argv[1])), ("waitress", int(sys.argv[1]) + 1):
    waits(connect(port), 200, b"warm up")
    for status in 200, 204:
        kept = connect(port)
        first = waits(kept, status, b"work")
        found[f"{server}, {status}"] = first, waits(connect(port), status, b""), waits(kept, status, b"")
for name, (first, other, second) in found.items():
    text = ("at once", "after the work")
    print(f"{name}: response {text[first]}; another connection {text[other]}; next request {text[second]}")
# After a 204, waitress closes the connection, so the next request is on a new one.
sys.exit(found != {
    "gunicorn, 200": (False, False, True), "gunicorn, 204": (False, False, True),
    "waitress, 200": (False, False, True), "waitress, 204": (True, False, False),
})
PYTHON
python3 client.py "$port"
