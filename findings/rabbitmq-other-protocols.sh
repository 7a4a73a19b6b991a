#!/bin/bash
# Debian 12's RabbitMQ 3.10.8-1.1+deb12u1 confirms messages that arrive by STOMP (`receipt`) and AMQP 1.0 (`accepted`) for a
# durable queue, and loses them at a normal restart: only a STOMP message with the header `persistent:true` and an AMQP 1.0
# message with `durable` are stored. stomp.py 9.0.0 and rhea 3.0.5 set neither by default. A message of MQTT with QoS 1
# (paho-mqtt 2.2.0) is stored. Hurt: receivers of webhooks that put each event into such a queue and answer 204 after the
# confirmation: all that wait during a restart, such as an update, are gone without an error.
# Source: https://www.rabbitmq.com/docs/stomp and section 3.2.1 of
# https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-messaging-v1.0-os.html (durable is false unless it is set)
# Usage: findings/rabbitmq-other-protocols.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and
# PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(cat "$folder/pid") "${names:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
version=1:25.2.3+dfsg-1+deb12u4
packages=(rabbitmq-server=3.10.8-1.1+deb12u1)
for name in asn1 base crypto eldap inets mnesia os-mon parsetools public-key runtime-tools ssl syntax-tools tools xmerl; do
  packages+=("erlang-$name=$version")
done
apt-get -o APT::Sandbox::User=root download --quiet --quiet "${packages[@]}"
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund rhea@3.0.5
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check paho-mqtt==2.2.0 stomp.py==9.0.0
port=$((20000 + $$ % 12000))
# Erlang and RabbitMQ outside their usual folders, and only on the loopback network.
sed -i "s#=/usr/lib/erlang#=$folder/usr/lib/erlang#" usr/lib/erlang/bin/erl
export HOME=$folder PATH=$folder/usr/lib/erlang/bin:$PATH ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((port - 10000)) \
  RABBITMQ_CONFIG_FILE=$folder/rabbitmq RABBITMQ_CONF_ENV_FILE=$folder/none RABBITMQ_DIST_PORT=$((port - 5000)) \
  RABBITMQ_ENABLED_PLUGINS_FILE=$folder/plugins RABBITMQ_LOG_BASE=$folder RABBITMQ_MNESIA_BASE=$folder/data \
  RABBITMQ_NODENAME=finding@127.0.0.1 RABBITMQ_PID_FILE=$folder/pid RABBITMQ_USE_LONGNAME=true
echo '[rabbitmq_stomp, rabbitmq_mqtt, rabbitmq_amqp1_0].' > plugins
touch none
cat > rabbitmq.conf <<RABBITMQ
listeners.tcp.1 = 127.0.0.1:$port
stomp.listeners.tcp.1 = 127.0.0.1:$((port + 1))
mqtt.listeners.tcp.1 = 127.0.0.1:$((port + 2))
log.file = false
RABBITMQ
epmd &
names=$!
programs=usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin
control() { sh $programs/rabbitmqctl --quiet "$@"; }
start() {
  rm -f pid
  sh $programs/rabbitmq-server > log 2>&1 &
  for _ in {1..600}; do [ -s pid ] && break; sleep 0.1; done
  control wait --timeout 60 pid > /dev/null
}
start
cat > publish.py <<'PYTHON'
import sys, threading
import paho.mqtt.client as mqtt
import stomp

port = int(sys.argv[1])


class Listener(stomp.ConnectionListener):
    def __init__(self):
        self.receipts, self.all = 0, threading.Event()

    def on_receipt(self, frame):
        self.receipts += 1
        if self.receipts == 2:
            self.all.set()


listener = Listener()
connection = stomp.Connection([("127.0.0.1", port + 1)])
connection.set_listener("", listener)
connection.connect("guest", "guest", wait=True)
# Both queues are made here, and are durable.
connection.send("/queue/plain", "{}", headers={"receipt": "1"})
connection.send("/queue/stored", "{}", headers={"receipt": "2", "persistent": "true"})
listener.all.wait(20)
print(f"STOMP: {listener.receipts} receipts")
connection.remove_listener("")
connection.disconnect()

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="worker", clean_session=False)
client.username_pw_set("guest", "guest")
subscribed = threading.Event()
client.on_connect = lambda *_: client.subscribe("events", qos=1)
client.on_subscribe = lambda *_: subscribed.set()
client.connect("127.0.0.1", port + 2)
client.loop_start()
subscribed.wait(20)
client.disconnect()
client.loop_stop()
publisher = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
publisher.username_pw_set("guest", "guest")
publisher.connect("127.0.0.1", port + 2)
publisher.loop_start()
message = publisher.publish("events", "{}", qos=1)
message.wait_for_publish(20)
print(f"MQTT: {'acknowledged' if message.is_published() else 'nothing'}")
publisher.disconnect()
publisher.loop_stop()
PYTHON
cat > publish.cjs <<'NODE'
const { once } = require("node:events");
const rhea = require("rhea");

(async () => {
  const connection = rhea.connect({ host: "127.0.0.1", port: Number(process.argv[2]), username: "guest", password: "guest", reconnect: false });
  await once(connection, "connection_open");
  for (const [queue, message] of [["plain", { body: "{}" }], ["stored", { body: "{}", durable: true }]]) {
    const sender = connection.open_sender(`/amq/queue/${queue}`);
    await once(sender, "sendable");
    sender.send(message);
    await once(sender, "accepted");
    console.log(`AMQP 1.0: accepted${message.durable ? ", durable" : ""}`);
  }
  connection.close();
})();
NODE
queues() { control --formatter json list_queues name durable messages | python3 -c '
import json, sys
for queue in sorted(json.load(sys.stdin), key=lambda queue: queue["name"]):
    print(queue["name"], "durable" if queue["durable"] else "transient", queue["messages"])'; }
seen=$(
  environment/bin/python publish.py "$port"
  node publish.cjs "$port"
  queues
)
control stop "$folder/pid" > /dev/null
start
seen+="
after a restart
$(queues)"
echo "$seen"
[ "$seen" = 'STOMP: 2 receipts
MQTT: acknowledged
AMQP 1.0: accepted
AMQP 1.0: accepted, durable
mqtt-subscription-workerqos1 durable 1
plain durable 2
stored durable 2
after a restart
mqtt-subscription-workerqos1 durable 1
plain durable 0
stored durable 2' ] || { tail --lines 5 log; exit 1; }
