#!/bin/bash
# The spooler of Debian 12's uWSGI 2.0.21-5.1, its own queue of tasks in files, keeps of an argument of more than 64 KB only
# the rest of its length after division by 65536: of 70000 bytes the first 4464. `spool()` of python3-uwsgidecorators raises no
# error, and the task runs with the shortened value. With `pass_arguments=True`, which stores the arguments as a pickle, the
# task never runs: it fails at each attempt, without limit, and only the log says so. Hurt: receivers of webhooks that put each
# event into the spooler and answer 204: small events work, and a large one is cut off, or never processed. The argument
# with the name `body` has no such limit.
# Source: https://uwsgi-docs.readthedocs.io/en/latest/Spooler.html, which has `body` for larger values.
# Usage: findings/uwsgi-spooler-arguments.sh. Needs apt-get of Debian 12, its libpython3.11, and curl. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -INT ${server:-} 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libnorm1=1.5.9+dfsg-2 libpcre3=2:8.39-15 \
  libpgm-5.3-0=5.3.128~dfsg-2 libyajl2=2.1.0-3+deb12u2 libzmq5=4.3.4-6 python3-uwsgidecorators=2.0.21-5.1 \
  uwsgi-core=2.0.21-5.1 uwsgi-plugin-python3=2.0.21-5.1
for package in *.deb; do dpkg --extract "$package" .; done
mkdir spool
cat > app.py <<'PYTHON'
import os
from uwsgidecorators import spool

RAN = os.path.abspath("ran")


def ran(text):
    with open(RAN, "a") as file:
        file.write(text + "\n")


@spool
def by_name(arguments):
    ran(f"by name: {len(arguments['event'])} bytes")


@spool
def as_body(arguments):
    ran(f"as body: {len(arguments['body'])} bytes")


@spool(pass_arguments=True)
def passed(event):
    ran(f"passed: {len(event)} bytes")


def application(environ, start_response):
    event = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    by_name.spool(event=event)
    as_body.spool(body=event)
    passed.spool(event)
    start_response("204 No Content", [])
    return []
PYTHON
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu \
  PYTHONPATH=$folder/usr/lib/python3/dist-packages usr/bin/uwsgi-core --plugins-dir usr/lib/uwsgi/plugins \
  --plugins http,python311 --master --wsgi-file app.py --spooler spool --spooler-frequency 1 \
  --http-socket "127.0.0.1:$port" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
seen=
touch ran
# The length of an event, and the number of tasks that run.
while read -r length tasks; do
  head --bytes "$length" /dev/zero | tr '\0' x > event
  status=$(curl --silent --output /dev/null --write-out '%{http_code}' --data-binary @event "http://127.0.0.1:$port/hook")
  for _ in {1..150}; do [ "$(wc --lines < ran)" -ge "$tasks" ] && break; sleep 0.1; done
  sleep 1
  seen+="an event of $length bytes: $status
$(sort ran)
"
  : > ran
done <<< '60000 3
70000 2
1000000 2'
seen+="left in the spooler: $(ls spool | wc --lines)"
echo "$seen"
[ "$seen" = 'an event of 60000 bytes: 204
as body: 60000 bytes
by name: 60000 bytes
passed: 60000 bytes
an event of 70000 bytes: 204
as body: 70000 bytes
by name: 4464 bytes
an event of 1000000 bytes: 204
as body: 1000000 bytes
by name: 16960 bytes
left in the spooler: 2' ] && grep --quiet 'pickle data was truncated' log
