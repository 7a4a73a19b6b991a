#!/bin/bash
# Debian 12's HAProxy 2.6.12-1+deb12u4 gives only the first 15 KB of a larger request as `req.body`, and nginx
# 1.22.1-9+deb12u11's Lua module 0.10.23-1 gives nil as the body above 8 KB, both without an error: HAProxy has a buffer of
# 16 KB, and nginx writes larger bodies to a file. Hurt: receivers of webhooks whose signatures a proxy verifies, for example
# with HAProxy's converter `hmac`: small events pass, and a larger one has a wrong signature. Each has a setting for it:
# `tune.bufsize`, and `client_body_buffer_size` with `client_body_in_single_buffer`.
# Usage: findings/proxy-bodies.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet haproxy=2.6.12-1+deb12u4 liblua5.3-0=5.3.6-2 \
  libluajit2-5.1-2=2.1-20230119-1 libnginx-mod-http-lua=1:0.10.23-1+deb12u1 libnginx-mod-http-ndk=1:0.3.2-3 \
  libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 libpcre3=2:8.39-15 lua-resty-core=0.1.25-1 \
  lua-resty-lrucache=0.13-10 nginx=1.22.1-9+deb12u11
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
port=$((20000 + $$ % 12000))
servers=
number=0

# Starts HAProxy with a line in its global section. It answers the HMAC of the body.
haproxy() {
  cat > "haproxy$number" <<HAPROXY
global
  $1
  log stderr local0 emerg
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 10s
frontend receiver
  bind 127.0.0.1:$((port + number))
  option http-buffer-request
  http-request return status 200 content-type text/plain lf-string "%[req.body,hmac(sha256,c2VjcmV0),hex,lower]"
HAPROXY
  usr/sbin/haproxy -f "haproxy$number" > "log$number" 2>&1 &
  servers+=" $!"
  number=$((number + 1))
}

# Starts nginx with directives. It answers the HMAC of the body that Lua sees.
nginx() {
  cat > "nginx$number" <<NGINX
daemon off;
master_process off;
pid $folder/pid$number;
load_module $folder/usr/lib/nginx/modules/ndk_http_module.so;
load_module $folder/usr/lib/nginx/modules/ngx_http_lua_module.so;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  lua_package_path "$folder/usr/share/lua/5.1/?.lua;;";
  server {
    listen 127.0.0.1:$((port + number));
    client_max_body_size 2m;
    $1
    location / {
      content_by_lua_block {
        ngx.req.read_body()
        ngx.print(ngx.req.get_body_data() == nil and "nil" or ngx.md5(ngx.req.get_body_data()))
      }
    }
  }
}
NGINX
  usr/sbin/nginx -e stderr -c "$folder/nginx$number" > "log$number" 2>&1 &
  servers+=" $!"
  number=$((number + 1))
}

haproxy ""
haproxy "tune.bufsize 2097152"
nginx ""
nginx "client_body_buffer_size 2m; client_body_in_single_buffer on;"
cat > client.py <<'PYTHON'
import hashlib, hmac, http.client, sys, time


def answer(port, body):
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", "/hook", body, {"content-type": "application/json"})
            return connection.getresponse().read().decode()
        except ConnectionRefusedError:
            time.sleep(0.1)


def seen(port, size):
    """The part of the body that a proxy has seen, by its hash."""
    body = b'"' + b"x" * (size - 2) + b'"'
    given = answer(port, body)
    if given in (hmac.digest(b"secret", body, "sha256").hex(), hashlib.md5(body).hexdigest()):
        return "all"
    is_start = any(hmac.digest(b"secret", body[:length], "sha256").hex() == given for length in range(15_000, 15_400))
    return "the first 15 KB" if is_start else given


changed = False
for number, (name, expected) in enumerate([
    ("HAProxy, req.body", {5_000: "all", 15_000: "all", 17_000: "the first 15 KB"}),
    ("HAProxy with tune.bufsize", {15_000: "all", 17_000: "all", 1_100_000: "all"}),
    ("nginx, get_body_data()", {5_000: "all", 15_000: "nil", 17_000: "nil"}),
    ("nginx with a larger buffer", {15_000: "all", 17_000: "all", 1_100_000: "all"}),
]):
    found = {size: seen(int(sys.argv[1]) + number, size) for size in expected}
    print(f"{name}: {', '.join(f'{part} of {size} bytes' for size, part in found.items())}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$port" || { cat log*; exit 1; }
