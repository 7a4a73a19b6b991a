#!/bin/bash
# httr 1.4.5 (R, Debian 12) waits for `Retry-After` in `RETRY` only if it prints its messages: with `quiet = TRUE`, it repeats the
# call after a second or two. Its manual says that the header of a 429 is used, and that `quiet` suppresses a message. In
# both cases, `RETRY("POST", ...)` also repeats a call that was answered 401 or 409, or whose connection was closed without a
# response, up to three times. Hurt: developers who call an API with httr: a program that ran well loses its calls to a 429
# once its output is turned off, and one call can issue three keys.
# Source: https://httr.r-lib.org/reference/RETRY.html and https://github.com/r-lib/httr/blob/v1.4.5/R/retry.R
# Usage: findings/httr-quiet-retries.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libblas3=3.11.0-2 libcurl4=7.88.1-10+deb12u15 \
  libgfortran5=12.2.0-14+deb12u1 libicu72=72.1-3+deb12u1 liblapack3=3.11.0-2 libreadline8=8.2-1.3 \
  libtirpc3=1.3.3+ds-1 r-base-core=4.2.2.20221110-2 r-cran-askpass=1.1-2 r-cran-curl=5.0.0+dfsg-1 \
  r-cran-httr=1.4.5+dfsg-1 r-cran-jsonlite=1.8.4+dfsg-1 r-cran-mime=0.12-1+b1 r-cran-openssl=2.0.5+dfsg-1 \
  r-cran-r6=2.5.1-1 r-cran-sys=3.4.1-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > server.py <<'PYTHON'
import http.server, sys, time


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, and `Retry-After`, or closes the connection for /close."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        with open(self.path[1:] + ".times", "a") as times:
            print(time.monotonic(), file=times)
        status = self.path[1:].split("-")[0]
        self.close_connection = True
        if status != "close":
            self.send_response(int(status))
            self.send_header("retry-after", "4")
            self.send_header("content-length", "0")
            self.end_headers()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
cat > client.R <<'R'
call <- function(path, times, quiet) {
  url <- paste0(Sys.getenv("URL"), "/", path)
  try(httr::RETRY("POST", url, body = "{}", httr::content_type_json(), times = times, quiet = quiet), silent = TRUE)
}
call("429-quiet", 2, TRUE)
call("429-messages", 2, FALSE)
for (path in c("401", "409", "close")) call(path, 3, TRUE)
R
port=$((20000 + $$ % 12000))
python3 server.py "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
libraries=$folder/usr/lib/x86_64-linux-gnu
export R_HOME=$folder/usr/lib/R R_LIBS=$folder/usr/lib/R/site-library:$folder/usr/lib/R/library URL=http://127.0.0.1:$port
LD_LIBRARY_PATH=$R_HOME/lib:$libraries:$libraries/blas:$libraries/lapack EDITOR=vi timeout 60 \
  usr/lib/R/bin/exec/R --vanilla --no-echo --file=client.R 2>&1 | grep '^Request failed'
# Without `Retry-After`, the wait is one to two seconds.
for name in 429-quiet 429-messages; do
  awk -v name=$name 'NR == 1 { first = $1 } END { print name ": " ($1 - first < 3 ? "not waited" : "waited") " for 4 s" }' $name.times
done > seen
for name in 401 409 close; do echo "$name: one call, $(wc -l < $name.times) requests"; done >> seen
cat seen
[ "$(cat seen)" = '429-quiet: not waited for 4 s
429-messages: waited for 4 s
401: one call, 3 requests
409: one call, 3 requests
close: one call, 3 requests' ]
