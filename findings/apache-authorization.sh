#!/bin/bash
# Debian 12's Apache 2.4.71-1~deb12u1 does not pass the header `authorization` to CGI scripts, nor to FastCGI applications
# behind mod_proxy_fcgi, such as PHP-FPM, unless `CGIPassAuth On` is set. As an HTTP proxy, it passes it on, and lighttpd
# 1.4.69-1 also passes it to CGI scripts. Hurt: receivers of webhooks whose sender adds a token in this header: the receiver
# answers 401 because the token is missing, and the sender's log shows that it was sent. Another name, such as `x-token`,
# works without the setting.
# Source: https://httpd.apache.org/docs/2.4/mod/core.html#cgipassauth
# Usage: findings/apache-authorization.sh. Needs apt-get of Debian 12, curl and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet apache2-bin=2.4.71-1~deb12u1 libapr1=1.7.2-3+deb12u1 \
  libaprutil1=1.6.3-1+deb12u1 lighttpd=1.4.69-1
for package in *.deb; do dpkg --extract "$package" .; done
chmod 755 .
port=$((20000 + $$ % 12000))
mkdir as-is passed
cat > as-is/hook <<'CGI'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n%s, %s\n' "${HTTP_AUTHORIZATION:-none}" "${HTTP_X_TOKEN:-none}"
CGI
chmod 755 as-is/hook
cp as-is/hook passed/hook
cat > httpd.conf <<APACHE
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$port
User www-data
Group www-data
PidFile $folder/pid
ErrorLog $folder/error.log
LoadModule mpm_prefork_module usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module usr/lib/apache2/modules/mod_alias.so
LoadModule cgi_module usr/lib/apache2/modules/mod_cgi.so
LoadModule proxy_module usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_fcgi_module usr/lib/apache2/modules/mod_proxy_fcgi.so
LoadModule proxy_http_module usr/lib/apache2/modules/mod_proxy_http.so
ScriptAlias /as-is/ $folder/as-is/
ScriptAlias /passed/ $folder/passed/
<Location /passed>
  CGIPassAuth On
</Location>
ProxyPass /fastcgi fcgi://127.0.0.1:$((port + 2))
ProxyPass /proxy http://127.0.0.1:$((port + 1))/as-is/hook
APACHE
cat > lighttpd.conf <<LIGHTTPD
server.bind = "127.0.0.1"
server.port = $((port + 1))
server.document-root = "$folder"
server.modules = ("mod_cgi")
cgi.assign = ("/as-is/hook" => "/bin/sh")
LIGHTTPD
cat > fastcgi.py <<'PYTHON'
import socket, struct, sys


def record(kind, content):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def parameters(data):
    """The names and values in FastCGI's form: two lengths of one or four bytes, the name, the value."""
    found, at = {}, 0
    while at < len(data):
        lengths = []
        for _ in range(2):
            size = 1 if data[at] < 128 else 4
            lengths.append(int.from_bytes(data[at : at + size], "big") & 0x7FFFFFFF)
            at += size
        name, value = data[at : at + lengths[0]], data[at + lengths[0] : at + sum(lengths)]
        found[name.decode()] = value.decode()
        at += sum(lengths)
    return found


with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        stream, given = connection.makefile("rwb"), b""
        while head := stream.read(8):
            _, kind, _, length, padding = struct.unpack(">BBHHBx", head)
            content = stream.read(length + padding)[:length]
            given += content if kind == 4 else b""
            if kind == 5 and not length:
                break
        names = parameters(given)
        text = f"{names.get('HTTP_AUTHORIZATION', 'none')}, {names.get('HTTP_X_TOKEN', 'none')}\n"
        stream.write(record(6, f"Content-Type: text/plain\r\n\r\n{text}".encode()) + record(6, b"") + record(3, bytes(8)))
        stream.flush()
        stream.close()
        connection.close()
PYTHON
python3 fastcgi.py $((port + 2)) &
servers=$!
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/apache2 -f "$folder/httpd.conf" -X > log 2>&1 &
servers+=" $!"
usr/sbin/lighttpd -D -m "$folder/usr/lib/lighttpd" -f lighttpd.conf 2> log2 &
servers+=" $!"
for number in 0 1 2; do
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port + number))") 2> /dev/null && break; sleep 0.1; done
done
# Compares the two headers that a program has seen.
expect() {
  local expected=$1 name=$2 seen
  seen=$(curl --silent --header 'authorization: Bearer t' --header 'x-token: t' --data '{}' "http://127.0.0.1:$3")
  echo "$name: $seen"
  [ "$seen" = "$expected" ]
}
expect 'none, t' "Apache, CGI" "$port/as-is/hook"
expect 'Bearer t, t' "Apache, CGI with CGIPassAuth" "$port/passed/hook"
expect 'none, t' "Apache, FastCGI" "$port/fastcgi"
expect 'Bearer t, t' "Apache, as a proxy" "$port/proxy"
expect 'Bearer t, t' "lighttpd, CGI" "$((port + 1))/as-is/hook"
