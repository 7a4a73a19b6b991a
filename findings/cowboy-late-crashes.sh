#!/bin/bash
# Cowboy 2.8.0, as in Debian 12's RabbitMQ 3.10.8-1.1+deb12u1, ends a chunked 200 with its last chunk if the handler crashes
# after `stream_reply`, and keeps the connection open, so a client sees a complete response. With a `content-length`, it
# breaks the response off. A handler that ends without a reply is answered with 204. Hurt: receivers of webhooks with Cowboy
# that write a part of the response before the work is done, or that have a branch without a reply: the sender sees a
# success, so the event is lost. A handler that crashes before its reply is answered with 500.
# Source: https://ninenines.eu/docs/en/cowboy/2.8/guide/resp/
# Usage: findings/cowboy-late-crashes.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
apt-get -o APT::Sandbox::User=root download --quiet --quiet erlang-asn1=$version erlang-base=$version \
  erlang-crypto=$version erlang-public-key=$version erlang-ssl=$version rabbitmq-server=3.10.8-1.1+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.erl <<'ERLANG'
-module(receiver).
-export([start/0, init/2]).

start() ->
    [Port] = [list_to_integer(Argument) || Argument <- init:get_plain_arguments()],
    {ok, _} = application:ensure_all_started(cowboy),
    Dispatch = cowboy_router:compile([{'_', [{"/:case", receiver, []}]}]),
    {ok, _} = cowboy:start_clear(hook, [{ip, {127, 0, 0, 1}}, {port, Port}], #{env => #{dispatch => Dispatch}}).

init(Request, State) ->
    {ok, _, Read} = cowboy_req:read_body(Request),
    handle(cowboy_req:binding('case', Request), Read, State).

handle(<<"crash">>, _, _) -> error("The database is away");
handle(<<"late">>, Request, _) -> store(cowboy_req:stream_reply(200, Request));
handle(<<"late-with-length">>, Request, _) -> store(cowboy_req:stream_reply(200, #{<<"content-length">> => <<"30">>}, Request));
handle(<<"no-reply">>, Request, State) -> {ok, Request, State};
handle(<<"reply">>, Request, State) -> {ok, cowboy_req:reply(202, Request), State}.

store(Started) ->
    ok = cowboy_req:stream_body("storing the event\n", nofin, Started),
    timer:sleep(200),
    error("The database is away").
ERLANG
export ROOTDIR=$folder/usr/lib/erlang EMU=beam PROGNAME=erl
export BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
"$BINDIR/erlexec" -noinput -eval '{ok, _} = compile:file("receiver"), halt().'
port=$((20000 + $$ % 12000))
"$BINDIR/erlexec" -noinput -pa usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/plugins/{cowboy,cowlib,ranch}-*/ebin . \
  -s receiver start -extra "$port" > log 2>&1 &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time

EXPECTED = {
    "/reply": "202, complete, then 202",
    "/crash": "500, complete, then 202",
    "/late": "200, complete, then 202",
    "/late-with-length": "200, broken off",
    "/no-reply": "204, complete, then 202",
}


def post(connection, path):
    """The status of a response, and whether it is complete."""
    connection.request("POST", path, "{}", {"content-type": "application/json"})
    response = connection.getresponse()
    try:
        response.read()
        return f"{response.status}, complete"
    except http.client.IncompleteRead:
        return f"{response.status}, broken off"


def seen(path):
    """A response and, on the same connection, the status of the next one."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    first = post(connection, path)
    if first.endswith("broken off"):
        return first
    connection.auto_open = 0
    return f"{first}, then {post(connection, '/reply').removesuffix(', complete')}"


found = {path: seen(path) for path in EXPECTED}
for path, answer in found.items():
    print(f"{path}: {answer}")
sys.exit(found != EXPECTED)
PYTHON
python3 client.py "$port" || { tail --lines 20 log; exit 1; }
