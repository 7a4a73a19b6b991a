#!/bin/bash
# gearmand 1.1.20 with its queue in PostgreSQL or Redis does not connect to the database again after a restart of it: it goes on,
# refuses every job with QUEUE_ERROR, and does not remove the jobs that workers have done from the database, so that it runs them
# again, at its own restart at the latest. And the command `gearman -b` prints an error, but exits with 0, if a job is refused,
# and also if gearmand is away. With a queue in SQLite, gearmand keeps and removes jobs as documented. Hurt: receivers of
# webhooks that put each event into gearmand's queue: after an update or failover of the database, each delivery fails until
# gearmand is restarted, or, with the command in a script, is answered with a success and lost; and events are repeated.
# Source: http://gearman.org/manual/job_server/ and libgearman-server/plugins/queue/ of gearmand
# Usage: findings/gearman-outages.sh. Needs apt-get of Debian 12, and setpriv if it runs as root. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${gearmand:-} ${database:-} 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet gearman-job-server=1.1.20+ds-1 gearman-tools=1.1.20+ds-1 \
  libboost-program-options1.74.0=1.74.0+ds1-21 libevent-2.1-7=2.1.12-stable-8+deb12u1 \
  libevent-pthreads-2.1-7=2.1.12-stable-8+deb12u1 libgearman8=1.1.20+ds-1 libhashkit2=1.1.4-1 libhiredis0.14=0.14.1-3 \
  libjemalloc2=5.3.0-1 libldap-2.5-0=2.5.13+dfsg-5 liblzf1=3.6-3 libmariadb3=1:10.11.19-0+deb12u1 libmemcached11=1.1.4-1 \
  libpq5=15.20-0+deb12u1 libsasl2-2=2.1.28+dfsg-10+deb12u1 libsqlite3-0=3.40.1-2+deb12u2 \
  postgresql-15=15.20-0+deb12u1 redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10
for package in *.deb; do dpkg --extract "$package" .; done
port=$((20000 + $$ % 12000))
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
wait_for_port() { for _ in {1..200}; do (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null && break; sleep 0.1; done; }
# PostgreSQL does not run as root.
mkdir data
other=()
if [ "$(id --user)" = 0 ]; then
  chmod 711 .
  chown 65534 data
  other=(setpriv --reuid 65534 --clear-groups)
fi
server() { exec "${other[@]}" "$folder/usr/lib/postgresql/15/bin/$1" -D "$folder/data" "${@:2}"; }
(server initdb --username postgres --auth trust --no-sync > initdb.log)
start_database() {
  case $1 in
    Postgres) (server postgres -k "$folder/data" -h 127.0.0.1 -p $((port + 1)) -c jit=off > database.log 2>&1) & ;;
    redis) usr/bin/redis-server --bind 127.0.0.1 --port $((port + 1)) --appendonly yes --dir "$folder" > database.log & ;;
    libsqlite3) return ;;
  esac
  database=$!
  wait_for_port $((port + 1))
  sleep 1
}
end_database() {
  [ "$1" != libsqlite3 ] || return 0
  kill -INT "$database"
  wait "$database" 2> /dev/null || true
}
start_gearmand() {
  local options=()
  case $1 in
    Postgres) options=("--libpq-conninfo=host=127.0.0.1 port=$((port + 1)) user=postgres dbname=postgres") ;;
    redis) options=(--redis-server=127.0.0.1 --redis-port=$((port + 1))) ;;
    libsqlite3) options=("--libsqlite3-db=$folder/queue") ;;
  esac
  usr/sbin/gearmand --listen=127.0.0.1 --port="$port" --queue-type="$1" --log-file=stderr "${options[@]}" 2>> gearmand.log &
  gearmand=$!
  wait_for_port "$port"
  sleep 1
}
end_gearmand() {
  kill "$gearmand"
  wait "$gearmand" 2> /dev/null || true
}
add() {
  local status=0
  usr/bin/gearman -h 127.0.0.1 -p "$port" -b -f process -u "$1" "$1" < /dev/null 2> error || status=$?
  echo "$1: $(grep --only-matching --max-count 1 QUEUE_ERROR error | head -n 1 || echo added), status $status"
}
# Runs jobs for five seconds, some of them more than once while there is no database.
work() {
  : > done
  timeout 5 usr/bin/gearman -h 127.0.0.1 -p "$port" -w -f process -- /usr/bin/tee -a "$folder/done" > /dev/null || true
  echo "$1: $(grep --only-matching 'msg_.' done | sort --unique | tr '\n' ' ')"
}
check() {
  echo "$1"
  start_database "$1"
  start_gearmand "$1"
  add msg_1
  end_gearmand
  start_gearmand "$1"
  end_database "$1"
  start_database "$1"
  add msg_2
  work "done"
  end_gearmand
  start_gearmand "$1"
  work "done after a restart of gearmand"
  add msg_3
  end_gearmand
  end_database "$1"
}
for type in libsqlite3 redis Postgres; do check $type; done > seen 2> errors || { cat errors; exit 1; }
status=0
usr/bin/gearman -h 127.0.0.1 -p "$port" -b -f process msg_4 < /dev/null 2> /dev/null || status=$?
echo "without gearmand: status $status" >> seen
cat seen
[ "$(cat seen)" = "libsqlite3
msg_1: added, status 0
msg_2: added, status 0
done: msg_1 msg_2 
done after a restart of gearmand: 
msg_3: added, status 0
redis
msg_1: added, status 0
msg_2: QUEUE_ERROR, status 0
done: msg_1 
done after a restart of gearmand: msg_1 
msg_3: added, status 0
Postgres
msg_1: added, status 0
msg_2: QUEUE_ERROR, status 0
done: msg_1 
done after a restart of gearmand: msg_1 
msg_3: added, status 0
without gearmand: status 0" ] || { tail -n 20 gearmand.log; exit 1; }
