#!/bin/bash
# Debian 12's Yaws 2.1.1+dfsg-2 calls `out/1` with `{partial, Data}` and the first 10240 bytes if the body of a request is
# larger, and 10240 is the default of its setting `partial_post_size`. Code that takes `Arg#arg.clidata` for the body, which
# is a binary for each smaller one, raises an error, so the response is a 500. If it answers this part, with 204 or 401, the
# connection then ends without an announcement, and the rest of the body is lost. Hurt: receivers of webhooks with Yaws:
# events up to 10 KB arrive, and each larger one fails at all its attempts. With `partial_post_size = nolimit`, the whole
# body arrives.
# Source: https://manpages.debian.org/bookworm/yaws/yaws.conf.5.en.html
# Usage: findings/yaws-large-bodies.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
apt-get -o APT::Sandbox::User=root download --quiet --quiet erlang-asn1=$version erlang-base=$version \
  erlang-crypto=$version erlang-inets=$version erlang-mnesia=$version erlang-public-key=$version erlang-ssl=$version \
  erlang-yaws=2.1.1+dfsg-2
for package in *.deb; do dpkg --extract "$package" .; done
export ROOTDIR=$folder/usr/lib/erlang EMU=beam PROGNAME=erl
export BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
cat > receiver.erl <<'ERLANG'
-module(receiver).
-export([start/0, out/1]).
-include("usr/lib/yaws-2.1.1/include/yaws_api.hrl").

start() ->
    Ports = [list_to_integer(Port) || Port <- init:get_plain_arguments()],
    Settings = [[], [{partial_post_size, nolimit}]],
    ok = yaws:start_embedded("www", [server(Port, Given) || {Port, Given} <- lists:zip(Ports, Settings)],
        [{logdir, "log"}, {id, "receiver"}], "receiver").

server(Port, Given) ->
    [{port, Port}, {listen, {127, 0, 0, 1}}, {servername, "localhost"}, {appmods, [{"/hook", receiver}]} | Given].

out(#arg{clidata = {partial, Data}, pathinfo = "/answered"}) -> [{status, 204}, size_of(Data)];
out(#arg{clidata = Body}) ->
    crypto:mac(hmac, sha256, "secret", Body),
    [{status, 204}, size_of(Body)].

size_of(Data) -> {header, {"x-size", integer_to_list(byte_size(Data))}}.
ERLANG
mkdir log www
"$BINDIR/erlexec" -noinput -eval '{ok, _} = compile:file("receiver"), halt().'
port=$((20000 + $$ % 12000))
"$BINDIR/erlexec" -noinput -pa usr/lib/yaws-2.1.1/ebin . -s receiver start -extra "$port" "$((port + 1))" > /dev/null 2>&1 &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time


def post(connection, path, size):
    """The status and the size that the handler saw, or how the request ends without a response."""
    try:
        body = '{"result":"' + "x" * (size - 13) + '"}'
        connection.request("POST", path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
    except ConnectionError:
        return "closed"
    seen = response.headers.get("x-size")
    return f"{response.status} for {seen} bytes" if seen else response.status


def seen(port, path, size):
    """The responses to an event of this size and, on the same connection, to a small one."""
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    first = post(connection, path, size)
    if connection.sock is None:
        return [first, "announced"]
    connection.auto_open = 0
    time.sleep(0.2)
    return [first, post(connection, path, 20)]


port = int(sys.argv[1])
changed = False
for name, arguments, expected in [
    ("10,240 bytes", (port, "/hook/", 10_240), ["204 for 10240 bytes", "204 for 20 bytes"]),
    ("20,000 bytes", (port, "/hook/", 20_000), [500, "closed"]),
    ("20,000 bytes, and the part is answered", (port, "/hook/answered", 20_000), ["204 for 10240 bytes", "closed"]),
    ("1 MiB, nolimit", (port + 1, "/hook/", 1 << 20), ["204 for 1048576 bytes", "204 for 20 bytes"]),
]:
    found = seen(*arguments)
    print(f"{name}: {found}")
    changed |= found != expected
sys.exit(changed)
PYTHON
python3 client.py "$port"
