#!/bin/bash
# Debian's mosquitto 2.0.11 with `persistence true`, as in Debian's configuration, acknowledges a message of QoS 1 for a
# subscriber that is away once it is in memory. It writes sessions and messages to its file when it ends at a SIGTERM, and every
# half an hour (`autosave_interval 1800`), so a SIGKILL, an out-of-memory kill or a power failure loses all events since then,
# and sessions that are new, also their later events. With `autosave_interval 1` and `autosave_on_changes true`, it writes after
# each change. Hurt: receivers of webhooks that publish each event with QoS 1 and answer 200 once it is acknowledged.
# Source: https://mosquitto.org/man/mosquitto-conf-5.html
# Usage: findings/mosquitto-autosave.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libcjson1=1.7.15-1+deb12u4 libdlt2=2.18.8-6 \
  libmosquitto1=2.0.11-1.2+deb12u2 libwebsockets17=4.1.6-3 libwrap0=7.6.q-32 mosquitto=2.0.11-1.2+deb12u2
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check paho-mqtt==2.2.0
cat > restarts.py <<'PYTHON'
import contextlib, os, pathlib, signal, socket, subprocess, threading, time
import paho.mqtt.client as mqtt

with socket.create_server(("127.0.0.1", 0)) as probe:
    PORT = probe.getsockname()[1]
FOLDER = pathlib.Path.cwd()


@contextlib.contextmanager
def broker(name, end, settings):
    (FOLDER / name).mkdir(exist_ok=True)
    configuration = FOLDER / f"{name}.conf"
    configuration.write_text("\n".join([
        f"listener {PORT} 127.0.0.1", "allow_anonymous true", "user root", "persistence true",
        f"persistence_location {FOLDER / name}/", *settings,
    ]))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(FOLDER / "usr/lib/x86_64-linux-gnu")}
    with open("log", "a") as log:
        process = subprocess.Popen(["usr/sbin/mosquitto", "-c", configuration], env=environment, stderr=log)
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
            break
        time.sleep(0.1)
    yield
    process.send_signal(end)
    process.wait()


def subscriber(received):
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="worker", clean_session=False)
    subscribed = threading.Event()
    client.on_connect = lambda client, *_: client.subscribe("events", qos=1)
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _client, _data, message: received.append(message.payload)
    client.connect("127.0.0.1", PORT)
    client.loop_start()
    subscribed.wait(10)
    return client


def end(client):
    client.disconnect()
    client.loop_stop()


def seen(name, number, settings=()):
    """The events that were acknowledged before the end of the broker, and received after its restart."""
    with broker(name, number, settings):
        end(subscriber([]))
        publisher = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        publisher.connect("127.0.0.1", PORT)
        publisher.loop_start()
        messages = [publisher.publish("events", event, qos=1) for event in "123"]
        for message in messages:
            message.wait_for_publish(10)
        end(publisher)
        time.sleep(2)
    received = []
    with broker(name, signal.SIGTERM, settings):
        client = subscriber(received)
        time.sleep(1)
        end(client)
    acknowledged = sum(message.is_published() for message in messages)
    print(f"{name}: {acknowledged} acknowledged, {len(received)} received")
    return acknowledged, len(received)


found = [
    seen("SIGTERM", signal.SIGTERM),
    seen("SIGKILL", signal.SIGKILL),
    seen("SIGKILL with autosave_on_changes", signal.SIGKILL, ["autosave_interval 1", "autosave_on_changes true"]),
]
assert found == [(3, 3), (3, 0), (3, 3)]
PYTHON
python/bin/python restarts.py
