#!/bin/bash
# Debian 12's webdis 0.1.9, a web server in front of Redis, answers 200 to a webhook at `/LPUSH/events` and stores nothing: in a
# POST, the body is the command and the path is ignored, so Redis gets an unknown command, and webdis puts its error into a 200.
# A PUT appends its body to the path. It is answered 200, too, if Redis refuses it, for example because its memory is full.
# Hurt: receivers that collect webhooks in a list of Redis with webdis alone: all events count as delivered, and are lost.
# Source: https://github.com/nicolasff/webdis#command-format
# Usage: findings/webdis-posts.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${redis:-}" "${webdis:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libatomic1=12.2.0-14+deb12u1 libb64-0d=1.2-5+b1 \
  libevent-2.1-7=2.1.12-stable-8+deb12u1 libhiredis0.14=0.14.1-3 libjemalloc2=5.3.0-1 liblua5.1-0=5.1.5-9 \
  liblzf1=3.6-3 libmsgpackc2=4.0.0-3 lua-bitop=1.0.2-7 lua-cjson=2.1.0+dfsg-2.2 redis-tools=5:7.0.15-1~deb12u10 \
  webdis=0.1.9+dfsg-1.1
for package in *.deb; do dpkg --extract "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
# The server and the check of its files are one program, which goes by its name.
ln -s redis-check-rdb usr/bin/redis-server
port=$((20000 + $$ % 12000))
usr/bin/redis-server --port $((port - 10000)) --bind 127.0.0.1 --save '' > redis.log &
redis=$!
cat > webdis.json <<JSON
{"redis_host": "127.0.0.1", "redis_port": $((port - 10000)), "http_host": "127.0.0.1", "http_port": $port, "threads": 1,
 "verbosity": 3, "logfile": "webdis.log"}
JSON
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port - 10000))") 2> /dev/null && break; sleep 0.1; done
usr/bin/webdis webdis.json > webdis.output &
webdis=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
send() {
  curl --silent --max-time 10 --request "$1" --header 'content-type: application/json' --data '{"event":"job.completed"}' \
    --output response --write-out "$1 $2: %{http_code} " "http://127.0.0.1:$port$2"
  grep -o 'ERR unknown command\|OOM command not allowed\|{"LPUSH":[0-9]*}' response
}
count() { echo "stored: $(curl --silent "http://127.0.0.1:$port/LLEN/events")"; }
seen=$(
  send POST /LPUSH/events
  count
  send PUT /LPUSH/events
  count
  curl --silent --output response "http://127.0.0.1:$port/CONFIG/SET/maxmemory/1"
  send PUT /LPUSH/events
  count
)
echo "$seen"
[ "$seen" = 'POST /LPUSH/events: 200 ERR unknown command
stored: {"LLEN":0}
PUT /LPUSH/events: 200 {"LPUSH":1}
stored: {"LLEN":1}
PUT /LPUSH/events: 200 OOM command not allowed
stored: {"LLEN":1}' ]
