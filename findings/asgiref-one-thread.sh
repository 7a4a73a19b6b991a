#!/bin/bash
# WsgiToAsgi of asgiref 3.13.0, with which Flask's documentation runs an application under an ASGI server, processes one request
# at a time: eight events at once, each with half a second of work, take four seconds, under uvicorn 0.54.0 and hypercorn 0.18.0.
# Its README says that the application is run in a threadpool, but the pool has one thread for the whole process. a2wsgi 1.10.10
# takes half a second for all. Hurt: receivers of webhooks in Flask: one slow event, such as one that waits for a lock of a
# database or for another API, delays all others, so in a burst the sender's time for a response runs out, and events that
# were processed late are sent again.
# Source: https://flask.palletsprojects.com/en/stable/deploying/asgi/
# Usage: findings/asgiref-one-thread.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check a2wsgi==1.10.10 asgiref==3.13.0 flask==3.1.3 hypercorn==0.18.0 uvicorn==0.54.0
cat > receiver.py <<'PYTHON'
import time
import a2wsgi, asgiref.wsgi, flask

app = flask.Flask(__name__)


@app.post("/hook")
def hook():
    flask.request.get_data()
    time.sleep(0.5)
    return "", 204


by_asgiref = asgiref.wsgi.WsgiToAsgi(app)
by_a2wsgi = a2wsgi.WSGIMiddleware(app)
PYTHON
cat > client.py <<'PYTHON'
import concurrent.futures, http.client, sys, time


def post(port):
    """The status and the time of one event."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            began = time.monotonic()
            connection.request("POST", "/hook", b'{"event":"job.completed"}')
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    response = connection.getresponse()
    response.read()
    return response.status, time.monotonic() - began


changed = False
names = "WsgiToAsgi under uvicorn", "WsgiToAsgi under hypercorn", "a2wsgi under uvicorn"
for port, name in enumerate(names, int(sys.argv[1])):
    post(port)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(post, [port] * 8))
    longest = max(seconds for _, seconds in found)
    print(f"{name}: eight events at once take {longest:.1f} s")
    changed |= any(status != 204 for status, _ in found) or (longest > 3.9) != ("WsgiToAsgi" in name) or longest > 10
sys.exit(changed)
PYTHON
port=$((20000 + $$ % 12000))
python/bin/uvicorn receiver:by_asgiref --port "$port" > uvicorn.log 2>&1 &
servers=$!
python/bin/hypercorn receiver:by_asgiref --bind "127.0.0.1:$((port + 1))" > hypercorn.log 2>&1 &
servers+=" $!"
python/bin/uvicorn receiver:by_a2wsgi --port $((port + 2)) > a2wsgi.log 2>&1 &
servers+=" $!"
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
