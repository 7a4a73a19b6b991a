#!/bin/bash
# cheroot 11.1.2 and eventlet 0.41.3 (Python), and Debian 12's Starman 0.4016-1 (Perl), send the body of a 204 on a connection
# that stays open, so the next response on it begins with that body and is not HTTP. Django 5.2.0's
# `JsonResponse({"stored": True}, status=204)` has such a body. gevent 26.9.0 answers 500 to it, after the application has run.
# HTTP has no body after a 204; granian 2.8.9 and gunicorn 27.0.1 leave it out. Hurt: receivers of webhooks: the next event on
# the connection is processed, but its response is lost, so it is repeated.
# Source: https://www.rfc-editor.org/rfc/rfc9110#section-15.3.5
# Usage: findings/bodies-of-204.sh. Needs apt-get of Debian 12, Perl 5.36, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libclone-perl=0.46-1 libdata-dump-perl=1.25-1 \
  libencode-locale-perl=1.05-3 libhash-multivalue-perl=0.16-3 libhttp-date-perl=6.05-2 libhttp-message-perl=6.44-1 \
  libhttp-parser-xs-perl=0.17-2+b2 libio-html-perl=1.004-3 liblwp-mediatypes-perl=6.04-2 libnet-server-perl=2.013-2 \
  libplack-perl=1.0050-1 libstream-buffered-perl=0.03-3 libtimedate-perl=2.3300-2 libtry-tiny-perl=0.31-2 \
  liburi-perl=5.17-1 starman=0.4016-1
for package in *.deb; do dpkg --extract "$package" .; done
export PERL5LIB=$folder/usr/share/perl5:$folder/usr/lib/x86_64-linux-gnu/perl5/5.36
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cheroot==11.1.2 Django==5.2.0 eventlet==0.41.3 gevent==26.9.0 \
  granian==2.8.9 gunicorn==27.0.1
cat > app.py <<'PYTHON'
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

urlpatterns = [path("hook", lambda request: JsonResponse({"stored": True}, status=204))]
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=[])
app = get_wsgi_application()
PYTHON
cat > app.psgi <<'PERL'
sub { [204, ["Content-Type" => "application/json"], ['{"stored": true}']] };
PERL
cat > serve.py <<'PYTHON'
import sys

from app import app

name, address = sys.argv[1], ("127.0.0.1", int(sys.argv[2]))
if name == "cheroot":
    from cheroot.wsgi import Server

    Server(address, app).start()
elif name == "eventlet":
    import eventlet.wsgi

    eventlet.wsgi.server(eventlet.listen(address), app)
else:
    from gevent.pywsgi import WSGIServer

    WSGIServer(address, app).serve_forever()
PYTHON
cat > client.py <<'PYTHON'
import socket, sys, time

name, port, expected = sys.argv[1], int(sys.argv[2]), sys.argv[3]
EVENT = b"POST /hook HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def head(connection, rest=b""):
    """The first line of a response, and the bytes after its headers."""
    while b"\r\n\r\n" not in rest:
        received = connection.recv(65536)
        if not received:
            return "closed", b""
        rest += received
    lines, _, rest = rest.partition(b"\r\n\r\n")
    return lines.partition(b"\r\n")[0].decode(), rest


for _ in range(200):
    try:
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
connection.sendall(EVENT)
first, rest = head(connection)
if "204" in first:
    connection.sendall(EVENT)
    seen = f"{first}, then {head(connection, rest)[0]}"
else:
    seen = first
print(f"{name}: {seen}")
sys.exit(seen != expected)
PYTHON
port=$((20000 + $$ % 12000))
changed=0

# Starts a server on the next port, and compares the first lines of its responses to two events on a connection.
expect() {
  "${@:3}" > log 2>&1 &
  server=$!
  python3 client.py "$1" "$port" "$2" || changed=1
  kill "$server"
  wait "$server" || true
  port=$((port + 1))
}

status='HTTP/1.1 204 No Content'
expect cheroot "$status, then {\"stored\": true}$status" venv/bin/python serve.py cheroot "$port"
expect eventlet "$status, then {\"stored\": true}$status" venv/bin/python serve.py eventlet "$port"
expect Starman "$status, then {\"stored\": true}$status" perl usr/bin/starman --env production \
  --host 127.0.0.1 --port "$port" --workers 1 app.psgi
expect gevent 'HTTP/1.1 500 Internal Server Error' venv/bin/python serve.py gevent "$port"
expect granian "$status, then $status" venv/bin/granian --interface wsgi --port "$port" app:app
expect gunicorn "$status, then $status" venv/bin/gunicorn --threads 2 --bind "127.0.0.1:$port" app:app
exit $changed
