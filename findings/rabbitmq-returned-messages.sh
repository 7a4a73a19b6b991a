#!/bin/bash
# aio-pika 10.2.1 asks RabbitMQ for a confirm and, with `mandatory`, to return a message that no queue takes, both by default;
# but if RabbitMQ returns the message, `publish` raises no error: its result is a DeliveredMessage instead of an Ack, unless the
# channel has `on_return_raises=True`. FastStream 0.7.8 does the same for `broker.publish`, also with `mandatory=True`, and does
# not declare the queue that it publishes to. A ConfirmChannel of amqplib 2.3.1 calls back without an error, also with
# `mandatory`. pika 1.4.4 raises UnroutableError. Hurt: receivers of webhooks that queue each event and answer 200: if the
# worker that declares the queue has not run yet, or the queue was deleted, each event is confirmed and lost.
# Source: https://docs.aio-pika.com/apidoc.html and https://www.rabbitmq.com/docs/publishers#unroutable
# Usage: findings/rabbitmq-returned-messages.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# and PyPI. Fails if the behavior changes.
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
npm install --silent --no-audit --no-fund amqplib@2.3.1
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check aio-pika==10.2.1 aiormq==7.2.4 faststream==0.7.8 pika==1.4.4
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

cat > publish.py <<'PYTHON'
import asyncio, sys
import aio_pika, pika
from aio_pika.exceptions import PublishError
from faststream.rabbit import RabbitBroker

port = int(sys.argv[1])
url = f"amqp://guest:guest@127.0.0.1:{port}/"


async def show(name, publish):
    try:
        print(f"{name}: {type(await publish).__name__}")
    except PublishError as error:
        print(f"{name}: {type(error).__name__}")


async def main():
    async with await aio_pika.connect_robust(url) as connection:
        for name, options in {"aio-pika": {}, "aio-pika with on_return_raises": {"on_return_raises": True}}.items():
            exchange = (await connection.channel(**options)).default_exchange
            await show(name, exchange.publish(aio_pika.Message(b"{}"), routing_key="absent"))
    async with RabbitBroker(url) as broker:
        await show("FastStream", broker.publish("{}", "absent"))
        await show("FastStream with mandatory", broker.publish("{}", "absent", mandatory=True))


asyncio.run(main())
channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
channel.confirm_delivery()
try:
    print(f"pika with mandatory: {channel.basic_publish('', 'absent', b'{}', mandatory=True)}")
except pika.exceptions.UnroutableError as error:
    print(f"pika with mandatory: {type(error).__name__}")
PYTHON
cat > publish.mjs <<'NODE'
import amqp from "amqplib";

const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${process.argv[2]}`);
const channel = await connection.createConfirmChannel();
const error = await new Promise((resolve) => channel.sendToQueue("absent", Buffer.from("{}"), { mandatory: true }, resolve));
console.log(`amqplib with mandatory: ${error}`);
await connection.close();
NODE
seen=$(
  environment/bin/python publish.py "$port" 2> errors
  node publish.mjs "$port"
)
echo "$seen"
[ "$seen" = "aio-pika: DeliveredMessage
aio-pika with on_return_raises: PublishError
FastStream: DeliveredMessage
FastStream with mandatory: DeliveredMessage
pika with mandatory: UnroutableError
amqplib with mandatory: null" ]
