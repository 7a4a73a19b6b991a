#!/bin/bash
# Debian's mosquitto 2.0.11 acknowledges a message of QoS 1 and drops it if the queue of a subscriber that is away has 1000
# messages, the default of `max_queued_messages`: publishers with paho-mqtt 2.2.0, in MQTT 3.1.1 and 5, and MQTT.js 5.16.0 see a
# success, and only mosquitto's log has a line. For a message without a subscriber, MQTT 5 has the reason "No matching
# subscribers", which MQTT.js's `publishAsync` takes as a success, too. With QoS 0, the default of both, a subscriber that is
# away gets nothing. Hurt: receivers of webhooks that publish each event and answer 200 once it is acknowledged: while the
# program that processes the events is stopped, all after the first 1000 are lost. Set `max_queued_messages 0`.
# Source: https://mosquitto.org/man/mosquitto-conf-5.html
# Usage: findings/mosquitto-queue-limit.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and
# PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${broker:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libcjson1=1.7.15-1+deb12u4 libdlt2=2.18.8-6 \
  libmosquitto1=2.0.11-1.2+deb12u2 libwebsockets17=4.1.6-3 libwrap0=7.6.q-32 mosquitto=2.0.11-1.2+deb12u2
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund mqtt@5.16.0
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check paho-mqtt==2.2.0
port=$((20000 + $$ % 12000))
printf 'listener %s 127.0.0.1\nallow_anonymous true\n' "$port" > mosquitto.conf
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mosquitto -c mosquitto.conf 2> log &
broker=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

cat > publish.mjs <<'NODE'
import mqtt from "mqtt";

const [port, topic, qos] = process.argv.slice(2);
const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`, { protocolVersion: 5 });
for (let number = 0; number < 1500; number += 1) {
  await client.publishAsync(topic, "{}", qos ? { qos: Number(qos) } : {});
}
await client.publishAsync("no-subscriber", "{}", { qos: 1 });
console.log("1501 resolved");
process.exit();
NODE
cat > publish.py <<'PYTHON'
import collections, subprocess, sys, threading
import paho.mqtt.client as mqtt

PORT = int(sys.argv[1])


def worker(name, received=None):
    """Subscribes with a session that remains while the worker is away, and reads until nothing has come for a second."""
    subscribed, arrived = threading.Event(), threading.Event()

    def on_message(*_):
        received.append(None)
        arrived.set()

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    client.on_message, client.on_subscribe = on_message, lambda *_: subscribed.set()
    client.connect("127.0.0.1", PORT)
    client.loop_start()
    if received is None:
        client.subscribe(name, qos=1)
        assert subscribed.wait(10)
    else:
        while arrived.wait(1):
            arrived.clear()
    client.disconnect()
    client.loop_stop()


def publish(topic, protocol, options):
    reasons = collections.Counter()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=protocol)
    client.on_publish = lambda client, data, id, reason, properties: reasons.update([str(reason)])
    client.connect("127.0.0.1", PORT)
    client.loop_start()
    for _ in range(1500):
        client.publish(topic, "{}", **options).wait_for_publish(10)
    client.publish("no-subscriber", "{}", qos=1).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def with_node(topic, *qos):
    return subprocess.run(["node", "publish.mjs", str(PORT), topic, *qos], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


for name, publishes in {
    "paho, MQTT 3.1.1": lambda topic: publish(topic, mqtt.MQTTv311, {"qos": 1}),
    "paho, MQTT 5": lambda topic: publish(topic, mqtt.MQTTv5, {"qos": 1}),
    "MQTT.js": lambda topic: with_node(topic, "1"),
    "paho, default QoS": lambda topic: publish(topic, mqtt.MQTTv5, {}),
    "MQTT.js, default QoS": with_node,
}.items():
    topic, received = name.replace(" ", "-"), []
    worker(topic)
    result = publishes(topic)
    worker(topic, received)
    print(f"{name}: {result}; received later: {len(received)}")
PYTHON
seen=$(python/bin/python publish.py "$port")
echo "$seen"
[ "$seen" = "paho, MQTT 3.1.1: 1501 Success; received later: 1000
paho, MQTT 5: 1500 Success, 1 No matching subscribers; received later: 1000
MQTT.js: 1501 resolved; received later: 1000
paho, default QoS: 1500 Success, 1 No matching subscribers; received later: 0
MQTT.js, default QoS: 1501 resolved; received later: 0" ]
grep --quiet 'messages are being dropped' log
