#!/bin/bash
# Debian 12's Nim 1.6.10-2 splits the value of every header at its commas, and `req.headers["webhook-signature"]`, where a
# string is expected, is the first part: "v1", without the signature. The documentation of `[]` names the conversion to the
# first value, and nothing says that a single line becomes several. An error that a handler raises ends the program. Hurt:
# receivers of Standard Webhooks with Nim's asynchttpserver: each event is answered with 401, because the signature that
# they see has two characters. `seq[string](req.headers["webhook-signature"]).join(",")` restores the value, because no
# space follows its commas.
# Source: https://nim-lang.org/docs/httpcore.html
# Usage: findings/nim-header-values.sh. Needs apt-get of Debian 12, gcc and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet nim=1.6.10-2
dpkg --extract nim_*.deb .
# The compiler finds its library and its configuration beside the folder of the program.
mkdir nim nim/bin
cp usr/bin/nim nim/bin
mv usr/lib/nim/lib nim
mv etc/nim nim/config
cat > receiver.nim <<'NIM'
import std/[asyncdispatch, asynchttpserver, os, strutils]

proc handle(req: Request) {.async.} =
  case req.url.path
  of "/string": await req.respond(Http200, req.headers["webhook-signature"])
  of "/joined": await req.respond(Http200, seq[string](req.headers["webhook-signature"]).join(","))
  else: raise newException(IOError, "The database is away")

proc main {.async.} =
  let server = newAsyncHttpServer()
  server.listen(Port(paramStr(1).parseInt), "127.0.0.1")
  while true:
    await server.acceptRequest(handle)

waitFor main()
NIM
nim/bin/nim compile --hints:off --warnings:off --nimcache:cache receiver.nim
port=$((20000 + $$ % 12000))
./receiver "$port" 2> log &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
# Prints the response to an event that is signed with two keys, or "none".
post() {
  curl --silent --max-time 10 --data '{}' --header 'webhook-signature: v1,Kzdoja+M= v1,DDs9/w8=' "http://127.0.0.1:$port$1" || echo none
}
string=$(post /string) joined=$(post /joined) failed=$(post /failed)
sleep 0.5
state=$(kill -0 "$server" 2> /dev/null && echo runs || echo ended)
echo "as a string: $string; joined: $joined; the response after an error: $failed, and the program: $state"
[ "$string, $joined, $failed, $state" = 'v1, v1,Kzdoja+M= v1,DDs9/w8=, none, ended' ]
