#!/bin/bash
# Three clients of queues for Node.js do not report that their server was restarted: after a SIGTERM to RabbitMQ 3.10.8, as at an
# upgrade, a connection of amqplib 2.3.1 emits only `close`, and no `error`, and the callback of `consume` is not called again;
# after one to beanstalkd 1.12, the promise of jackd 2.2.2's `reserve()` never settles, and the callback of fivebeans 1.5.0's is
# never called. So a program that only consumes exits with 0, after which systemd's `Restart=on-failure` leaves it stopped, and one
# that also serves requests goes on and gets no event any more. After a SIGKILL of RabbitMQ, amqplib emits an error, so a test that
# kills the server does not show it. pika 1.4.4 and greenstalk 2.1.1 raise an error, and a program that listens to `close` can end
# with another status. Hurt: receivers of webhooks that answer 204 once the event is in such a queue: after each upgrade of the
# server, the events wait, without an error or a log line.
# Sources: https://amqp-node.github.io/amqplib/channel_api.html#model_events and https://github.com/divmain/jackd
# Usage: findings/queue-closed-consumers.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and
# PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(cat "$folder/pid" 2> /dev/null) ${names:-} ${beanstalkd:-} 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
packages=(rabbitmq-server=3.10.8-1.1+deb12u1 beanstalkd=1.12-2+b1)
for name in asn1 base crypto eldap inets mnesia os-mon parsetools public-key runtime-tools ssl syntax-tools tools xmerl; do
  packages+=("erlang-$name=$version")
done
apt-get -o APT::Sandbox::User=root download --quiet --quiet "${packages[@]}"
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund amqplib@2.3.1 fivebeans@1.5.0 jackd@2.2.2
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check greenstalk==2.1.1 pika==1.4.4
port=$((20000 + $$ % 12000))
# Erlang and RabbitMQ outside their usual folders, and only on the loopback network.
sed -i "s#=/usr/lib/erlang#=$folder/usr/lib/erlang#" usr/lib/erlang/bin/erl
export HOME=$folder PATH=$folder/usr/lib/erlang/bin:$PATH ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((port - 10000)) \
  RABBITMQ_CONFIG_FILE=$folder/rabbitmq RABBITMQ_CONF_ENV_FILE=$folder/none RABBITMQ_DIST_PORT=$((port - 5000)) \
  RABBITMQ_ENABLED_PLUGINS_FILE=$folder/plugins RABBITMQ_LOG_BASE=$folder RABBITMQ_MNESIA_BASE=$folder/data \
  RABBITMQ_NODENAME=finding@127.0.0.1 RABBITMQ_PID_FILE=$folder/pid RABBITMQ_USE_LONGNAME=true
echo '[].' > plugins
touch none
mkdir log
printf 'listeners.tcp.1 = 127.0.0.1:%s\nlog.file = false\n' "$port" > rabbitmq.conf
epmd &
names=$!
wait_for_port() { for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null && break; sleep 0.1; done; }
start_rabbitmq() {
  sh usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin/rabbitmq-server >> log/rabbitmq 2>&1 &
  rabbitmq=$!
  wait_for_port "$port"
  sleep 3
}
start_beanstalkd() {
  usr/bin/beanstalkd -l 127.0.0.1 -p $((port + 1)) -b "$folder/log" &
  beanstalkd=$!
  wait_for_port $((port + 1))
}
cat > consume.cjs <<'NODE'
const { appendFileSync } = require("node:fs");
const [client, mode, port] = process.argv.slice(2);
const host = "127.0.0.1";
const see = (event) => appendFileSync("events", `${client}: ${event}\n`);

async function main() {
  if (client === "amqplib") {
    const connection = await require("amqplib").connect(`amqp://${host}:${port}`);
    if (mode === "watches") connection.on("close", () => process.exit(1));
    const channel = await connection.createChannel();
    await channel.assertQueue("events");
    await channel.consume("events", (message) => see(message ? "event" : "null"));
  } else if (client === "jackd") {
    const { default: Jackd = require("jackd") } = require("jackd");
    const jackd = new Jackd();
    if (mode === "watches") jackd.socket.on("close", () => process.exit(1));
    await jackd.connect({ host, port: Number(port) });
    for (;;) {
      const { id } = await jackd.reserve();
      await jackd.delete(id);
    }
  } else {
    const beans = new (require("fivebeans").client)(host, port);
    if (mode === "watches") beans.on("close", () => process.exit(1));
    const next = (error, id) => {
      if (error) throw new Error(error);
      if (id) return beans.destroy(id, () => next());
      beans.reserve(next);
    };
    beans.on("connect", () => next()).on("error", (error) => { throw error; }).connect();
  }
}

if (mode === "also-serves") require("node:http").createServer((_, response) => response.end()).listen(0, host);
main();
NODE
cat > consume.py <<'PYTHON'
import sys
import greenstalk, pika

client, port = sys.argv[1], int(sys.argv[2])
if client == "pika":
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
    channel.queue_declare("events", durable=True)
    channel.basic_consume("events", lambda *message: None)
    channel.start_consuming()
else:
    beans = greenstalk.Client(("127.0.0.1", port))
    while True:
        beans.delete(beans.reserve())
PYTHON
declare -A workers
start() { local name=$1; "${@:2}" 2>> "log/$name" >&2 & workers[$name]=$!; }
# A worker's exit status, or that it goes on without a line in its log.
report() {
  local name=$1 pid=${workers[$1]} status=0
  if kill -0 "$pid" 2> /dev/null; then
    kill "$pid"
    wait "$pid" 2> /dev/null || true
    echo "$name: goes on, and has written $(wc --lines < "log/$name") lines"
  else
    wait "$pid" || status=$?
    echo "$name: exit status $status, $(wc --lines < "log/$name" | sed 's/^[1-9].*/a message/; s/^0$/no message/')"
  fi
}
start_rabbitmq
start_beanstalkd
touch events
start amqplib node consume.cjs amqplib - "$port"
start amqplib-server node consume.cjs amqplib also-serves "$port"
start amqplib-close node consume.cjs amqplib watches "$port"
start pika python/bin/python consume.py pika "$port"
for name in jackd fivebeans; do
  start $name node consume.cjs $name - $((port + 1))
  start $name-server node consume.cjs $name also-serves $((port + 1))
  start $name-close node consume.cjs $name watches $((port + 1))
done
start greenstalk python/bin/python consume.py greenstalk $((port + 1))
sleep 4
kill "$beanstalkd" "$(cat pid)"
wait "$beanstalkd" "$rabbitmq" 2> /dev/null || true
start_beanstalkd
start_rabbitmq
start amqplib-killed node consume.cjs amqplib - "$port"
report amqplib > seen
for name in amqplib-server amqplib-close pika jackd jackd-server jackd-close fivebeans fivebeans-server fivebeans-close greenstalk; do
  report "$name" >> seen
done
sleep 2
kill -KILL "$(cat pid)"
sleep 2
report amqplib-killed >> seen
cat seen events
[ "$(cat seen events)" = "amqplib: exit status 0, no message
amqplib-server: goes on, and has written 0 lines
amqplib-close: exit status 1, no message
pika: exit status 1, a message
jackd: exit status 0, no message
jackd-server: goes on, and has written 0 lines
jackd-close: exit status 1, no message
fivebeans: exit status 0, no message
fivebeans-server: goes on, and has written 0 lines
fivebeans-close: exit status 1, no message
greenstalk: exit status 1, a message
amqplib-killed: exit status 1, a message" ] || { tail -n 5 log/*; exit 1; }
