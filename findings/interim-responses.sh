#!/bin/bash
# Debian 12's Varnish 7.1.1-2+deb12u1 answers 503 if an application sends an interim response (102 or 103) before its own:
# Node.js 20's `writeProcessing` or `writeEarlyHints`. Traffic Server 9.2.5+ds-0+deb12u4 passes a 102 on, and then never the
# response; a 103 is fine. nginx 1.22.1-9+deb12u11 handles both. Hurt: receivers of webhooks that announce slow work with a
# 102, or whose framework sends early hints: they process each event, the sender sees a failure, and sends it again.
# Source: https://www.rfc-editor.org/rfc/rfc9110#section-15.2
# Usage: findings/interim-responses.sh. Needs apt-get of Debian 12, a C compiler for Varnish, Node.js 20 and Python 3. Fails
# if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libhwloc15=2.9.0-1 libjemalloc2=5.3.0-1 libpcre3=2:8.39-15 \
  libvarnishapi3=7.1.1-2+deb12u1 libyaml-cpp0.7=0.7.0+dfsg-8+b1 nginx=1.22.1-9+deb12u11 \
  trafficserver=9.2.5+ds-0+deb12u4 varnish=7.1.1-2+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
chmod 755 .
libraries=$folder/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$folder/lib/x86_64-linux-gnu:$libraries/varnish:$folder/usr/lib/varnish
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder/usr/lib/trafficserver
port=$((20000 + $$ % 12000))
cat > receiver.cjs <<'NODE'
require("http")
  .createServer((request, response) => {
    request.resume();
    if (request.url === "/102") response.writeProcessing();
    if (request.url === "/103") response.writeEarlyHints({ link: "</style.css>; rel=preload" });
    setTimeout(() => response.writeHead(204).end(), 200);
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
NODE
printf 'vcl 4.1;\nbackend app { .host = "127.0.0.1"; .port = "%s"; }\n' "$port" > varnish.vcl
mkdir -p ats/log ats/run ats/cache
cp -r etc/trafficserver ats/etc
cat > ats/etc/records.config <<RECORDS
CONFIG proxy.config.http.server_ports STRING $((port + 2)):ip-in=127.0.0.1
CONFIG proxy.config.http.cache.http INT 0
CONFIG proxy.config.admin.user_id STRING nobody
CONFIG proxy.config.body_factory.template_sets_dir STRING $folder/ats/etc/body_factory
RECORDS
echo "map / http://127.0.0.1:$port/" > ats/etc/remap.config
cat > ats/runroot.yaml <<RUNROOT
prefix: $folder/ats
exec_prefix: $folder/usr
bindir: $folder/usr/bin
sbindir: $folder/usr/sbin
sysconfdir: $folder/ats/etc
datadir: $folder/usr/share
includedir: $folder/ats
libdir: $libraries/trafficserver
libexecdir: $folder/usr/lib/trafficserver/modules
localstatedir: $folder/ats
runtimedir: $folder/ats/run
logdir: $folder/ats/log
mandir: $folder/ats
infodir: $folder/ats
cachedir: $folder/ats/cache
RUNROOT
chown -R nobody ats
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$((port + 3)); location / { proxy_pass http://127.0.0.1:$port; } }
}
NGINX
node receiver.cjs "$port" &
servers=$!
usr/sbin/varnishd -j none -F -n "$folder/varnish" -a "127.0.0.1:$((port + 1))" -f "$folder/varnish.vcl" -s malloc,20m \
  > varnish.log 2>&1 &
servers+=" $!"
usr/bin/traffic_server --run-root="$folder/ats/runroot.yaml" > ats.log 2>&1 &
servers+=" $!"
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> nginx.log &
servers+=" $!"
cat > client.py <<'PYTHON'
import socket, sys, time

EXPECTED = {
    "Node.js itself": [204, 204, 204],
    "Varnish": [204, 503, 503],
    "Traffic Server": [204, "none", 204],
    "nginx": [204, 204, 204],
}


def status(port, path):
    """The status of the response after any interim ones, or "none" if it does not come within five seconds."""
    for _ in range(200):
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    connection.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}".encode())
    with connection.makefile("rb") as stream:
        try:
            while line := stream.readline():
                if line.startswith(b"HTTP/1.1 ") and not line.startswith(b"HTTP/1.1 1"):
                    return int(line.split()[1])
        except TimeoutError:
            pass
    return "none"


changed = False
for number, (name, expected) in enumerate(EXPECTED.items()):
    found = [status(int(sys.argv[1]) + number, path) for path in ("/hook", "/102", "/103")]
    print(f"{name}: {found[0]}, after a 102 {found[1]}, after a 103 {found[2]}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*.log; exit 1; }
