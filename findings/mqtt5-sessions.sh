#!/bin/bash
# A client of MQTT 5 that asks for a session which remains (`clean: false` of MQTT.js 5.16.0, `clean_start=False` of paho-mqtt
# 2.2.0) gets one that ends as soon as it disconnects: in MQTT 5, the session expiry interval is 0 unless it is set. In MQTT
# 3.1.1, the same option keeps the session. Debian's mosquitto 2.0.11 acknowledges what is published to QoS 1 meanwhile, and the
# subscriber connects again without an error and gets nothing of it. Hurt: receivers of webhooks that publish each event with
# QoS 1 and answer 200: after the change to MQTT 5, all events are lost that come while the program that processes them
# restarts. Set `sessionExpiryInterval` (MQTT.js) or `SessionExpiryInterval` (paho-mqtt), and check the "session present" of the
# connection.
# Source: https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html section 3.1.2.11.2
# Usage: findings/mqtt5-sessions.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and PyPI.
# Fails if the behavior changes.
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

# Each subscriber subscribes, is away while three events are published, and connects again.
cat > sessions.mjs <<'NODE'
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import mqtt from "mqtt";

const url = `mqtt://127.0.0.1:${process.argv[2]}`;
const expiry = { properties: { sessionExpiryInterval: 86400 } };
for (const [name, options] of [["3.1.1", { protocolVersion: 4 }], ["5", { protocolVersion: 5 }], ["5, expiry", { protocolVersion: 5, ...expiry }]]) {
  const subscribe = async (received) => {
    const client = mqtt.connect(url, { clientId: name, clean: false, ...options });
    client.on("message", (topic, message) => received.push(message));
    const [packet] = await once(client, "connect");
    await client.subscribeAsync(name, { qos: 1 });
    return [client, packet.sessionPresent];
  };
  const [first] = await subscribe([]);
  await first.endAsync();
  const publisher = await mqtt.connectAsync(url, options);
  for (const event of ["1", "2", "3"]) await publisher.publishAsync(name, event, { qos: 1 });
  const received = [];
  const [second, present] = await subscribe(received);
  await sleep(1000);
  console.log(`MQTT.js, ${name}: 3 acknowledged, session present ${present}, ${received.length} received`);
  await Promise.all([second.endAsync(), publisher.endAsync()]);
}
NODE
cat > sessions.py <<'PYTHON'
import sys, threading, time
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PORT = int(sys.argv[1])
expiry = Properties(PacketTypes.CONNECT)
expiry.SessionExpiryInterval = 86400


def connect(name, version, properties, received):
    """A client that has subscribed, and whether its session was there."""
    settings = {"clean_session": False} if version == mqtt.MQTTv311 else {}
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=version, **settings)
    subscribed, present = threading.Event(), []

    def on_connect(client, _data, flags, *_):
        present.append(flags.session_present)
        client.subscribe(name, qos=1)

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _client, _data, message: received.append(message.payload)
    options = {} if version == mqtt.MQTTv311 else {"clean_start": False, "properties": properties}
    client.connect("127.0.0.1", PORT, **options)
    client.loop_start()
    subscribed.wait(10)
    return client, present[0]


def end(client):
    client.disconnect()
    client.loop_stop()


for name, version, properties in [
    ("3.1.1", mqtt.MQTTv311, None), ("5", mqtt.MQTTv5, None), ("5, expiry", mqtt.MQTTv5, expiry),
]:
    topic = f"paho {name}"
    end(connect(topic, version, properties, [])[0])
    publisher, _ = connect("publisher", mqtt.MQTTv5, None, [])
    published = [publisher.publish(topic, event, qos=1) for event in "123"]
    for message in published:
        message.wait_for_publish(10)
    acknowledged = sum(message.is_published() for message in published)
    received = []
    client, present = connect(topic, version, properties, received)
    time.sleep(1)
    print(f"paho-mqtt, {name}: {acknowledged} acknowledged, session present {str(present).lower()}, {len(received)} received")
    end(client)
    end(publisher)
PYTHON
seen=$(
  node sessions.mjs "$port"
  python/bin/python sessions.py "$port"
)
echo "$seen"
[ "$seen" = "MQTT.js, 3.1.1: 3 acknowledged, session present true, 3 received
MQTT.js, 5: 3 acknowledged, session present false, 0 received
MQTT.js, 5, expiry: 3 acknowledged, session present true, 3 received
paho-mqtt, 3.1.1: 3 acknowledged, session present true, 3 received
paho-mqtt, 5: 3 acknowledged, session present false, 0 received
paho-mqtt, 5, expiry: 3 acknowledged, session present true, 3 received" ]
