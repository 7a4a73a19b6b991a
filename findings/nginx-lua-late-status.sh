#!/bin/bash
# The Lua module 0.10.23-1+deb12u1 of Debian 12's nginx 1.22.1-9+deb12u11 completes a 200 if a handler calls `ngx.exit(500)`, or
# sets `ngx.status`, after `ngx.say`, because `ngx.say` sends the status at once, also before anything is flushed; the error
# log has a line about it. An error that is raised breaks the response off. If a thread of `ngx.thread.spawn` raises an error,
# `ngx.thread.wait` returns it, and the handler goes on to its 204. Work after `ngx.eof` delays the next event on the
# connection, and an error in it closes the connection. Hurt: receivers of webhooks in nginx or OpenResty: an event that
# failed counts as delivered. Set the status first, and check the result of `ngx.thread.wait`.
# Source: https://github.com/openresty/lua-nginx-module#ngxexit
# Usage: findings/nginx-lua-late-status.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libluajit2-5.1-2=2.1-20230119-1 \
  libnginx-mod-http-lua=1:0.10.23-1+deb12u1 libnginx-mod-http-ndk=1:0.3.2-3 libpcre3=2:8.39-15 \
  lua-resty-core=0.1.25-1 lua-resty-lrucache=0.13-10 nginx=1.22.1-9+deb12u11
for package in *.deb; do dpkg --extract "$package" .; done
chmod 755 .
port=$((20000 + $$ % 12000))
cat > receiver.lua <<'LUA'
local receiver = {}

local function store()
  ngx.sleep(0.5)
  error("the database does not answer")
end

function receiver.stored()
  ngx.status = 202
end

function receiver.exit()
  ngx.say("storing")
  if not pcall(store) then ngx.exit(500) end
end

function receiver.status()
  ngx.say("storing")
  if not pcall(store) then ngx.status = 500 end
end

function receiver.first()
  if not pcall(store) then ngx.exit(500) end
end

function receiver.raised()
  ngx.say("storing")
  store()
end

function receiver.thread()
  ngx.thread.wait(ngx.thread.spawn(store))
  ngx.status = 204
end

function receiver.eof()
  ngx.status = 204
  ngx.eof()
  ngx.sleep(2)
end

function receiver.eof_raised()
  ngx.status = 204
  ngx.eof()
  store()
end

return receiver
LUA
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/pid;
load_module $folder/usr/lib/nginx/modules/ndk_http_module.so;
load_module $folder/usr/lib/nginx/modules/ngx_http_lua_module.so;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  lua_package_path "$folder/?.lua;$folder/usr/share/lua/5.1/?.lua;;";
  server {
    listen 127.0.0.1:$port;
    location / { content_by_lua_block { ngx.req.read_body(); require("receiver")[ngx.var.uri:sub(2)]() } }
  }
}
NGINX
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu \
  usr/sbin/nginx -e "$folder/errors" -c "$folder/nginx.conf" &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time

EXPECTED = {
    "/first": "500",
    "/raised": "broken off",
    "/exit": "200, then 202 after 0.0 s",
    "/status": "200, then 202 after 0.0 s",
    "/thread": "204, then 202 after 0.0 s",
    "/eof": "204, then 202 after 2.0 s",
    "/eof_raised": "204, then broken off",
}


def post(connection, path):
    """The status of a complete response."""
    try:
        connection.request("POST", path, "{}", {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status
    except (ConnectionError, http.client.IncompleteRead):
        connection.close()
        return "broken off"


def seen(path):
    """A response and, if the connection stays open, the next one on it, and its time to the nearest half second."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    first = post(connection, path)
    if connection.sock is None:
        return str(first)
    connection.auto_open = 0
    start = time.monotonic()
    second = post(connection, "/stored")
    taken = round(2 * (time.monotonic() - start)) / 2
    return f"{first}, then {second}" if second == "broken off" else f"{first}, then {second} after {taken} s"


found = {path: seen(path) for path in EXPECTED}
for path, answer in found.items():
    print(f"{path}: {answer}")
sys.exit(found != EXPECTED)
PYTHON
python3 client.py "$port" || { tail --lines 20 errors; exit 1; }
grep --only-matching 'attempt to set [a-z ]*[^,]*' errors
