#!/bin/bash
# Debian 12's nginx 1.22.1-9+deb12u11 with two servers in an `upstream` answers 502 to every request for ten seconds, without
# asking the application, after each server closed one connection without a response. Python 3.11's http.server, Go's
# net/http and uWSGI close it if a handler raises an error. With one server, or with `max_fails=0`, nginx asks the application
# each time. Hurt: receivers of webhooks with an event that they cannot handle: two attempts at it make all events
# fail, and a retry after five seconds fails, too. HAProxy 2.6.12-1+deb12u4 asks the application each time.
# Source: https://nginx.org/en/docs/http/ngx_http_upstream_module.html#fail_timeout
# Usage: findings/nginx-failed-servers.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet haproxy=2.6.12-1+deb12u4 liblua5.3-0=5.3.6-2 \
  libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 nginx=1.22.1-9+deb12u11
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
port=$((20000 + $$ % 12000))
one=$((port + 4)) two=$((port + 5))
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  upstream two { server 127.0.0.1:$one; server 127.0.0.1:$two; }
  upstream patient { server 127.0.0.1:$one max_fails=0; server 127.0.0.1:$two max_fails=0; }
  server { listen 127.0.0.1:$port; location / { proxy_pass http://two; } }
  server { listen 127.0.0.1:$((port + 1)); location / { proxy_pass http://127.0.0.1:$one; } }
  server { listen 127.0.0.1:$((port + 2)); location / { proxy_pass http://patient; } }
}
NGINX
cat > haproxy.cfg <<HAPROXY
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 10s
listen hook
  bind 127.0.0.1:$((port + 3))
  server one 127.0.0.1:$one
  server two 127.0.0.1:$two
HAPROXY
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> nginx.log &
servers=$!
usr/sbin/haproxy -f haproxy.cfg > haproxy.log 2>&1 &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, http.server, sys, threading, time

asked = 0


class Application(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global asked
        asked += 1
        if b"unknown" in self.rfile.read(int(self.headers["content-length"])):
            raise KeyError("a workflow that the application does not know")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


port = int(sys.argv[1])
for number in (4, 5):
    threading.Thread(target=Server(("127.0.0.1", port + number), Application).serve_forever, daemon=True).start()


def post(number, body):
    connection = http.client.HTTPConnection("127.0.0.1", port + number)
    connection.request("POST", "/hook", body, {"content-type": "application/json"})
    return connection.getresponse().status


for number in (0, 3):
    for _ in range(100):
        try:
            assert post(number, b"{}") == 204
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
changed = False
begin = time.monotonic()
for number, name, expected in [
    (0, "nginx, two servers", ([502] * 5, 0)),
    (1, "nginx, one server", ([204] * 5, 5)),
    (2, "nginx, max_fails=0", ([204] * 5, 5)),
    (3, "HAProxy, two servers", ([204] * 5, 5)),
]:
    failed = [post(number, b'{"workflow":"unknown"}') for _ in range(2)]
    assert failed == [502, 502]
    asked = 0
    found = [post(number, b"{}") for _ in range(5)], asked
    print(f"{name}, after two failures: {found[0]}, of which the application got {found[1]}")
    changed |= found != expected
while post(0, b"{}") != 204:
    time.sleep(0.5)
waited = time.monotonic() - begin
print(f"nginx, two servers: 204 again after {waited:.0f} s")
changed |= not 9 < waited < 13
sys.exit(changed)
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
