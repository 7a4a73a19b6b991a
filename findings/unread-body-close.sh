#!/bin/bash
# gunicorn 27.0.1 with its gthread worker answers a request whose body the application has not read, without
# `connection: close`, and then closes the connection if the body has 300 KB; the next request on it ends with a reset. With
# 60 KB, it serves the next request, and so does waitress 3.0.2 with both. The sync worker announces each close. Hurt: receivers
# that reject a request by its headers, before they read the body: a valid event that follows on the connection fails, and
# only after large events.
# Usage: findings/unread-body-close.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check gunicorn==27.0.1 waitress==3.0.2
cat > app.py <<'PYTHON'
def app(environ, start_response):
    start_response("401 Unauthorized", [("content-length", "0")])
    return []
PYTHON
cat > client.py <<'PYTHON'
import http.client, socket, subprocess, time


def post(connection, size):
    try:
        connection.request("POST", "/", b"x" * size)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except ConnectionError:
        return "reset"


def seen(command, size):
    """The responses to a request with a body of this size and, on the same connection, to a small one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [word.replace("PORT", str(port)) for word in command.split()]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while post(http.client.HTTPConnection("127.0.0.1", port), 2) != 401:
            time.sleep(0.2)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        first = post(connection, size)
        if connection.sock is None:
            return first, "announced"
        connection.auto_open = 0
        time.sleep(0.2)
        return first, post(connection, 2)
    finally:
        server.terminate()
        server.wait()


for command, expected in [
    ("gunicorn -k gthread -b 127.0.0.1:PORT app:app", [(401, 401), (401, "reset")]),
    ("gunicorn -k sync -b 127.0.0.1:PORT app:app", [(401, "announced")] * 2),
    ("waitress-serve --listen 127.0.0.1:PORT app:app", [(401, 401)] * 2),
]:
    found = [seen(f"python/bin/{command}", size) for size in (60_000, 300_000)]
    print(f"{command}: {found}")
    assert found == expected
PYTHON
python/bin/python client.py
