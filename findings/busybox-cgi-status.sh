#!/bin/bash
# The web server of Debian 12's BusyBox 1:1.35.0-4+deb12u1+b1 obeys `Status:` in the output of a CGI script only as its first
# line: after `Content-Type:`, it answers 200 and passes `Status: 500` on as a header. RFC 3875, section 6.3, leaves the order
# of the headers open, and Debian's lighttpd 1.4.69-1 answers 500 to both. A script that ends with an error before it prints
# gets no response at all. Hurt: receivers of webhooks on small devices: a script that reports a failure, or a wrong
# signature, counts as a success, and the event is lost.
# Source: https://www.rfc-editor.org/rfc/rfc3875#section-6.3
# Usage: findings/busybox-cgi-status.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet busybox=1:1.35.0-4+deb12u1+b1 lighttpd=1.4.69-1
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
mkdir cgi-bin
cat > cgi-bin/hook <<'CGI'
#!/bin/sh
head -c "$CONTENT_LENGTH" > /dev/null
case $QUERY_STRING in
  first) printf 'Status: 500 Failed\r\nContent-Type: text/plain\r\n\r\nThe database is away' ;;
  second) printf 'Content-Type: text/plain\r\nStatus: 500 Failed\r\n\r\nThe database is away' ;;
  error) exit 1 ;;
esac
CGI
chmod 755 cgi-bin/hook
cat > lighttpd.conf <<LIGHTTPD
server.bind = "127.0.0.1"
server.port = $((port + 1))
server.document-root = "$folder"
server.modules = ("mod_cgi")
server.upload-dirs = ("$folder")
cgi.assign = ("/cgi-bin/hook" => "/bin/sh")
LIGHTTPD
bin/busybox httpd -f -p "127.0.0.1:$port" -h "$folder" &
servers=$!
usr/sbin/lighttpd -D -m "$folder/usr/lib/lighttpd" -f lighttpd.conf 2> log &
servers+=" $!"
for number in 0 1; do
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port + number))") 2> /dev/null && break; sleep 0.1; done
done
# Prints the statuses for a script whose status is first, or second, or that ends with an error; 000 if there is none.
statuses() {
  for query in first second error; do
    curl --silent --output /dev/null --write-out '%{http_code} ' --data '{}' "http://127.0.0.1:$1/cgi-bin/hook?$query" || true
  done
}
busybox=$(statuses "$port")
lighttpd=$(statuses "$((port + 1))")
echo "status as the first line, as the second, and an error: BusyBox $busybox, lighttpd $lighttpd"
[ "$busybox/$lighttpd" = '500 200 000 /500 500 500 ' ]
