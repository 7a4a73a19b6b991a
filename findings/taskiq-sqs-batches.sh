#!/bin/bash
# taskiq-aio-sqs 2.1.1 with `enable_batching=True` loses the events of its last second at a shutdown, although its README says that
# "the broker ensures all messages are sent when shutting down, even partial batches": it sends those that wait in its buffer,
# not those that it has already taken from it for a batch. And if ten events together are above the 1 MiB of SQS, such as ten of
# 150 KB, SQS refuses the batch, which is logged and dropped. In both cases, `kiq` has returned. Without batching, all are sent.
# Hurt: receivers of webhooks that queue each event as a task and answer 204: each deployment loses events, and a burst of larger
# ones is lost, too.
# Source: https://pypi.org/project/taskiq-aio-sqs/2.1.1/#message-batching
# Usage: findings/taskiq-sqs-batches.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${server:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[server,sqs]==5.2.5' taskiq-aio-sqs==2.1.1 taskiq==0.13.0 \
  aiobotocore==3.10.0
port=$((20000 + $$ % 12000))
venv/bin/moto_server -H 127.0.0.1 -p "$port" > moto.log 2>&1 &
server=$!
for _ in {1..200}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > receiver.py <<'PYTHON'
import asyncio, sys
from taskiq_aio_sqs import SQSBroker

address = sys.argv[1]


async def stored(name, batching, size, events, seconds):
    """The number of tasks in the queue if a receiver that has queued these is shut down after some seconds."""
    settings = dict(endpoint_url=address, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    broker = SQSBroker(name, enable_batching=batching, **settings)

    @broker.task(task_name="process")
    async def process(event):
        pass

    session = broker._session.create_client("sqs", **settings)
    async with session as client:
        url = (await client.create_queue(QueueName=name))["QueueUrl"]
        await broker.startup()
        for _ in range(events):
            await process.kiq("." * size)
        await asyncio.sleep(seconds)
        await broker.shutdown()
        attributes = await client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(attributes["Attributes"]["ApproximateNumberOfMessages"])


async def main():
    changed = False
    for batching, size, events, seconds, expected in [
        (True, 100, 3, 0.3, 0),
        (True, 100, 3, 3, 3),
        (False, 100, 3, 0.3, 3),
        (True, 150_000, 10, 3, 0),
        (True, 150_000, 6, 3, 6),
        (False, 150_000, 10, 3, 10),
    ]:
        name = f"events-{batching}-{size}-{events}-{seconds}".replace(".", "-")
        found = await stored(name, batching, size, events, seconds)
        print(f"batching {batching}, {events} events of {size} bytes, shutdown after {seconds} s: {found} stored")
        changed |= found != expected
    return changed


sys.exit(asyncio.run(main()))
PYTHON
NO_PROXY=127.0.0.1,localhost venv/bin/python receiver.py "http://127.0.0.1:$port" 2> log || { cat log; exit 1; }
grep '^botocore.*BatchRequestTooLong' log
