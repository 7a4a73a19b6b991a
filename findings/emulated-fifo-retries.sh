#!/bin/bash
# If a consumer has received several messages of a group from a FIFO queue of Moto 5.2.5 and fails, only the newest of them comes
# back after the visibility timeout, and again after each later one, until it is deleted or in the dead-letter queue. The older
# ones come after it. SQS hands out all of them again in their order, as does MiniStack 1.5.33, and Moto if the consumer
# received a single message. Hurt: developers of a receiver that queues events by their job or customer: with Moto, the test
# of an outage shows events in reverse order, or a worker that stops at one event, and the dead-letter queue gets the newest first.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
# Usage: findings/emulated-fifo-retries.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${server:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[sqs]==5.2.5' ministack==1.5.33 boto3==1.43.106
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > fail.py <<'PYTHON'
import contextlib, sys, time
import boto3
from moto import mock_aws


def received(address, count):
    """The messages of each batch if a consumer takes up to `count` of three, fails twice, and then deletes what it gets."""
    client = boto3.client("sqs", "eu-central-1", endpoint_url=address, aws_access_key_id="test", aws_secret_access_key="test")
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "2"}
    url = client.create_queue(QueueName=f"events-{count}.fifo", Attributes=attributes)["QueueUrl"]
    for number in range(1, 4):
        client.send_message(QueueUrl=url, MessageBody=f"event {number}", MessageGroupId="job-1")
    batches = []
    for attempt in range(4 if count > 1 else 5):
        messages = client.receive_message(QueueUrl=url, MaxNumberOfMessages=count).get("Messages", [])
        batches.append(", ".join(message["Body"] for message in messages))
        if attempt < 2:
            time.sleep(2.5)
        else:
            for message in messages:
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return batches


everything = "event 1, event 2, event 3"
ordered = ["event 1", "event 1", "event 1", "event 2", "event 3"]
ministack = f"http://127.0.0.1:{sys.argv[1]}"
changed = False
for name, address, running, count, expected in [
    ("Moto", None, mock_aws(), 10, [everything, "event 3", "event 3", "event 1, event 2"]),
    ("Moto", None, mock_aws(), 1, ordered),
    ("MiniStack", ministack, contextlib.nullcontext(), 10, [everything, everything, everything, ""]),
    ("MiniStack", ministack, contextlib.nullcontext(), 1, ordered),
]:
    with running:
        found = received(address, count)
    print(f"{name}, up to {count} at once: {' | '.join(found)}")
    changed |= found != expected
sys.exit(changed)
PYTHON
NO_PROXY=127.0.0.1,localhost venv/bin/python fail.py "$port"
