#!/bin/bash
# uWSGI 2.0.30.post1 sends no response if a WSGI application raises an error, as Pyramid 2.1 does for a view that fails: it
# closes the connection. With `http-keepalive`, it keeps the connection open, and a client waits for a minute, until
# `http-timeout`. gunicorn 27.0.1 and waitress 3.0.2 answer 500. With `catch-exceptions`, uWSGI does, too, and shows the stack.
# Hurt: receivers of webhooks in Pyramid or in plain WSGI: for an error, the sender's log has no status and no text, but a
# connection that failed or a time-out, as if the receiver could not be reached.
# Usage: findings/uwsgi-errors.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -KILL ${server:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check gunicorn==27.0.1 pyramid==2.1 \
  pyuwsgi==2.0.30.post1 waitress==3.0.2
cat > app.py <<'PYTHON'
import pyramid.config, pyramid.response


def hook(request):
    if request.body == b"{}":
        return pyramid.response.Response(status=204)
    raise RuntimeError("The database is away")


with pyramid.config.Configurator() as config:
    config.add_route("hook", "/hook")
    config.add_view(hook, route_name="hook", request_method="POST")
    app = config.make_wsgi_app()
PYTHON
cat > client.py <<'PYTHON'
import socket, subprocess, sys, time


def post(port, body):
    """The status of the response, or how a request ends without one."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(20)
        connection.sendall(f"POST /hook HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        try:
            line = connection.recv(1000).split(b"\r\n")[0].decode()
        except TimeoutError:
            return "open after 20 s"
        return int(line.split()[1]) if line else "closed"


def seen(command):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    server = subprocess.Popen(command.replace("PORT", str(port)).split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                if post(port, "{}") == 204:
                    return post(port, "{ }")
            except ConnectionRefusedError:
                pass
            time.sleep(0.2)
    finally:
        server.terminate()
        try:
            server.wait(2)
        except subprocess.TimeoutExpired:
            server.kill()


UWSGI = "python/bin/pyuwsgi --die-on-term --module app:app"
changed = False
for command, expected in [
    (f"{UWSGI} --http-socket 127.0.0.1:PORT", "closed"),
    (f"{UWSGI} --http 127.0.0.1:PORT", "closed"),
    (f"{UWSGI} --http 127.0.0.1:PORT --http-keepalive", "open after 20 s"),
    (f"{UWSGI} --http 127.0.0.1:PORT --http-keepalive --catch-exceptions", 500),
    ("python/bin/gunicorn -b 127.0.0.1:PORT app:app", 500),
    ("python/bin/waitress-serve --listen 127.0.0.1:PORT app:app", 500),
]:
    found = seen(command)
    print(f"{command.removeprefix('python/bin/')}: {found}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python/bin/python client.py
