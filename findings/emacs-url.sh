#!/bin/bash
# Debian 12's Emacs 28.2 (url-http.el) sends each request again, also a POST and on a new connection, if the server closes the
# connection without a response: the code takes this for a kept connection that has expired. The program sees one response at
# most. And after a 401 without `WWW-Authenticate`, it takes the scheme for Basic and asks for a user name, so a program with
# a wrong API key waits for input, or fails in batch mode with "Error reading from stdin", and does not see the status or the
# problem. Hurt: developers who call an API from Emacs: one call can issue two keys.
# Source: https://github.com/emacs-mirror/emacs/blob/emacs-28.2/lisp/url/url-http.el
# Usage: findings/emacs-url.sh. Needs apt-get of Debian 12, the libraries of GCC 12, and Python 3. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
version=1:28.2+1-15+deb12u4
apt-get -o APT::Sandbox::User=root download --quiet --quiet emacs-nox=$version emacs-common=$version \
  emacs-bin-common=$version emacs-el=$version libgccjit0=12.2.0-14+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
cat > server.py <<'PYTHON'
import http.server, sys


class Server(http.server.BaseHTTPRequestHandler):
    """Answers 401, or reads a request for /close and closes the connection without a response."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        with open(self.path[1:] + ".requests", "a") as requests:
            print(body, file=requests)
        if self.path == "/close":
            self.close_connection = True
            return
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
cat > client.el <<'LISP'
(require 'url)
(dolist (path '("close" "401"))
  (let ((url-request-method "POST")
        (url-request-extra-headers '(("content-type" . "application/json") ("x-api-key" . "wrong")))
        (url-request-data "{\"name\":\"ci\"}"))
    (with-current-buffer (url-retrieve-synchronously (concat (getenv "URL") "/" path) t t 10)
      (message "%s: %d bytes" path (buffer-size)))))
LISP
port=$((20000 + $$ % 12000))
python3 server.py "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
shared=$folder/usr/share/emacs/28.2
programs=$folder/usr/libexec/emacs/28.2/x86_64-linux-gnu
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu EMACSDATA=$shared/etc EMACSPATH=$programs HOME=$folder
EMACSLOADPATH=$(find "$shared/lisp" -type d -printf '%p:' | sed 's/:$//')
export EMACSLOADPATH URL=http://127.0.0.1:$port
timeout 60 usr/bin/emacs-nox --dump-file="$programs/emacs.pdmp" --quick --batch --load ./client.el < /dev/null 2>&1 |
  grep -E '^(close|Username|401)' | sed "s/:$port//; s/: Debugger/\nDebugger/" > seen || true
echo "close: one call, $(wc -l < close.requests) requests" >> seen
cat seen
[ "$(cat seen)" = 'close: 0 bytes
Username [for http://127.0.0.1/401]
Debugger entered--Lisp error: (end-of-file "Error reading from stdin")
close: one call, 2 requests' ]
