#!/bin/bash
# gunicorn 27.0.1 with its worker `asgi` cancels an `async` background task of FastAPI and Starlette three seconds after the client
# has closed the connection, although the complete response was sent, and logs nothing. Its documentation describes the setting
# `asgi_disconnect_grace_period` for clients that disconnect, not for responses that are complete. Daphne 4.2.3 ends each such
# task ten seconds after the response, with a warning. gunicorn with uvicorn-worker 0.4.0, uvicorn 0.54.0, hypercorn 0.18.0 and
# granian 2.8.9 let it go on to its end. Hurt: receivers of webhooks that answer 204 and process the event in a task: senders
# close the connection after the response, or some seconds later, and the event is lost. A test with a client that keeps its
# connection passes.
# Source: https://gunicorn.org/reference/settings/#asgi_disconnect_grace_period and https://github.com/django/daphne
# Usage: findings/asgi-task-limits.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check daphne==4.2.3 granian==2.8.9 gunicorn==27.0.1 hypercorn==0.18.0 \
  starlette==1.10.0 uvicorn==0.54.0 uvicorn-worker==0.4.0
cat > receiver.py <<'PYTHON'
import asyncio, os
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.routing import Route


async def work(seconds, event):
    await asyncio.sleep(seconds)
    with open(f"{os.environ['SERVER']}.{event}", "w") as done:
        print("done", file=done)


async def hook(request):
    event = (await request.body()).decode()
    return Response(status_code=204, background=BackgroundTask(work, int(request.query_params["seconds"]), event))


app = Starlette(routes=[Route("/hook", hook, methods=["POST"])])
PYTHON
cat > client.py <<'PYTHON'
import http.client, os, sys, time

NAMES = ["gunicorn", "gunicorn-grace-60", "gunicorn-uvicorn-worker", "uvicorn", "hypercorn", "granian", "daphne"]
EVENTS = {"short": (1, "close"), "closed": (6, "close"), "kept": (6, "keep-alive"), "long": (14, "keep-alive")}
kept, missing = [], []
for port, name in enumerate(NAMES, int(sys.argv[1])):
    for event, (seconds, connection) in EVENTS.items():
        for _ in range(600):
            try:
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                client.request("POST", f"/hook?seconds={seconds}", event, {"connection": connection})
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        response = client.getresponse()
        assert response.status == 204, response.status
        response.read()
        if connection == "close":
            client.close()
        kept.append(client)
time.sleep(17)
for name in NAMES:
    for event, (seconds, connection) in EVENTS.items():
        done = os.path.exists(f"{name}.{event}")
        print(f"{name}, a task of {seconds} s, connection {connection}: {'done' if done else 'LOST'}")
        if not done:
            missing.append((name, event))
sys.exit(missing != [("gunicorn", "closed"), ("daphne", "long")])
PYTHON
port=$((20000 + $$ % 12000))
servers=
start() { # NAME COMMAND...
  env SERVER="$1" "${@:2}" > "$1.log" 2>&1 &
  servers+=" $!"
}
start gunicorn python/bin/gunicorn receiver:app --worker-class asgi --bind "127.0.0.1:$port"
start gunicorn-grace-60 python/bin/gunicorn receiver:app --worker-class asgi --bind "127.0.0.1:$((port + 1))" \
  --asgi-disconnect-grace-period 60
start gunicorn-uvicorn-worker python/bin/gunicorn receiver:app --worker-class uvicorn_worker.UvicornWorker \
  --bind "127.0.0.1:$((port + 2))"
start uvicorn python/bin/uvicorn receiver:app --port $((port + 3))
start hypercorn python/bin/hypercorn receiver:app --bind "127.0.0.1:$((port + 4))"
start granian python/bin/granian receiver:app --interface asgi --host 127.0.0.1 --port $((port + 5))
start daphne python/bin/daphne --bind 127.0.0.1 --port $((port + 6)) receiver:app
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
if grep --ignore-case cancel gunicorn.log; then exit 1; fi
