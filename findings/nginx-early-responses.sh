#!/bin/bash
# Debian 12's nginx 1.22.1-9+deb12u11 answers 502 to many requests of 1 MB, eight at a time, that an application refuses before
# it has read the body, for example with 401 or 429 by a header: nginx asks the application to close the connection, Express
# 5.3.0 on Node.js does that with the body unread, and nginx meets the reset before it reads the response. Hurt: receivers of
# webhooks behind nginx: for large events, the sender sees a 502 instead of the 401, of the 410 that ends the deliveries, or
# of the 429 with `Retry-After`. Two things help: reading the body first, and connections to the application that nginx
# keeps, with `keepalive`, `proxy_http_version 1.1` and an empty `Connection`.
# Usage: findings/nginx-early-responses.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry and Python 3.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet nginx=1.22.1-9+deb12u11
dpkg --extract nginx_*.deb .
npm install --silent --no-audit --no-fund express@5.3.0
port=$((20000 + $$ % 12000))
cat > receiver.cjs <<'NODE'
const express = require("express");

const app = express();
app.post("/refuse", (request, response) => response.sendStatus(401));
app.post("/read", express.raw({ type: "application/json", limit: "2mb" }), (request, response) => response.sendStatus(401));
app.listen(Number(process.argv[2]), "127.0.0.1");
NODE
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/pid;
events {}
http {
  access_log off;
  client_max_body_size 2m;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  upstream receiver { server 127.0.0.1:$port; keepalive 4; }
  server { listen 127.0.0.1:$((port + 1)); location / { proxy_pass http://127.0.0.1:$port; } }
  server {
    listen 127.0.0.1:$((port + 2));
    location / { proxy_pass http://receiver; proxy_http_version 1.1; proxy_set_header connection ""; }
  }
}
NGINX
node receiver.cjs "$port" > receiver.log 2>&1 &
servers=$!
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> log &
servers+=" $!"
cat > client.py <<'PYTHON'
import collections, concurrent.futures, socket, sys, threading, time

BODY = b'"' + b"x" * 1_040_000 + b'"'


def send(connection, path):
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
    try:
        connection.sendall(head.encode() + BODY)
    except OSError:
        pass


def post(port, path):
    """The status of the response, which is read while the body is sent."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        threading.Thread(target=send, args=(connection, path), daemon=True).start()
        return int(connection.recv(1000).split()[1])


port = int(sys.argv[1])
for number in range(3):
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port + number)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
changed = False
for number, name, path, expected in [
    (0, "without nginx", "/refuse", {401}),
    (1, "nginx", "/refuse", {401, 502}),
    (1, "nginx, with the body read first", "/read", {401}),
    (2, "nginx that keeps connections", "/refuse", {401}),
]:
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        found = collections.Counter(clients.map(lambda _: post(port + number, path), range(200)))
    print(f"{name}: {', '.join(f'{found[status]} times {status}' for status in sorted(found))}")
    changed |= set(found) != expected
sys.exit(changed)
PYTHON
python3 client.py "$port" || { cat log; exit 1; }
