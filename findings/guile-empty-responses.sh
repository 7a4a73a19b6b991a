#!/bin/bash
# Debian 12's Guile 3.0.8-2 sends neither a length nor an end for a response whose body is `#f`, its documented value for "not
# present", and keeps the connection open: a client waits for the rest of a 200 or 202 until its own time-out. The body "" has
# `Content-Length: 0`. A 204 has no body in HTTP, and after a 401 or 500 the connection is closed. Hurt: receivers of webhooks
# with Guile's (web server): the event is processed, the sender's attempt fails after its time-out, and each retry repeats
# the event.
# Source: https://www.gnu.org/software/guile/manual/html_node/Web-Server.html
# Usage: findings/guile-empty-responses.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet guile-3.0=3.0.8-2 guile-3.0-libs=3.0.8-2 libgc1=1:8.2.2-3
for package in *.deb; do dpkg --extract "$package" .; done
library=$folder/usr/lib/x86_64-linux-gnu
export GUILE_AUTO_COMPILE=0 GUILE_LOAD_PATH=$folder/usr/share/guile/3.0 LD_LIBRARY_PATH=$library
export GUILE_LOAD_COMPILED_PATH=$library/guile/3.0/ccache
cat > receiver.scm <<'SCHEME'
(use-modules (web request) (web response) (web server) (web uri))

;; "/202/text" is answered with status 202 and the body "", "/202/absent" with the body #f.
(define (handle request body)
  (let ((parts (split-and-decode-uri-path (uri-path (request-uri request)))))
    (values (build-response #:code (string->number (car parts)))
            (if (string=? (cadr parts) "text") "" #f))))

(run-server handle 'http (list #:port (string->number (cadr (command-line)))))
SCHEME
port=$((20000 + $$ % 12000))
"$library/guile/3.0/bin/guile" receiver.scm "$port" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
# Prints the status, and the seconds until the end of the response; at most 10.
post() {
  local seen
  seen=$(curl --silent --max-time 10 --output body --write-out '%{http_code} %{time_total}' --data '{}' \
    "http://127.0.0.1:$port/$1") || true
  printf '%s after %.0f s\n' $seen
}
changed=0
while read -r path expected; do
  seen=$(post "$path")
  echo "$path: $seen"
  [ "$seen" = "$expected" ] || changed=1
done <<'EXPECTED'
200/text 200 after 0 s
200/absent 200 after 10 s
202/absent 202 after 10 s
204/absent 204 after 0 s
401/absent 401 after 0 s
EXPECTED
exit $changed
