#!/bin/bash
# Debian 12's Caddy 2.6.2-5, h2o 2.2.5+dfsg2-7 and lighttpd 1.4.69-1, as proxies, end a chunked response that the application
# breaks off as if it was complete. Express 5.3.0, like most frameworks, breaks it off to report an error after the first
# bytes, because the status is already sent. HAProxy 2.6.12-1+deb12u4 and nginx 1.22.1-9+deb12u11 break it off, too. Hurt:
# receivers of webhooks that write a part of the response before the work is done: the sender sees a complete 200, so the
# event is lost. An application that answers at the end, with the right status, is safe behind all five.
# Source: https://www.rfc-editor.org/rfc/rfc9112#section-8
# Usage: findings/cut-responses.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry and Python 3. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet caddy=2.6.2-5 h2o=2.2.5+dfsg2-7 haproxy=2.6.12-1+deb12u4 \
  liblua5.3-0=5.3.6-2 libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 lighttpd=1.4.69-1 nginx=1.22.1-9+deb12u11
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund express@5.3.0
chmod 755 .
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
port=$((20000 + $$ % 12000))
cat > receiver.cjs <<'NODE'
const express = require("express");

const app = express();
app.post("/hook", async (request, response) => {
  response.write("storing the event\n");
  await new Promise((done) => setTimeout(done, 200));
  throw new Error("the database does not answer");
});
app.listen(Number(process.argv[2]), "127.0.0.1");
NODE
cat > Caddyfile <<CADDY
{
  admin off
  auto_https off
}
http://:$((port + 1)) {
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:$port
}
CADDY
cat > h2o.yaml <<H2O
listen: {host: 127.0.0.1, port: $((port + 2))}
hosts:
  default:
    paths:
      /: {proxy.reverse.url: "http://127.0.0.1:$port/"}
H2O
cat > lighttpd.conf <<LIGHTTPD
server.bind = "127.0.0.1"
server.port = $((port + 3))
server.document-root = "$folder"
server.modules = ("mod_proxy")
proxy.server = ("" => (("host" => "127.0.0.1", "port" => $port)))
LIGHTTPD
cat > haproxy.cfg <<HAPROXY
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 10s
listen hook
  bind 127.0.0.1:$((port + 4))
  server app 127.0.0.1:$port
HAPROXY
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$((port + 5)); location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$port; } }
}
NGINX
node receiver.cjs "$port" > receiver.log 2>&1 &
servers=$!
HOME=$folder XDG_DATA_HOME=$folder XDG_CONFIG_HOME=$folder \
  usr/bin/caddy run --config Caddyfile --adapter caddyfile 2> caddy.log &
servers+=" $!"
usr/bin/h2o -m worker -c h2o.yaml > h2o.log 2>&1 &
servers+=" $!"
usr/sbin/lighttpd -D -f lighttpd.conf -m usr/lib/lighttpd > lighttpd.log 2>&1 &
servers+=" $!"
usr/sbin/haproxy -f haproxy.cfg > haproxy.log 2>&1 &
servers+=" $!"
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> nginx.log &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, sys, time

EXPECTED = {
    "Express itself": "200, broken off",
    "Caddy": "200, complete",
    "h2o": "200, complete",
    "lighttpd": "200, complete",
    "HAProxy": "200, broken off",
    "nginx": "200, broken off",
}


def seen(port):
    """The status of a response, and whether it is complete."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("POST", "/hook", "{}", {"content-type": "application/json"})
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    response = connection.getresponse()
    try:
        response.read()
        return f"{response.status}, complete"
    except http.client.IncompleteRead:
        return f"{response.status}, broken off"


found = {name: seen(int(sys.argv[1]) + number) for number, name in enumerate(EXPECTED)}
for name, answer in found.items():
    print(f"{name}: {answer}")
sys.exit(found != EXPECTED)
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
