#!/bin/bash
# The web server of Debian 12's Tcllib 1.21+dfsg-1, httpd 4.3.5, does not send the blank line that ends the headers if a
# response has no body, such as a 204, and then closes the connection. curl 7.88 takes this for a complete response, but Go
# 1.19 for a connection that broke off. A response with a body, from `my puts`, is complete, but its lines end without a
# carriage return, so that Node.js 20 refuses this one, too. Hurt: receivers of webhooks with Tcllib: curl shows a 204 in a
# test, but the sender's attempt fails after the event was processed, and each retry repeats it.
# Source: https://www.rfc-editor.org/rfc/rfc9112#section-2.1
# Usage: findings/tcl-empty-responses.sh. Needs apt-get of Debian 12, curl, Go 1.19 and Node.js 20. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libtcl8.6=8.6.13+dfsg-2 tcl8.6=8.6.13+dfsg-2 \
  tcllib=1.21+dfsg-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.tcl <<'TCL'
lappend auto_path [file join [pwd] usr/share/tcltk]
package require httpd
::httpd::server create receiver port [lindex $argv 0] myaddr 127.0.0.1
receiver plugin dispatch ::httpd::plugin.dict_dispatch
receiver uri direct * /204 {} {
  store [my PostData [my request get CONTENT_LENGTH]]
  my reply set Status {204 No Content}
}
receiver uri direct * /200 {} {
  store [my PostData [my request get CONTENT_LENGTH]]
}
receiver uri direct * /200-with-body {} {
  store [my PostData [my request get CONTENT_LENGTH]]
  my puts stored
}
proc store {event} {
  set events [open events a]
  puts $events $event
  close $events
}
vwait forever
TCL
cat > client.mjs <<'NODE'
try {
  console.log((await fetch(process.argv[2], { method: "POST", body: "{}" })).status);
} catch (error) {
  console.log(error.cause.code);
}
NODE
cat > client.go <<'GO'
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	response, err := http.Post(os.Args[1], "application/json", strings.NewReader("{}"))
	if err != nil {
		text := err.Error()
		fmt.Println(text[strings.LastIndex(text, ": ")+2:])
		return
	}
	fmt.Println(response.StatusCode)
}
GO
GOCACHE=$folder/cache go build -o client client.go
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu TCL_LIBRARY=$folder/usr/share/tcltk/tcl8.6 \
  usr/bin/tclsh8.6 receiver.tcl "$port" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
changed=0
while IFS='|' read -r path expected; do
  url=http://127.0.0.1:$port/$path
  curl=$(curl --silent --output /dev/null --write-out '%{http_code}' --data '{}' "$url")
  seen="curl: $curl, Node.js: $(node client.mjs "$url"), Go: $(./client "$url")"
  echo "$path: $seen"
  [ "$seen" = "$expected" ] || changed=1
done <<'EXPECTED'
204|curl: 204, Node.js: HPE_INVALID_HEADER_TOKEN, Go: unexpected EOF
200|curl: 200, Node.js: HPE_INVALID_HEADER_TOKEN, Go: unexpected EOF
200-with-body|curl: 200, Node.js: HPE_INVALID_HEADER_TOKEN, Go: 200
EXPECTED
stored=$(wc --lines < events)
echo "stored events: $stored"
[ "$stored" = 9 ] || changed=1
exit $changed
