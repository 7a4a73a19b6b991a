#!/bin/bash
# Debian 12's Erlang 25.2 (httpc of inets) sends each request again by itself, also a POST, that is answered 503 with a
# `Retry-After` of one or two digits: after that time, as often as the server answers so, and past its option `timeout`. The
# program sees none of these responses. With three digits or no `Retry-After`, it gets the 503 at once, and a 429 in every
# case. Since OTP 28.4, the manual names the retries, and an option `autoretry` turns them off; version 25 has neither. Hurt:
# developers who call an API with httpc: a call with a time-out of a second blocks its process for as long as an overload
# lasts.
# Source: https://github.com/erlang/otp/blob/OTP-25.2.3/lib/inets/src/http_client/httpc_response.erl
# and https://www.erlang.org/doc/apps/inets/httpc.html
# Usage: findings/httpc-retry-after.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
apt-get -o APT::Sandbox::User=root download --quiet --quiet erlang-base=$version erlang-inets=$version
for package in *.deb; do dpkg --extract "$package" .; done
cat > server.py <<'PYTHON'
import http.server, sys


class Server(http.server.BaseHTTPRequestHandler):
    """"/503/2/3" is answered with 503 and `Retry-After: 2` three times, and then with 200 and the number of requests."""

    protocol_version = "HTTP/1.1"
    requests = {}

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        _, status, retry_after, times = self.path.split("/")
        count = self.requests[self.path] = self.requests.get(self.path, 0) + 1
        body = str(count).encode()
        self.send_response(int(status) if count <= int(times) else 200)
        if count <= int(times):
            self.send_header("retry-after", retry_after)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
cat > client.erl <<'ERLANG'
-module(client).
-export([start/0]).

start() ->
    [Url] = init:get_plain_arguments(),
    ok = inets:start(),
    [post(Url, Path) || Path <- ["/503/2/3", "/503/100/1", "/429/2/1"]],
    halt().

post(Url, Path) ->
    Start = erlang:monotonic_time(millisecond),
    {ok, {{_, Status, _}, _, Count}} =
        httpc:request(post, {Url ++ Path, [], "application/json", "{\"name\":\"ci\"}"}, [{timeout, 1000}], []),
    Seconds = round((erlang:monotonic_time(millisecond) - Start) / 1000),
    io:format("~s: ~b after ~b s and ~s requests~n", [Path, Status, Seconds, Count]).
ERLANG
export ROOTDIR=$folder/usr/lib/erlang EMU=beam PROGNAME=erl
export BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
"$BINDIR/erlexec" -noinput -eval '{ok, _} = compile:file("client"), halt().'
port=$((20000 + $$ % 12000))
python3 server.py "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
seen=$(timeout 60 "$BINDIR/erlexec" -noinput -s client start -extra "http://127.0.0.1:$port")
echo "$seen"
[ "$seen" = '/503/2/3: 200 after 6 s and 4 requests
/503/100/1: 503 after 0 s and 1 requests
/429/2/1: 429 after 0 s and 1 requests' ]
