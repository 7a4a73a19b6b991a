#!/bin/bash
# dramatiq-sqs 0.4.4 loses a message whose task fails for half an hour: Dramatiq 2.2.1 doubles the wait before each retry,
# beginning with 15 to 30 seconds, and SQS delays a message by at most 15 minutes. The broker raises MessageDelayTooLong instead
# of a shorter delay, Dramatiq only logs this, as a failure of its middleware, and then the worker deletes the message: after
# five or six of 20 retries, and a dead-letter queue (`dead_letter=True`) gets nothing. With `max_backoff=900000`, as in the
# README's example, the retries go on. Hurt: receivers of webhooks that work through a queue: an event that was answered with
# 204 is lost if the database is away for half an hour, although 20 retries are configured.
# Source: dramatiq_sqs/broker.py (enqueue), dramatiq/broker.py (emit_after), dramatiq/middleware/retries.py
# Usage: findings/dramatiq-sqs-retries.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check dramatiq==2.2.1 dramatiq-sqs==0.4.4 'moto[sqs]==5.2.5' \
  boto3==1.43.106
cat > retries.py <<'PYTHON'
import logging, os, sys, threading

os.environ |= dict(AWS_DEFAULT_REGION="eu-central-1", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
import dramatiq
from dramatiq.middleware import Retries
from dramatiq_sqs import SQSBroker
from moto import mock_aws

logging.disable()


def left(retries, **options):
    """The messages that wait, and the dead ones, after the task of a message failed that was retried so often before."""
    middleware = [Retries(**options)] if options else None
    broker = SQSBroker(namespace=f"after-{retries}-{len(options)}", dead_letter=True, middleware=middleware)
    ran = threading.Event()

    def work():
        ran.set()
        raise ConnectionError("The database is away")

    actor = dramatiq.actor(work, broker=broker)
    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=1000)
    worker.start()
    broker.enqueue(actor.message_with_options(retries=retries))
    assert ran.wait(30)
    worker.stop()
    client = broker.sqs.meta.client

    def count(queue):
        attributes = client.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["All"])["Attributes"]
        return sum(int(value) for name, value in attributes.items() if name.startswith("ApproximateNumberOfMessages"))

    return count(broker.queues["default"]), count(broker.dead_letter_queues["default"])


changed = False
with mock_aws():
    for retries, options, expected in [
        (0, {}, (1, 0)), (4, {}, (1, 0)), (6, {}, (0, 0)), (19, {}, (0, 0)),
        (6, {"max_backoff": 900_000}, (1, 0)),
        (20, {"max_backoff": 900_000}, (0, 1)),
    ]:
        found = left(retries, **options)
        print(f"A failure after {retries} retries, {options or 'as configured by default'}: {found[0]} waits, {found[1]} dead")
        changed |= found != expected
sys.exit(changed)
PYTHON
venv/bin/python retries.py
