#!/bin/bash
# Debian 12's nghttpx 1.52.0-1+deb12u3 waits longer after each connection that the application refuses, up to two minutes, and
# answers 502 in the meantime without asking the application, also if this is its only one and runs again. Every event during
# an outage makes the next wait longer. HAProxy 2.6.12-1+deb12u4 asks the application each time. Hurt: receivers of webhooks
# behind nghttpx that were stopped for a minute: after the restart, events fail for up to two minutes more.
# `--backend-max-backoff=1s` limits the wait.
# Source: https://nghttp2.org/documentation/nghttpx.1.html#cmdoption-nghttpx-backend-max-backoff
# Usage: findings/nghttpx-backoff.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet haproxy=2.6.12-1+deb12u4 libc-ares2=1.18.1-3 libev4=1:4.33-1 \
  libjemalloc2=5.3.0-1 liblua5.3-0=5.3.6-2 libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 \
  nghttp2-proxy=1.52.0-1+deb12u3
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
port=$((20000 + $$ % 12000))
cat > haproxy.cfg <<HAPROXY
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 10s
listen hook
  bind 127.0.0.1:$((port + 3))
  server app 127.0.0.1:$port
HAPROXY
# Starts nghttpx at this port, with these options.
nghttpx() {
  usr/sbin/nghttpx --conf=/dev/null --frontend="127.0.0.1,$1;no-tls" --backend="127.0.0.1,$port" \
    --errorlog-file="$folder/$1.log" "${@:2}" 2> /dev/null &
  servers="${servers:-} $!"
}
nghttpx $((port + 1))
nghttpx $((port + 2)) --backend-max-backoff=1s
usr/sbin/haproxy -f haproxy.cfg > haproxy.log 2>&1 &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, http.server, re, sys, threading, time

port = int(sys.argv[1])


class Application(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def post(number):
    connection = http.client.HTTPConnection("127.0.0.1", port + number, timeout=20)
    connection.request("POST", "/hook", '{"event":"job.completed"}', {"content-type": "application/json"})
    return connection.getresponse().status


def waiting():
    """The seconds of the newest wait in nghttpx's log."""
    waits = re.findall(r"sleep for ([0-9.]+) seconds", open(f"{port + 1}.log").read())
    return float(waits[-1]) if waits else 0


for number in (1, 2, 3):
    for _ in range(100):
        try:
            post(number)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
begin = time.monotonic()
stopped = set()
while waiting() < 8 and time.monotonic() - begin < 80:
    stopped |= {post(number) for number in (1, 2, 3)}
    time.sleep(0.1)
print(f"while the application is stopped: {stopped}; nghttpx then waits for {waiting():.0f} s")
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Application)
threading.Thread(target=server.serve_forever, daemon=True).start()
begin = time.monotonic()
found = {}
while len(found) < 3 and time.monotonic() - begin < 130:
    for number, name in enumerate(["nghttpx", "nghttpx with backend-max-backoff=1s", "HAProxy"], 1):
        if name not in found and post(number) == 204:
            found[name] = time.monotonic() - begin
            print(f"{name}: 204 after {found[name]:.0f} s")
    time.sleep(0.1)
sys.exit(not (found["HAProxy"] < 2 and found["nghttpx with backend-max-backoff=1s"] < 4 and found["nghttpx"] > 4))
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
