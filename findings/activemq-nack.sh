#!/bin/bash
# ActiveMQ 5.17 (Debian 12) never delivers a message again that a STOMP client has refused with NACK. It moves it to the
# queue ActiveMQ.DLQ at the first NACK, and drops it without a trace if the message is not persistent, which is the
# default of STOMP. STOMP leaves the effect of NACK to the server. RabbitMQ's STOMP puts such a message back into its
# queue by default. A message of a consumer that disconnects without an ACK or NACK is delivered again. Hurt: receivers
# of webhooks that answer 204 once the event is in a queue of ActiveMQ, with workers in Python, Ruby, PHP or Node.js
# that answer NACK while their database is away: each event of this minute is lost, or waits in a queue that no worker
# reads. Send the header `persistent:true`, wait and try again before the ACK or close the connection instead of a NACK,
# and watch ActiveMQ.DLQ.
# Source: https://stomp.github.io/stomp-specification-1.2.html#NACK and
# https://activemq.apache.org/components/classic/documentation/message-redelivery-and-dlq-handling
# Usage: findings/activemq-nack.sh. Needs apt-get of Debian 12, Java 17, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libactivemq-java=5.17.2+dfsg-2+deb12u1 \
  libactivemq-protobuf-java=1.1-6 libgeronimo-j2ee-management-1.1-spec-java=1.0.1-1.1 \
  libgeronimo-jms-1.1-spec-java=1.1.1-1 libhawtbuf-java=1.11-2 libslf4j-java=1.7.32-1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check stomp-py==9.0.0
port=$((20000 + $$ % 12000))
jars=usr/share/java
classes=$(printf "%s:" "$jars"/activemq-{broker,client,console,jaas,kahadb-store,openwire-legacy,protobuf,stomp}.jar \
  "$jars"/geronimo-*.jar "$jars"/hawtbuf*.jar "$jars"/slf4j-{api,simple}.jar)
java -Xmx256m -cp "$classes" org.apache.activemq.console.command.ShellCommand start \
  "broker:(stomp://127.0.0.1:$port)?brokerName=broker&dataDirectory=$folder/data&useJmx=false" > broker.log 2>&1 &
server=$!
for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

cat > check.py <<'PYTHON'
import sys, threading
import stomp

PORT = int(sys.argv[1])


class Worker(stomp.ConnectionListener):
    """A connection, which answers the messages of a queue."""

    def __init__(self, queue=None, answer="ack"):
        self.received, self.answer, self.arrived = 0, answer, threading.Event()
        self.connection = stomp.Connection12([("127.0.0.1", PORT)])
        self.connection.set_listener("", self)
        self.connection.connect(wait=True)
        if queue:
            self.connection.subscribe(queue, id="1", ack="client-individual")

    def on_message(self, frame):
        self.received += 1
        if self.answer:
            getattr(self.connection, self.answer)(frame.headers["ack"])
        self.arrived.set()

    def end(self, seconds=4):
        """The number of messages, and whether more arrive after the first one."""
        self.arrived.wait(seconds)
        threading.Event().wait(1)
        self.connection.disconnect()
        return self.received


sender = Worker()
seen = []
for name, headers, answer in [
    ("NACK", {}, "nack"),
    ("NACK, persistent", {"persistent": "true"}, "nack"),
    ("disconnect, persistent", {"persistent": "true"}, None),
]:
    queue = f"/queue/{name.replace(', ', '.')}"
    sender.connection.send(queue, '{"type": "job.completed"}', **headers)
    counts = [Worker(queue, answer).end(20), Worker(queue).end(), Worker("/queue/ActiveMQ.DLQ").end()]
    seen.append(counts)
    print(f"{name}: first worker {counts[0]}, next worker {counts[1]}, ActiveMQ.DLQ {counts[2]}", flush=True)
sender.connection.disconnect()
sys.exit(seen != [[1, 0, 0], [1, 0, 1], [1, 1, 0]])
PYTHON
python/bin/python check.py "$port"
