#!/bin/bash
# A FIFO queue of SQS drops a message whose deduplication id it has seen in the last five minutes, also if the first one has
# been deleted, and with the `DeduplicationScope` messageGroup only within its group. Moto 5.2.5 forgets the id as soon as the
# first message is deleted, and ignores the scope, so the same id in another group is dropped. fauxqs 1.9.2 for Node.js ignores
# the scope, and MiniStack 1.5.33 does both as documented. Hurt: receivers of webhooks that send each event to a FIFO queue
# with its `webhook-id` as the id: with Moto, a test shows that an event which failed and is resent is processed again; in AWS,
# it is dropped if it comes within five minutes, although sending it succeeds.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-key-terms.html
# Usage: findings/emulated-deduplication.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and npm. Fails
# if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[sqs]==5.2.5' ministack==1.5.33 boto3==1.43.106
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts fauxqs@1.9.2
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
servers=$!
cat > fauxqs.mjs <<'NODE'
import { buildApp } from "fauxqs";

await buildApp({ logger: false }).listen({ port: Number(process.argv[2]), host: "127.0.0.1" });
NODE
node fauxqs.mjs $((port + 1)) > fauxqs.log 2>&1 &
servers+=" $!"
for offset in 0 1; do
  for _ in {1..200}; do (: < "/dev/tcp/127.0.0.1/$((port + offset))") 2> /dev/null && break; sleep 0.2; done
done
cat > repeat.py <<'PYTHON'
import contextlib, sys
import boto3
from moto import mock_aws


def received(address):
    """The messages that are received of an id that is sent again: after a deletion, and in another group."""
    client = boto3.client("sqs", "eu-central-1", endpoint_url=address, aws_access_key_id="test", aws_secret_access_key="test")

    def queue(name, **attributes):
        return client.create_queue(QueueName=name, Attributes={"FifoQueue": "true", **attributes})["QueueUrl"]

    def send(url, group):
        client.send_message(QueueUrl=url, MessageBody="{}", MessageGroupId=group, MessageDeduplicationId="msg_1")

    def receive(url):
        return client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])

    url = queue("deleted.fifo")
    send(url, "tenant")
    [message] = receive(url)
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    send(url, "tenant")
    repeated = len(receive(url))
    url = queue("scope.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    send(url, "tenant")
    send(url, "other tenant")
    return repeated, len(receive(url))


port = int(sys.argv[1])
changed = False
for name, address, running, expected in [
    ("Moto", None, mock_aws(), (1, 1)),
    ("fauxqs", f"http://127.0.0.1:{port + 1}", contextlib.nullcontext(), (0, 1)),
    ("MiniStack", f"http://127.0.0.1:{port}", contextlib.nullcontext(), (0, 2)),
]:
    with running:
        found = received(address)
    print(f"{name}: received again after a deletion: {found[0]} (AWS: 0); received of two groups: {found[1]} (AWS: 2)")
    changed |= found != expected
sys.exit(changed)
PYTHON
NO_PROXY=127.0.0.1,localhost venv/bin/python repeat.py "$port"
