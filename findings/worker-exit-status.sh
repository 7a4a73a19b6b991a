#!/bin/bash
# Hypercorn 0.18.0 exits with 0, as after a normal stop, if its application cannot start, and if its worker process is killed,
# for example for lack of memory; one worker is its default. uvicorn 0.54.0 with `--workers` exits with 0, too, if the
# application's lifespan fails, also if that happens to one worker that replaces another during a short outage of a database,
# while the others serve requests. gunicorn 27.0.0 and granian 2.8.7 exit with another status. Hurt: receivers of webhooks
# under systemd with `Restart=on-failure` or Docker with `--restart on-failure`, which take 0 for the end of the work: the
# receiver stays down after the outage, and all events fail. A deployment that checks the status reports a success.
# Source: `run` in hypercorn/run.py, which returns the status of the processes that it ends itself;
# `Multiprocess.keep_subprocess_alive` in uvicorn/supervisors/multiprocess.py.
# Usage: findings/worker-exit-status.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -9 ${server:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check fastapi==0.165.0 granian==2.8.7 gunicorn==27.0.0 hypercorn==0.18.0 \
  uvicorn==0.54.0
export HOME=$folder
port=$((20000 + $$ % 12000))
changed=0
# The application cannot start while the file `outage` exists.
cat > receiver.py <<'PYTHON'
import os
from contextlib import asynccontextmanager
from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app):
    if os.path.exists("outage"):
        raise RuntimeError("the database does not answer")
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/hook")
async def hook():
    return os.getpid()
PYTHON

post() { curl --silent --max-time 5 --data '{}' "http://127.0.0.1:$port/hook"; }

# Starts a server, and waits until it serves or has ended.
start() {
  port=$((port + 1))
  "python/bin/$1" "${@:2}" receiver:app > log 2>&1 &
  server=$!
  for _ in {1..150}; do
    post > /dev/null && break
    kill -0 "$server" 2> /dev/null || break
    sleep 0.1
  done
}

# Compares the status with which the server ends within this many seconds; "serves" if it goes on.
expect() {
  local seen
  for _ in $(seq $(($1 * 10))); do kill -0 "$server" 2> /dev/null || break; sleep 0.1; done
  if kill -0 "$server" 2> /dev/null; then
    post > /dev/null && seen=serves || seen='does not serve'
    kill "$server"
    wait "$server" || true
  else
    wait "$server" && seen=0 || seen=$?
  fi
  echo "$3: $seen"
  [ "$seen" = "$2" ] || changed=1
}

address() { echo "--bind 127.0.0.1:$((port + 1))"; }

touch outage
start hypercorn $(address)
expect 20 0 'an application that cannot start, hypercorn'
start uvicorn --port $((port + 1)) --workers 2
expect 20 0 'an application that cannot start, uvicorn --workers 2'
start uvicorn --port $((port + 1))
expect 20 3 'an application that cannot start, uvicorn'
start gunicorn $(address) --worker-class asgi
expect 20 3 'an application that cannot start, gunicorn'
start granian --interface asgi --port $((port + 1))
expect 20 1 'an application that cannot start, granian'
rm outage

start hypercorn $(address)
kill -9 "$(post)"
expect 20 0 'a killed worker, hypercorn'
start granian --interface asgi --port $((port + 1))
kill -9 "$(pgrep --parent "$server" | tail --lines 1)"
expect 20 1 'a killed worker, granian'
start uvicorn --port $((port + 1)) --workers 2
kill -9 "$(post)"
expect 3 serves 'a killed worker, uvicorn --workers 2'
start gunicorn $(address) --worker-class asgi
kill -9 "$(post)"
expect 3 serves 'a killed worker, gunicorn'

start uvicorn --port $((port + 1)) --workers 2
sleep 1
touch outage
kill -9 "$(post)"
expect 20 0 'a worker that is replaced during an outage, uvicorn --workers 2'
exit $changed
