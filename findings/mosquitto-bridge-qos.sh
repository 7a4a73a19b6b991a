#!/bin/bash
# A bridge of Debian 12's mosquitto 2.0.11 sends a message with QoS 0, whatever QoS it was published with, if its line has none:
# `topic events out` is `topic events out 0`. A message that the publisher sent with QoS 1, and that the first broker has
# acknowledged, is then dropped if the second broker is restarted, and also if the subscriber there is away, whose session keeps
# messages of QoS 1. With `topic events out 1`, it gets all of them. Hurt: receivers of webhooks that publish each event with
# QoS 1 to a broker beside them and answer 200, and whose workers subscribe with QoS 1 to a central one: the events of each
# restart are lost without an error.
# Source: mosquitto.conf(5), `topic` in "Configuring Bridges"
# Usage: findings/mosquitto-bridge-qos.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${central:-} ${edge:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libcjson1=1.7.15-1+deb12u4 libdlt2=2.18.8-6 \
  libmosquitto1=2.0.11-1.2+deb12u2 libwebsockets17=4.1.6-3 libwrap0=7.6.q-32 mosquitto=2.0.11-1.2+deb12u2
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check paho-mqtt==2.2.0
port=$((20000 + $$ % 12000))
mkdir data
chmod 777 . data
cat > central.conf <<MOSQUITTO
listener $port 127.0.0.1
allow_anonymous true
persistence true
persistence_location $folder/data/
MOSQUITTO
cat > edge.conf <<MOSQUITTO
listener $((port + 1)) 127.0.0.1
allow_anonymous true
connection central
address 127.0.0.1:$port
restart_timeout 1
remote_clientid edge
topic default out
topic qos-1 out 1
MOSQUITTO
# Starts a broker, and waits until it takes connections.
start() {
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mosquitto -c "$1.conf" > "$1.log" 2>&1 &
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$2") 2> /dev/null && break; sleep 0.1; done
}
start central "$port"
central=$!
start edge $((port + 1))
edge=$!
cat > events.py <<'PYTHON'
import sys, threading
import paho.mqtt.client as mqtt

task, port, expected = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
TOPICS = "default", "qos-1"
ready, received = threading.Event(), {topic: 0 for topic in TOPICS}
if task == "publish":
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for topic in TOPICS:
        messages = [client.publish(topic, "{}", qos=1) for _ in range(3)]
        for message in messages:
            message.wait_for_publish(10)
        print(f"{topic}: {sum(message.is_published() for message in messages)} acknowledged")
else:
    # The worker: its session stays at the central broker.
    def on_message(_client, _data, message):
        received[message.topic] += 1
        if received["qos-1"] == expected:
            ready.set()

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="worker", clean_session=False)
    client.on_connect = lambda *_: client.subscribe([(topic, 1) for topic in TOPICS])
    client.on_subscribe = lambda *_: expected or ready.set()
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.loop_start()
    ready.wait(20)
    if expected:
        threading.Event().wait(1)
        for topic in TOPICS:
            print(f"{topic}: {received[topic]} received")
client.disconnect()
client.loop_stop()
PYTHON
events() { python/bin/python events.py "$@"; }
seen=$(
  events subscribe "$port" 0
  # The bridge has connected.
  for _ in {1..100}; do grep --quiet 'from 127.0.0.1.* as edge' central.log && break; sleep 0.1; done
  echo 'the worker is away'
  events publish $((port + 1)) 0
  events subscribe "$port" 3
)
kill "$central"
wait "$central" || true
seen+="
the central broker is away
$(events publish $((port + 1)) 0)"
start central "$port"
central=$!
seen+="
$(events subscribe "$port" 3)"
echo "$seen"
[ "$seen" = 'the worker is away
default: 3 acknowledged
qos-1: 3 acknowledged
default: 0 received
qos-1: 3 received
the central broker is away
default: 3 acknowledged
qos-1: 3 acknowledged
default: 0 received
qos-1: 3 received' ] || { tail --lines 5 ./*.log; exit 1; }
