#!/bin/bash
# The node `mqtt out` of Node-RED 4.1.13 drops a message while the broker is away, whatever its QoS: it raises no error, writes
# no log line, and calls neither a Catch nor a Complete node; the message is not sent after the reconnection. MQTT.js 5.16.1, the
# library in it, keeps such a message and sends it then. A Complete node on `mqtt out` that leads to the `http response` gives
# no response in an outage, and a 204 once the broker has acknowledged the message. Hurt: receivers of webhooks in which a flow
# of `http in`, `mqtt out` (QoS 1 or 2) and `http response` answers 204: all events of a restart of the broker are lost.
# Source: the function `publish` in @node-red/nodes/core/network/10-mqtt.js
# Usage: findings/node-red-mqtt-out.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry and curl. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -KILL ${red:-} ${library:-} ${broker:-} ${subscriber:-} 2> /dev/null || true; wait 2> /dev/null; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libcjson1=1.7.15-1+deb12u4 libdlt2=2.18.8-6 \
  libmosquitto1=2.0.11-1.2+deb12u2 libwebsockets17=4.1.6-3 libwrap0=7.6.q-32 mosquitto=2.0.11-1.2+deb12u2
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --ignore-scripts node-red@4.1.13
port=$((20000 + $$ % 12000))
mqtt=$((port + 1))
cat > flows.json <<JSON
[{"id": "tab", "type": "tab", "label": "webhooks"},
 {"id": "broker", "type": "mqtt-broker", "broker": "127.0.0.1", "port": "$mqtt", "clientid": "", "autoConnect": true,
  "usetls": false, "protocolVersion": "4", "keepalive": "60", "cleansession": true},
 {"id": "in", "type": "http in", "z": "tab", "x": 1, "y": 1, "url": "/hook", "method": "post", "wires": [["mqtt", "out"]]},
 {"id": "mqtt", "type": "mqtt out", "z": "tab", "x": 1, "y": 1, "topic": "events", "qos": "1", "broker": "broker", "wires": []},
 {"id": "out", "type": "http response", "z": "tab", "x": 1, "y": 1, "statusCode": "204", "wires": []},
 {"id": "catch", "type": "catch", "z": "tab", "x": 1, "y": 1, "scope": null, "wires": [["file"]]},
 {"id": "file", "type": "file", "z": "tab", "x": 1, "y": 1, "filename": "$folder/caught", "wires": [[]]},
 {"id": "in2", "type": "http in", "z": "tab", "x": 1, "y": 1, "url": "/complete", "method": "post", "wires": [["mqtt2"]]},
 {"id": "mqtt2", "type": "mqtt out", "z": "tab", "x": 1, "y": 1, "topic": "events", "qos": "1", "broker": "broker", "wires": []},
 {"id": "complete", "type": "complete", "z": "tab", "x": 1, "y": 1, "scope": ["mqtt2"], "wires": [["out"]]}]
JSON
echo "module.exports = { flowFile: 'flows.json', uiPort: $port, uiHost: '127.0.0.1', disableEditor: true };" > settings.js
cat > library.js <<'JS'
// MQTT.js itself: publishes each line of its input.
const client = require("mqtt").connect("mqtt://127.0.0.1:" + process.argv[2], { reconnectPeriod: 500 });
client.on("error", () => {});
require("readline").createInterface({ input: process.stdin }).on("line", (line) => client.publish("events", line, { qos: 1 }));
JS
cat > subscriber.js <<'JS'
// A subscriber with a session at the broker.
const client = require("mqtt").connect("mqtt://127.0.0.1:" + process.argv[2],
  { clientId: "worker", clean: false, reconnectPeriod: 200 });
client.on("error", () => {});
client.on("connect", () => client.subscribe("events", { qos: 1 }));
client.on("message", (_topic, payload) => require("fs").appendFileSync("received", payload + "\n"));
JS
cat > mosquitto.conf <<CONF
listener $mqtt 127.0.0.1
allow_anonymous true
user root
persistence true
persistence_location $folder/
CONF
wait_for() { for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null && break; sleep 0.1; done; }
start_broker() {
  LD_LIBRARY_PATH=usr/lib/x86_64-linux-gnu usr/sbin/mosquitto -c mosquitto.conf >> broker.log 2>&1 &
  broker=$!
  wait_for "$mqtt"
}
stop_broker() {
  kill "$broker"
  wait "$broker" || true
}
post() {
  curl --silent --max-time 3 --write-out "$2 to /$1: %{http_code}\n" --header 'content-type: text/plain' --data "$2" \
    "http://127.0.0.1:$port/$1" || true
}
start_broker
node subscriber.js "$mqtt" &
subscriber=$!
mkfifo lines
node library.js "$mqtt" < lines &
library=$!
exec 3> lines
node node_modules/node-red/red.js --settings settings.js --userDir "$folder" > log 2>&1 &
red=$!
wait_for "$port"
for _ in {1..100}; do grep --quiet 'Connected to broker' log && break; sleep 0.1; done
sleep 1
touch received
post hook first
post complete second
stop_broker
sleep 1
post hook outage-1
post hook outage-2
post complete outage-3
echo outage-of-the-library >&3
sleep 1
start_broker
for _ in {1..300}; do [ "$(grep --count 'Connected to broker' log)" -ge 2 ] && break; sleep 0.1; done
sleep 3
post hook last
sleep 2
echo "received: $(sort received | tr '\n' ' ')"
echo "caught: $(cat caught 2> /dev/null || true)"
sed -n 's/^.*\(\[[a-z]*\]\) *\[\(mqtt.*\)/\1 [\2/p' log
[ "$(sort received | tr '\n' ' ')" = 'first last outage-of-the-library second ' ] && [ ! -e caught ]
