#!/bin/bash
# hypercorn 0.18.0 replaces a worker because of `--max-requests`, with which servers limit leaks of memory, without waiting for the
# requests and tasks in progress: after 3 seconds, its `graceful_timeout`, requests are answered with 500 and background tasks
# are ended, so events that were answered with 204 are lost, and some connections close without a response. With the same
# limit, gunicorn 27.0.1 with its worker `asgi` and uvicorn 0.54.0 wait for both, though uvicorn sometimes resets a new
# connection. Hurt: receivers of webhooks whose work takes more than 3 seconds: without a deployment, events fail or are lost
# each time that the limit is reached.
# Source: https://hypercorn.readthedocs.io/en/latest/how_to_guides/configuring.html
# Usage: findings/hypercorn-max-requests.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check gunicorn==27.0.1 hypercorn==0.18.0 starlette==1.10.0 uvicorn==0.54.0
cat > receiver.py <<'PYTHON'
import asyncio, os
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.routing import Route


async def work(path):
    await asyncio.sleep(4)
    with open(os.environ["DONE"] + path.replace("/", "-"), "a") as done:
        print("done", file=done)


async def in_background(request):
    return Response(status_code=204, background=BackgroundTask(work, request.url.path))


async def before_response(request):
    await work(request.url.path)
    return Response(status_code=204)


paths = {"/background": in_background, "/before": before_response}
app = Starlette(routes=[Route(path, handler, methods=["POST"]) for path, handler in paths.items()])
PYTHON
cat > client.py <<'PYTHON'
import concurrent.futures, http.client, os, sys, time

EVENTS = 12
# Kept open, because gunicorn ends background tasks if the client closes the connection.
connections = []
# The server, whether background tasks are lost, and whether requests in progress are answered with 500.
EXPECTED = {
    "gunicorn": (False, False),
    "hypercorn-unlimited": (False, False),
    "hypercorn": (True, True),
    "uvicorn": (False, False),
}


def post(port, path):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
        connection.request("POST", path, b'{"event":"job.completed"}')
        status = connection.getresponse().status
        connections.append(connection)
        return status
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def wait(port):
    for _ in range(600):
        try:
            return http.client.HTTPConnection("127.0.0.1", port).connect()
        except OSError:
            time.sleep(0.1)


def check(port, name):
    wait(port)
    found = []
    for path in "/background", "/before":
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            statuses = list(threads.map(post, [port] * EVENTS, [path] * EVENTS))
        time.sleep(6)
        file = name + path.replace("/", "-")
        done = sum(1 for _ in open(file)) if os.path.exists(file) else 0
        found.append((statuses.count(204), done, sorted({str(status) for status in statuses} - {"204"})))
    (answered, done, _), (in_time, _, others) = found
    print(f"{name}: of {answered} events answered with 204, {done} are processed in the background; of {EVENTS} requests in "
          f"progress, {in_time} are answered with 204, others with {others}", flush=True)
    return done < answered, "500" in others


first = int(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(len(EXPECTED)) as threads:
    found = list(threads.map(check, range(first, first + len(EXPECTED)), EXPECTED))
sys.exit(found != list(EXPECTED.values()))
PYTHON
port=$((20000 + $$ % 12000))
servers=
start() { # NAME COMMAND...
  env DONE="$1" "${@:2}" > "$1.log" 2>&1 &
  servers+=" $!"
}
gunicorn=(python/bin/gunicorn --workers 2 receiver:app)
start gunicorn "${gunicorn[@]}" --worker-class asgi --bind "127.0.0.1:$port" --max-requests 5
hypercorn=(python/bin/hypercorn --workers 2 receiver:app)
start hypercorn-unlimited "${hypercorn[@]}" --bind "127.0.0.1:$((port + 1))"
start hypercorn "${hypercorn[@]}" --bind "127.0.0.1:$((port + 2))" --max-requests 5
start uvicorn python/bin/uvicorn --workers 2 receiver:app --port $((port + 3)) --limit-max-requests 5
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
