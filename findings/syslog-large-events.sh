#!/bin/bash
# The system log keeps the beginning of a large event only. `logger` of Debian 12 (bsdutils 2.38.1) cuts off an argument after 1
# KB, and splits a longer line of its input into several messages, with exit status 0. rsyslog 8.2302.0-1+deb12u2 cuts off a
# message after 8 KB, and so does its `imfile` with a line of a file, without a word in its log. Python 3.11's `SysLogHandler`
# prints an error for a message that is too large for the socket, and the program goes on. Hurt: receivers of webhooks that hand
# each event over to the system log, or to a file that rsyslog forwards, and answer 204: small events arrive, and of a larger
# one, only a piece that is no JSON. `logger --size 2000000` and `global(maxMessageSize="2m")` keep larger ones, up to what the
# socket takes.
# Source: logger(1), `--size`, and https://www.rsyslog.com/doc/rainerscript/global.html (maxMessageSize)
# Usage: findings/syslog-large-events.sh. Needs apt-get of Debian 12, its logger, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet bsdutils=1:2.38.1-5+deb12u3 libestr0=0.1.11-1 \
  libfastjson4=1.2304.0-1 rsyslog=8.2302.0-1+deb12u2
for package in *.deb; do dpkg --extract "$package" .; done
modules=$folder/usr/lib/x86_64-linux-gnu/rsyslog
# Starts rsyslog with this name and a setting.
start() {
  mkdir "$1"
  touch "$1/events"
  cat > "$1.conf" <<RSYSLOG
$2
global(workDirectory="$folder/$1")
module(load="$modules/imuxsock.so" SysSock.Use="off")
module(load="$modules/imfile.so")
input(type="imuxsock" Socket="$folder/$1/socket")
input(type="imfile" File="$folder/$1/events" Tag="file:")
template(name="line" type="string" string="%programname% %msg:::drop-last-lf%\n")
*.* action(type="omfile" file="$folder/$1/log" template="line")
RSYSLOG
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/rsyslogd -n -f "$folder/$1.conf" -i "$folder/$1/pid" -M "$modules" \
    > "$1.out" 2>&1 &
  servers+=" $!"
  for _ in {1..100}; do [ -S "$1/socket" ] && break; sleep 0.1; done
}
start default ''
start raised 'global(maxMessageSize="2m")'
# Prints an event of about this many bytes.
event() { python3 -c 'import json, sys; print(json.dumps({"result": "x" * int(sys.argv[1])}))' "$1"; }
logger() { usr/bin/logger --socket-errors=on --socket "$1/socket" "${@:2}"; }
status=0
logger default --tag argument -- "$(event 3000)" || status=$?
event 3000 | logger default --tag input || status=$?
logger default --tag size --size 2000000 -- "$(event 3000)" || status=$?
event 20000 >> default/events
logger raised --tag size --size 2000000 -- "$(event 20000)" || status=$?
event 20000 >> raised/events
cat > log.py <<'PYTHON'
import json, logging, logging.handlers

handler = logging.handlers.SysLogHandler("default/socket")
handler.ident = "python: "
logger = logging.getLogger("events")
logger.setLevel(logging.INFO)
logger.addHandler(handler)
for length in 3000, 20_000, 1_000_000:
    logger.info(json.dumps({"result": "x" * length}))
PYTHON
python3 log.py 2> errors
cat > read.py <<'PYTHON'
import json, sys


def whole(text):
    try:
        json.loads(text)
        return "whole"
    except ValueError:
        return "no JSON"


for name in "default", "raised":
    for line in sorted(open(f"{name}/log")):
        tag, text = line.split(maxsplit=1)
        if tag in ("argument", "input", "size", "python", "file"):
            print(f"{name}, {tag}: {len(text) // 1000} KB, {whole(text)}")
PYTHON
expected='default, argument: 1 KB, no JSON
default, file: 8 KB, no JSON
default, input: 0 KB, no JSON
default, input: 1 KB, no JSON
default, input: 1 KB, no JSON
default, python: 3 KB, whole
default, python: 8 KB, no JSON
default, size: 3 KB, whole
raised, file: 20 KB, whole
raised, size: 20 KB, whole'
for _ in {1..100}; do
  seen=$(python3 read.py 2> /dev/null | sort) || true
  [ "$seen" = "$expected" ] && break
  sleep 0.1
done
echo "$seen"
echo "exit status of logger: $status; Python, 1 MB: $(grep --max-count 1 OSError errors)"
[ "$seen" = "$expected" ] && [ "$status" = 0 ] && [ ! -s default.out ] && grep --quiet 'Message too long' errors
