#!/bin/bash
# Debian 12's fcgiwrap 1.1.0-14+deb12u1 replaces the response of a CGI script that has not read a body of more than about 64 KB
# with "502 Bad Gateway": the pipe to the script breaks, and the response that it has printed is dropped. lighttpd 1.4.69-1
# itself, with mod_cgi, passes the response of the same script on. Hurt: receivers of webhooks behind nginx or lighttpd
# whose script decides by the headers: for large events only, a 204 counts as a failure, a 410 does not end the endpoint, and
# a 503 loses its Retry-After. `cat > /dev/null` before the response is enough.
# Usage: findings/fcgiwrap-early-responses.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet fcgiwrap=1.1.0-14+deb12u1 libfcgi0ldbl=2.4.2-2+deb12u1 \
  lighttpd=1.4.69-1
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
mkdir fastcgi cgi
cat > cgi/hook <<'CGI'
#!/bin/sh
if [ "$QUERY_STRING" = read ]; then cat > /dev/null; fi
printf 'Status: 503 Busy\r\nRetry-After: 120\r\n\r\n'
CGI
chmod 755 cgi/hook
cp cgi/hook fastcgi
cat > lighttpd.conf <<LIGHTTPD
server.bind = "127.0.0.1"
server.port = $port
server.document-root = "$folder"
server.modules = ("mod_cgi", "mod_fastcgi")
server.upload-dirs = ("$folder")
\$HTTP["url"] =~ "^/cgi/" { cgi.assign = ("" => "") }
fastcgi.server = ("/fastcgi/" => (("socket" => "$folder/socket", "check-local" => "disable")))
LIGHTTPD
LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu usr/sbin/fcgiwrap -s "unix:$folder/socket" 2> log &
servers=$!
usr/sbin/lighttpd -D -m "$folder/usr/lib/lighttpd" -f lighttpd.conf 2> log2 &
servers+=" $!"
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
# Prints the status and the header Retry-After of the response to an event of this size.
post() {
  head --bytes "$2" /dev/zero | curl --silent --max-time 10 --output /dev/null --write-out '%{http_code} %header{retry-after}' \
    --header 'content-type: application/json' --data-binary @- "http://127.0.0.1:$port/$1"
}
changed=0
while read -r path size expected; do
  seen=$(post "$path" "$size")
  echo "$path, $size bytes: $seen"
  [ "${seen% }" = "$expected" ] || changed=1
done <<'EXPECTED'
cgi/hook 1000 503 120
cgi/hook 300000 503 120
fastcgi/hook 1000 503 120
fastcgi/hook 300000 502
fastcgi/hook?read 300000 503 120
EXPECTED
exit $changed
