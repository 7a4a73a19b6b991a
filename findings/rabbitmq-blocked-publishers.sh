#!/bin/bash
# While RabbitMQ has a memory or disk alarm, it reads nothing from publishers, but tasks are published without an error by the
# defaults of Celery 5.7.0 (`delay`), dramatiq 2.2.1 (`send`), pika 1.4.4 (`basic_publish`) and amqplib 2.3.1 (`sendToQueue`,
# which returns true): the messages wait in buffers of the operating system. If RabbitMQ is restarted to end the alarm, they are
# gone, although the queues and messages are durable; the publisher runs on without an error. With confirms, the calls wait
# instead. Hurt: receivers of webhooks that queue each event and answer 200: all events of the alarm are lost. In Celery, set
# `broker_transport_options = {"confirm_publish": True}`, in dramatiq `confirm_delivery=True`, and in amqplib use a
# ConfirmChannel, so that the delivery fails after its timeout and is repeated.
# Source: https://www.rabbitmq.com/docs/connection-blocked and https://www.rabbitmq.com/docs/alarms
# Usage: findings/rabbitmq-blocked-publishers.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${python:-}" "${node:-}" $(cat "$folder/pid") "${names:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
packages=(rabbitmq-server=3.10.8-1.1+deb12u1)
for name in asn1 base crypto eldap inets mnesia os-mon parsetools public-key runtime-tools ssl syntax-tools tools xmerl; do
  packages+=("erlang-$name=$version")
done
apt-get -o APT::Sandbox::User=root download --quiet --quiet "${packages[@]}"
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund amqplib@2.3.1
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check amqp==5.4.2 celery==5.7.0 dramatiq==2.2.1 kombu==5.7.0 pika==1.4.4
port=$((20000 + $$ % 12000))
# Erlang and RabbitMQ outside their usual folders, and only on the loopback network.
sed -i "s#=/usr/lib/erlang#=$folder/usr/lib/erlang#" usr/lib/erlang/bin/erl
export HOME=$folder PATH=$folder/usr/lib/erlang/bin:$PATH ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((port - 10000)) \
  RABBITMQ_CONFIG_FILE=$folder/rabbitmq RABBITMQ_CONF_ENV_FILE=$folder/none RABBITMQ_DIST_PORT=$((port - 5000)) \
  RABBITMQ_ENABLED_PLUGINS_FILE=$folder/plugins RABBITMQ_LOG_BASE=$folder RABBITMQ_MNESIA_BASE=$folder/data \
  RABBITMQ_NODENAME=finding@127.0.0.1 RABBITMQ_PID_FILE=$folder/pid RABBITMQ_USE_LONGNAME=true
echo '[].' > plugins
touch none
printf 'listeners.tcp.1 = 127.0.0.1:%s\nlog.file = false\n' "$port" > rabbitmq.conf
epmd &
names=$!
programs=usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin
sh $programs/rabbitmq-server > log 2>&1 &
for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
control() { sh $programs/rabbitmqctl --quiet "$@"; }

cat > publish.py <<'PYTHON'
import pathlib, sys, threading, time
import celery, dramatiq, pika
from dramatiq.brokers.rabbitmq import RabbitmqBroker

port = int(sys.argv[1])
app = celery.Celery(broker=f"amqp://guest:guest@127.0.0.1:{port}//")
confirming = celery.Celery(broker=app.conf.broker_url, broker_transport_options={"confirm_publish": True})
confirming.conf.task_default_queue = "confirmed"
dramatiq.set_broker(RabbitmqBroker(url=f"amqp://guest:guest@127.0.0.1:{port}/"))


def process(event):
    """Not run, because there is no worker."""


task, confirmed_task = app.task(process), confirming.task(process)
actor = dramatiq.actor(process, queue_name="dramatiq")
channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
channel.queue_declare("pika", durable=True)
durable = pika.BasicProperties(delivery_mode=2)
calls = {
    "Celery": lambda: task.delay("{}"),
    "Celery with confirms": lambda: confirmed_task.delay("{}"),
    "dramatiq": lambda: actor.send("{}"),
    "pika": lambda: channel.basic_publish("", "pika", b"{}", durable),
}
for call in calls.values():
    call()
print("published", flush=True)
while not pathlib.Path("alarm").exists():
    time.sleep(0.1)
for name, call in calls.items():
    returned = []
    if "confirms" not in name:
        for _ in range(3):
            call()
        print(f"{name}: returned 3 times", flush=True)
        continue
    thread = threading.Thread(target=lambda: returned.append(call()), daemon=True)
    thread.start()
    thread.join(3)
    print(f"{name}: {'returned' if returned else 'waits'}", flush=True)
print("end", flush=True)
time.sleep(120)
PYTHON
cat > publish.mjs <<'NODE'
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import amqp from "amqplib";

const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${process.argv[2]}`);
connection.on("error", () => {});
const channel = await connection.createChannel();
await channel.assertQueue("amqplib", { durable: true });
const confirmed = await connection.createConfirmChannel();
const send = () => channel.sendToQueue("amqplib", Buffer.from("{}"), { persistent: true });
send();
await sleep(500);
console.log("published");
while (!existsSync("alarm")) await sleep(100);
console.log(`amqplib: returned ${send()}, ${send()}, ${send()}`);
confirmed.sendToQueue("amqplib", Buffer.from("{}"), { persistent: true });
const result = await Promise.race([confirmed.waitForConfirms().then(() => "confirmed", () => "failed"), sleep(3000, "waits")]);
console.log(`amqplib with confirms: ${result}`);
console.log("end");
await sleep(120_000);
NODE
environment/bin/python publish.py "$port" > python.log 2>&1 &
python=$!
node publish.mjs "$port" > node.log 2>&1 &
node=$!
wait_for() { for _ in {1..300}; do [ "$(cat python.log node.log | grep --count "$1")" = 2 ] && return; sleep 0.1; done; cat python.log node.log; }
wait_for published
control set_vm_memory_high_watermark 0.00001
sleep 2
touch alarm
wait_for end
control stop_app
control start_app
seen=$(
  grep --no-filename '^[A-Za-z ]*: \(returned\|waits\)' python.log node.log
  control list_queues name messages | grep --word-regexp 'celery\|dramatiq\|pika\|amqplib' | grep --invert-match Q | sort
)
echo "$seen"
[ "$seen" = "Celery: returned 3 times
Celery with confirms: waits
dramatiq: returned 3 times
pika: returned 3 times
amqplib: returned true, true, true
amqplib with confirms: waits
amqplib	1
celery	1
dramatiq	1
pika	1" ]
