#!/bin/bash
# The web servers of Debian 12's Racket 8.7+dfsg1-1 and of MochiWeb 3.1.1-1 for Erlang accept bodies of up to 1 MiB, and close
# the connection without a response above it, where others answer 413. MochiWeb does not send one for a handler that raises
# an error either, and if a handler returns without a response, the connection stays open. Hurt: receivers of webhooks that
# accept nearly all events: one with slightly more than 1 MiB fails at each attempt as a connection that was reset, which
# looks like an outage, and no log of the receiver's code shows it. In Racket, `#:safety-limits` raises the limit, and
# `recv_body/2` in MochiWeb.
# Source: https://docs.racket-lang.org/web-server-internal/dispatch-server-unit.html
# Usage: findings/large-events-closed.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
apt-get -o APT::Sandbox::User=root download --quiet --quiet erlang-base=$version erlang-crypto=$version \
  erlang-inets=$version erlang-mochiweb=3.1.1-1 erlang-public-key=$version erlang-ssl=$version racket=8.7+dfsg1-1 \
  racket-common=8.7+dfsg1-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.rkt <<'RACKET'
#lang racket/base
(require web-server/http web-server/safety-limits web-server/servlet-env)

(define (serve port limits)
  (serve/servlet (lambda (request) (response/empty #:code 204)) #:command-line? #t #:listen-ip "127.0.0.1" #:port port
                 #:safety-limits limits #:servlet-regexp #rx""))

(define port (string->number (vector-ref (current-command-line-arguments) 0)))
(define raised (make-safety-limits #:max-request-body-length (* 2 1024 1024)))
(void (thread (lambda () (serve (+ port 1) raised))))
(serve port (make-safety-limits))
RACKET
# Racket finds compiled files by the full path of their source, which is another one in this folder.
mkdir -p configuration "compiled$folder/usr/share"
ln -s "$folder/usr/lib/racket/compiled/usr/share/racket" "compiled$folder/usr/share/racket"
cat > configuration/config.rktd <<RACKET
#hash((lib-dir . "$folder/usr/lib/racket") (links-file . "$folder/usr/share/racket/links.rktd")
      (pkgs-dir . "$folder/usr/share/racket/pkgs") (share-dir . "$folder/usr/share/racket")
      (compiled-file-roots . (same "$folder/compiled")))
RACKET
cat > receiver.erl <<'ERLANG'
-module(receiver).
-export([start/0]).

start() ->
    [Port] = [list_to_integer(Argument) || Argument <- init:get_plain_arguments()],
    {ok, _} = mochiweb_http:start([{name, default}, {ip, "127.0.0.1"}, {port, Port}, {loop, fun default/1}]),
    {ok, _} = mochiweb_http:start([{name, raised}, {ip, "127.0.0.1"}, {port, Port + 1}, {loop, fun raised/1}]),
    receive stop -> ok end.

default(Request) ->
    mochiweb_request:recv_body(Request),
    mochiweb_request:respond({204, [], []}, Request).

raised(Request) ->
    mochiweb_request:recv_body(2 * 1024 * 1024, Request),
    case mochiweb_request:get(path, Request) of
        "/hook" -> mochiweb_request:respond({204, [], []}, Request);
        "/failed" -> error("The database is away");
        "/nothing" -> ok
    end.
ERLANG
export ROOTDIR=$folder/usr/lib/erlang EMU=beam PROGNAME=erl
export BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
"$BINDIR/erlexec" -noinput -eval '{ok, _} = compile:file("receiver"), halt().'
port=$((20000 + $$ % 12000))
PLT_COMPILED_FILE_CHECK=exists usr/bin/racket -X usr/share/racket/collects -G configuration receiver.rkt "$port" > log 2>&1 &
servers=$!
"$BINDIR/erlexec" -noinput -pa "$(dirname usr/lib/erlang/lib/mochiweb*/ebin/mochiweb.beam)" . -s receiver start \
  -extra $((port + 2)) > log2 2>&1 &
servers+=" $!"
cat > client.py <<'PYTHON'
import http.client, sys, time


def seen(port, path, size):
    """The status, or how a request of this size ends without a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=8)
    for _ in range(300):
        try:
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    try:
        connection.request("POST", path, b"x" * size, {"content-type": "application/json"})
        return connection.getresponse().status
    except ConnectionError:
        return "closed"
    except TimeoutError:
        return "no response"


port, limit = int(sys.argv[1]), 1024 * 1024
changed = False
for name, arguments, expected in [
    ("Racket, 1 MiB", (port, "/hook", limit), 204),
    ("Racket, 1 MiB and a byte", (port, "/hook", limit + 1), "closed"),
    ("Racket, 1 MiB and a byte, raised", (port + 1, "/hook", limit + 1), 204),
    ("MochiWeb, 1 MiB", (port + 2, "/hook", limit), 204),
    ("MochiWeb, 1 MiB and a byte", (port + 2, "/hook", limit + 1), "closed"),
    ("MochiWeb, 1 MiB and a byte, raised", (port + 3, "/hook", limit + 1), 204),
    ("MochiWeb, an error", (port + 3, "/failed", 2), "closed"),
    ("MochiWeb, nothing", (port + 3, "/nothing", 2), "no response"),
]:
    found = seen(*arguments)
    print(f"{name}: {found}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$port"
