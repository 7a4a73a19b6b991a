#!/bin/bash
# waitress 3.0.2 closes the connection after each response with status 204, and keeps it after a 200 or 202 with an empty
# body: it closes where a response has no content-length, which a 204 must not have. Hurt: receivers of webhooks that
# answer 204, the usual status for "received": each event costs a new connection, and a TLS handshake at a proxy in front.
# Usage: findings/waitress-204.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check waitress==3.0.2
"$folder/python/bin/python" - <<'PYTHON'
import socket, threading
import waitress


def app(environ, start_response):
    status = environ["PATH_INFO"].strip("/")
    start_response(f"{status} OK", [] if status == "204" else [("content-length", "0")])
    return []


server = waitress.create_server(app, host="127.0.0.1", port=0)
threading.Thread(target=server.run, daemon=True).start()
for status, is_kept in [("200", True), ("202", True), ("204", False)]:
    connection = socket.create_connection(("127.0.0.1", server.effective_port))
    connection.settimeout(2)
    connection.sendall(f"POST /{status} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}".encode())
    answer = connection.recv(4096)
    while not answer.endswith(b"\r\n\r\n"):
        answer += connection.recv(4096)
    try:
        closed = connection.recv(1) == b""
    except TimeoutError:
        closed = False
    announced = b"connection: close" in answer.lower()
    print(f"{status}: {'closed' if closed else 'kept'} after the response, {'announced' if announced else 'not announced'}")
    assert closed == announced != is_kept
    connection.close()
PYTHON
