#!/bin/bash
# The web server of Debian 12's Erlang/OTP 25, inets 8.2.2, answers 404 if a callback of mod_esi raises an error, and also if
# it returns without calling `mod_esi:deliver/2`, after it has done its work. The error log of the server has "Object Not
# Found" for both, and nothing about the error. Hurt: receivers of webhooks with inets: a failed database looks like a wrong
# URL to the sender and in the receiver's log, and an event that was processed is repeated. Deliver `status: 204 No
# Content`, and catch errors.
# Source: https://www.erlang.org/docs/25/man/mod_esi
# Usage: findings/inets-errors.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
apt-get -o APT::Sandbox::User=root download --quiet --quiet erlang-base=$version erlang-inets=$version
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.erl <<'ERLANG'
-module(receiver).
-export([start/0, delivered/3, failed/3, nothing/3]).

start() ->
    [Port] = [list_to_integer(Argument) || Argument <- init:get_plain_arguments()],
    ok = inets:start(),
    {ok, _} = inets:start(httpd, [{port, Port}, {bind_address, {127, 0, 0, 1}}, {server_name, "receiver"},
        {server_root, "."}, {document_root, "."}, {modules, [mod_esi, mod_log]}, {error_log, "errors"},
        {erl_script_alias, {"/esi", [receiver]}}]).

delivered(Session, _, Event) ->
    store(Event),
    mod_esi:deliver(Session, ["status: 204 No Content\r\n\r\n"]).

nothing(_, _, Event) -> store(Event).

failed(_, _, _) -> error("The database is away").

store(Event) -> ok = file:write_file("events", [Event, $\n], [append]).
ERLANG
export ROOTDIR=$folder/usr/lib/erlang EMU=beam PROGNAME=erl
export BINDIR=$(echo "$ROOTDIR"/erts-*/bin)
"$BINDIR/erlexec" -noinput -eval '{ok, _} = compile:file("receiver"), halt().'
port=$((20000 + $$ % 12000))
"$BINDIR/erlexec" -noinput -pa . -s receiver start -extra "$port" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
seen=
for callback in delivered failed nothing; do
  status=$(curl --silent --max-time 10 --output /dev/null --write-out '%{http_code}' --header 'content-type: application/json' \
    --data "{\"job_id\":\"$callback\"}" "http://127.0.0.1:$port/esi/receiver:$callback")
  echo "$callback: $status"
  seen+="$status "
done
stored=$(tr '\n' ' ' < events) logged=$(grep --count 'Object Not Found' errors)
echo "stored: $stored"
echo "lines of the error log with \"Object Not Found\": $logged; with \"database\": $(cat errors log | grep --count database || true)"
[ "$seen$stored$logged" = '204 404 404 {"job_id":"delivered"} {"job_id":"nothing"} 2' ]
! grep --quiet database errors log
