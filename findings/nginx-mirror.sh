#!/bin/bash
# Debian 12's nginx 1.22.1-9+deb12u11 answers a mirrored request at once, but does not read the next request on the same
# connection before the copy has been answered, although it announces `Connection: keep-alive`. On another connection, it
# answers at once. Hurt: operators who try out a new receiver of webhooks with `mirror`, whose responses nginx ignores: if
# the new one takes four seconds, so do the responses of the old one to a sender that reuses connections, and with a new one
# that does not answer, they take a minute. A short `proxy_read_timeout` for the copy limits the wait.
# Usage: findings/nginx-mirror.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet nginx=1.22.1-9+deb12u11
dpkg --extract nginx_*.deb .
first=$((20000 + $$ % 12000))
old=$((first + 3)) new=$((first + 4))
# Prints a server with this port, more directives for the copy, and more for itself.
mirror() {
  echo "server {
    listen 127.0.0.1:$1;
    location / { mirror /copy; proxy_pass http://127.0.0.1:$old; $3 }
    location /copy { internal; proxy_pass http://127.0.0.1:$new; $2 }
  }"
}
cat > nginx.conf <<NGINX
daemon off;
worker_processes 1;
pid $folder/pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  $(mirror "$first" '' '')
  $(mirror $((first + 1)) 'proxy_read_timeout 1s;' '')
  $(mirror $((first + 2)) '' 'keepalive_timeout 0;')
  server { listen 127.0.0.1:$old; return 204; }
}
NGINX
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> log &
server=$!
cat > client.py <<'PYTHON'
import http.client, http.server, sys, threading, time


class New(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(4)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


first = int(sys.argv[1])
new = http.server.ThreadingHTTPServer(("127.0.0.1", first + 4), New)
threading.Thread(target=new.serve_forever, daemon=True).start()


def seconds(connection):
    """The time until the response to an event, in whole seconds."""
    start = time.monotonic()
    connection.request("POST", "/hook", b"{}", {"content-type": "application/json"})
    response = connection.getresponse()
    response.read()
    assert response.status == 204
    return round(time.monotonic() - start)


changed = False
for port, name, expected in [
    (first, "mirror", [0, 4, 0]),
    (first + 1, "with a time-out of 1 s", [0, 1, 0]),
    (first + 2, "without keep-alive", [0, 0, 0]),
]:
    kept, other = (http.client.HTTPConnection("127.0.0.1", port) for _ in range(2))
    found = [seconds(kept), seconds(kept), seconds(other)]
    print(f"{name}: {found[0]} s, then {found[1]} s on this connection and {found[2]} s on another one")
    changed |= found != expected
sys.exit(changed)
PYTHON
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$first") 2> /dev/null && break; sleep 0.1; done
python3 client.py "$first" || { cat log; exit 1; }
