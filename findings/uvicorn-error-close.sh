#!/bin/bash
# FastAPI 0.165.0 (Starlette 1.10.0) on uvicorn 0.54.0 answers 500 if a handler raises an error, as keep-alive, and then closes the
# connection: Starlette raises the error again after its response, and uvicorn closes where an application raises. The next
# request on the connection, 0.2 s later, ends with a reset. gunicorn 27.0.1 with its asgi worker does the same; hypercorn
# 0.18.0 and granian 2.8.9 serve the next request. Hurt: senders that reuse connections: one bad event costs the next good one
# its attempt, unless the sender repeats a request that meets a close, and load balancers that answer 502 instead.
# Usage: findings/uvicorn-error-close.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check fastapi==0.165.0 starlette==1.10.0 uvicorn==0.54.0 \
  gunicorn==27.0.1 hypercorn==0.18.0 granian==2.8.9
cat > app.py <<'PYTHON'
import fastapi

app = fastapi.FastAPI()


@app.post("/{path}")
async def hook(path: str, request: fastapi.Request):
    await request.body()
    if path == "bad":
        raise RuntimeError("the handler failed")
    return fastapi.Response("received")
PYTHON
cat > client.py <<'PYTHON'
import http.client, socket, subprocess, time


def post(connection, path):
    try:
        connection.request("POST", path, b"{}")
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except ConnectionError:
        return "reset"


def seen(command):
    """The responses to a bad event and, on the same connection, to a good one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [word.replace("PORT", str(port)) for word in command.split()]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while post(http.client.HTTPConnection("127.0.0.1", port), "/good") != 200:
            time.sleep(0.2)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        first = post(connection, "/bad")
        assert connection.sock is not None, "the close is announced"
        connection.auto_open = 0
        time.sleep(0.2)
        return first, post(connection, "/good")
    finally:
        server.terminate()
        server.wait()


for command, expected in [
    ("uvicorn --port PORT app:app", (500, "reset")),
    ("gunicorn -k asgi -b 127.0.0.1:PORT app:app", (500, "reset")),
    ("hypercorn -b 127.0.0.1:PORT app:app", (500, 200)),
    ("granian --interface asgi --port PORT app:app", (500, 200)),
]:
    found = seen(f"python/bin/{command}")
    print(f"{command.split()[0]}: the bad event and the next one: {found}")
    assert found == expected
PYTHON
python/bin/python client.py
