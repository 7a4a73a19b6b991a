#!/bin/bash
# Debian 12's uWSGI 2.0.21-5.1, at a SIGHUP, its graceful reload, waits for the requests in progress, but ends the router of
# `http` at once: the event is stored, and its client sees a closed connection. With `http-socket`, the response is sent. At
# a SIGTERM, which systemd and Docker send, uWSGI cuts off the request and, unless `die-on-term` is set, goes on serving. Hurt:
# receivers of webhooks with uWSGI: each reload repeats the events in progress. With `unix_signal:15 gracefully_kill_them_all`
# in `hook-master-start`, a SIGTERM waits for them.
# Source: https://uwsgi-docs.readthedocs.io/en/latest/Management.html
# Usage: findings/uwsgi-http-reload.sh. Needs apt-get of Debian 12, its libpython3.11, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -INT ${server:-} 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libnorm1=1.5.9+dfsg-2 libpcre3=2:8.39-15 \
  libpgm-5.3-0=5.3.128~dfsg-2 libyajl2=2.1.0-3+deb12u2 libzmq5=4.3.4-6 uwsgi-core=2.0.21-5.1 \
  uwsgi-plugin-python3=2.0.21-5.1
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
cat > app.py <<'PYTHON'
import time


def application(environ, start_response):
    event = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    time.sleep(float(environ["QUERY_STRING"]))
    with open("events", "ab") as events:
        events.write(event)
    start_response("204 No Content", [])
    return []
PYTHON
port=$((20000 + $$ % 12000))
changed=0

# The status of an event whose handler takes this many seconds; 000 if the connection closes without a response.
post() {
  curl --silent --max-time 10 --output /dev/null --write-out '%{http_code}' --data '{}' "http://127.0.0.1:$port/?$1" || true
}

# Starts uWSGI with an option for its address and others, sends it a signal while it handles an event, and compares the
# status, whether the event was stored, and the status of an event after it.
expect() {
  rm -f events
  usr/bin/uwsgi-core --plugins-dir usr/lib/uwsgi/plugins --plugins http,python311 --master --processes 2 \
    --wsgi-file app.py "--$1" "127.0.0.1:$port" "${@:4}" > log 2>&1 &
  server=$!
  for _ in {1..100}; do [ "$(post 0)" = 204 ] && break; sleep 0.1; done
  rm events
  (sleep 1; kill "-$2" "$server") &
  local seen
  seen=$(post 3)
  sleep 4
  seen+=", $([ -s events ] && echo stored || echo lost), then $(post 0)"
  echo "$1${4:+ ${*:4}}, SIG$2: $seen"
  [ "$seen" = "$3" ] || changed=1
  kill -INT "$server" 2> /dev/null || true
  wait "$server" 2> /dev/null || true
  port=$((port + 1))
}

expect http HUP '000, stored, then 204'
expect http-socket HUP '204, stored, then 204'
expect http-socket TERM '000, lost, then 204'
expect http-socket TERM '000, lost, then 000' --die-on-term
expect http-socket TERM '204, stored, then 000' --hook-master-start 'unix_signal:15 gracefully_kill_them_all'
exit $changed
