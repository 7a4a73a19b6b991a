#!/bin/bash
# Debian 12's Apache 2.4.71-1~deb12u1 and Squid 5.7-2+deb12u6, as proxies, take a text that is not HTTP for a response of
# HTTP/0.9, and answer 200 with it, for example with the error of a program that socat, inetd or a socket of systemd starts.
# HAProxy 2.6.12-1+deb12u4 answers 502, lighttpd 1.4.69-1 500, and nginx 1.22.1-9+deb12u11 sends the text without a status.
# Hurt: receivers of webhooks whose program failed before it wrote a status, or whose proxy has the port of a service that
# is not HTTP: each event counts as delivered, and is lost.
# Source: https://www.rfc-editor.org/rfc/rfc9112#section-2.3
# Usage: findings/proxied-texts.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
port=$((20000 + $$ % 12000))
trap 'kill ${servers:-} 2> /dev/null || true; wait; rm -rf "$folder" "/dev/shm/finding$port-"*' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet apache2-bin=2.4.71-1~deb12u1 haproxy=2.6.12-1+deb12u4 \
  libapr1=1.7.2-3+deb12u1 libaprutil1=1.6.3-1+deb12u1 libecap3=1.0.1-3.4 libltdl7=2.4.7-7~deb12u1 liblua5.3-0=5.3.6-2 \
  libnetfilter-conntrack3=1.0.9-3 libnfnetlink0=1.0.2-2 libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 \
  libwrap0=7.6.q-32 lighttpd=1.4.69-1 nginx=1.22.1-9+deb12u11 socat=1.7.4.4-2 squid=5.7-2+deb12u6 \
  squid-common=5.7-2+deb12u6 squid-langpack=20220130-1
for package in *.deb; do dpkg --extract "$package" .; done
chmod 755 .
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
cat > hook <<'SHELL'
#!/bin/sh
while read -r line && [ "$line" != "$(printf '\r')" ]; do :; done
head --bytes=2 > /dev/null
echo 'error: the database does not answer'
SHELL
chmod 755 hook
cat > httpd.conf <<APACHE
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$((port + 1))
User www-data
Group www-data
PidFile $folder/apache.pid
ErrorLog $folder/apache.log
LoadModule mpm_prefork_module usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module usr/lib/apache2/modules/mod_proxy_http.so
ProxyPass / http://127.0.0.1:$port/
APACHE
cat > squid.conf <<SQUID
http_port 127.0.0.1:$((port + 2)) accel defaultsite=localhost
cache_peer 127.0.0.1 parent $port 0 no-query originserver
http_access allow all
cache deny all
access_log none
cache_log /dev/null
cache_store_log none
netdb_filename none
pid_filename none
pinger_enable off
shutdown_lifetime 0
unlinkd_program $folder/usr/lib/squid/unlinkd
icon_directory $folder/usr/share/squid/icons
mime_table $folder/usr/share/squid/mime.conf
error_directory $folder/usr/share/squid-langpack/templates
SQUID
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
cat > lighttpd.conf <<LIGHTTPD
server.bind = "127.0.0.1"
server.port = $((port + 4))
server.document-root = "$folder"
server.errorlog = "$folder/lighttpd.log"
server.modules = ("mod_proxy")
proxy.server = ("" => (("host" => "127.0.0.1", "port" => $port)))
LIGHTTPD
cat > nginx.conf <<NGINX
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body; proxy_temp_path $folder/proxy; fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi; scgi_temp_path $folder/scgi;
  server { listen 127.0.0.1:$((port + 5)); location / { proxy_pass http://127.0.0.1:$port; } }
}
NGINX
usr/bin/socat "tcp-listen:$port,bind=127.0.0.1,fork,reuseaddr" exec:./hook 2> socat.log &
servers=$!
usr/sbin/apache2 -X -f "$folder/httpd.conf" > apache.out 2>&1 &
servers+=" $!"
usr/sbin/squid -N -n "finding$port" -f "$folder/squid.conf" > squid.log 2>&1 &
servers+=" $!"
usr/sbin/haproxy -f haproxy.cfg > haproxy.log 2>&1 &
servers+=" $!"
usr/sbin/lighttpd -D -f lighttpd.conf -m usr/lib/lighttpd > lighttpd.out 2>&1 &
servers+=" $!"
usr/sbin/nginx -e stderr -c "$folder/nginx.conf" 2> nginx.log &
servers+=" $!"
cat > client.py <<'PYTHON'
import socket, sys, time

REQUEST = b"POST /hook HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
TEXT = "error: the database does not answer\n"
EXPECTED = {
    "the program itself": TEXT,
    "Apache": "200",
    "Squid": "200",
    "HAProxy": "502",
    "lighttpd": "500",
    "nginx": TEXT,
}


def answer(port):
    """The status of a response, or the text that is none."""
    for _ in range(100):
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=20)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    connection.sendall(REQUEST)
    answered = b""
    while data := connection.recv(10_000):
        answered += data
    return answered.split()[1].decode() if answered.startswith(b"HTTP/1") else answered.decode()


found = {}
for number, name in enumerate(EXPECTED):
    answers = {answer(int(sys.argv[1]) + number) for _ in range(20)}
    found[name] = " or ".join(sorted(answers))
for name, answered in found.items():
    print(f"{name}: {answered.strip()}")
sys.exit(found != EXPECTED)
PYTHON
python3 client.py "$port" || { tail --lines 5 ./*log ./*.out; exit 1; }
