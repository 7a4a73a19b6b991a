#!/bin/bash
# Debian 12's Caddy 2.6.2-5 retries a request that found no application (`lb_try_duration`) without its body: the failed
# connection has closed the body, so a POST that reaches a running application on the second try gets 502. With two
# applications in turn (`round_robin`), of which one is stopped, each retry takes the turn of the next request, so all events
# fail; without retries, every other one does. With `fail_duration`, Caddy then takes the running application for a failed
# one, too, and answers 503. Requests without a body are retried correctly, and so are all with `buffer_requests`. Hurt:
# receivers of webhooks that are deployed one server after the other, or that Caddy should wait for during a restart.
# Source: https://caddyserver.com/docs/caddyfile/directives/reverse_proxy
# Usage: findings/caddy-retries.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet caddy=2.6.2-5
dpkg --extract caddy_*.deb .
first=$((20000 + $$ % 12000))
stopped=$((first + 6)) running=$((first + 7)) restarting=$((first + 8))
# Prints a proxy with this number, the ports of its applications, and its options.
proxy() {
  echo "http://:$((first + $1)) {
    bind 127.0.0.1
    reverse_proxy $2 {
      $3
    }
  }"
}
two="127.0.0.1:$stopped 127.0.0.1:$running"
turns='lb_policy round_robin'
{
  printf '{\n  admin off\n  auto_https off\n}\n'
  proxy 0 "$two" "$turns"
  proxy 1 "$two" "$turns
      lb_try_duration 5s"
  proxy 2 "$two" "$turns
      lb_try_duration 5s
      buffer_requests"
  proxy 3 "$two" "$turns
      lb_try_duration 1s
      fail_duration 30s"
  proxy 4 "127.0.0.1:$restarting" 'lb_try_duration 10s'
} > Caddyfile
HOME=$folder XDG_DATA_HOME=$folder XDG_CONFIG_HOME=$folder \
  usr/bin/caddy run --config Caddyfile --adapter caddyfile 2> log &
servers=$!
cat > client.py <<'PYTHON'
import http.client, http.server, sys, threading, time


class Application(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def start(port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Application)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def post(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/hook", body, {"content-type": "application/json"})
    return connection.getresponse().status


first = int(sys.argv[1])
start(first + 7)
changed = False
for number, name, body, expected in [
    (0, "no retries", b"{}", [204, 502] * 3),
    (1, "with retries", b"{}", [204] + [502] * 5),
    (1, "with retries, without a body", b"", [204] * 6),
    (2, "with retries and buffered requests", b"{}", [204] * 6),
    (3, "with retries and fail_duration", b"{}", [204, 502] + [503] * 4),
]:
    found = [post(first + number, body) for _ in range(6)]
    print(f"two applications, one stopped, {name}: {found}")
    changed |= found != expected
threading.Timer(2, start, [first + 8]).start()
begin = time.monotonic()
found = post(first + 4, b"{}")
print(f"one application that is back after 2 s, with retries: {found} after {time.monotonic() - begin:.0f} s")
changed |= found != 502
sys.exit(changed)
PYTHON
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$first") 2> /dev/null && break; sleep 0.1; done
python3 client.py "$first" || { cat log; exit 1; }
grep --quiet 'invalid Read on closed Body' log
