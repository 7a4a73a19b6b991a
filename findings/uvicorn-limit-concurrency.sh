#!/bin/bash
# uvicorn 0.54.0 with `--limit-concurrency 3` answers 503 to a request on a third connection while two others are idle and no
# request is in progress: it counts open connections, also those that it keeps for later requests, and the new one. The
# response has no `Retry-After`. Hurt: receivers of webhooks that limit their
# load in this way: a sender that keeps its connections gets a 503 from an idle receiver, until a connection has been idle for
# five seconds.
# Usage: findings/uvicorn-limit-concurrency.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check uvicorn==0.54.0
cat > app.py <<'PYTHON'
async def app(scope, receive, send):
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})
PYTHON
port=$((20000 + $$ % 12000))
python/bin/uvicorn --host 127.0.0.1 --port "$port" --limit-concurrency 3 --log-level critical app:app &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time


def post(connection):
    connection.request("POST", "/hook", b"{}", {"content-type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("retry-after")


def connect():
    return http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))


for _ in range(100):
    try:
        connect().connect()
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
time.sleep(0.5)
kept = [connect() for _ in range(2)]
found = [post(connection) for connection in kept] + [post(connect())]
kept[0].close()
time.sleep(0.5)
found.append(post(connect()))
print(f"two connections: {found[:2]}; a third one: {found[2]}; after one was closed: {found[3]}")
sys.exit(found != [(204, None), (204, None), (503, None), (204, None)])
PYTHON
python3 client.py "$port"
