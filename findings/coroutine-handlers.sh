#!/bin/bash
# These consumers take an `async def` as the handler of a message, do not run it, and count the message as processed, because a
# call returns a coroutine and raises no error: the batch processor of Powertools for AWS Lambda 3.37.0 with
# `process_partial_response`, so that Lambda deletes the whole batch; Celery 5.7.0 without a result backend, which logs that
# the task succeeded, also with `acks_late`; sqs-workers 0.7.3 and aws-sqs-consumer 0.0.15, which delete the message. The only
# sign is Python's warning that a coroutine was never awaited, which is not in the log of a worker that filters warnings.
# Powertools' `async_process_partial_response` and RQ 3.0.0 run it, and Huey 3.5.0 raises an error. Hurt:
# receivers of webhooks that work through a queue: each event that was answered with 204 is lost.
# Source: aws_lambda_powertools/utilities/batch/base.py (_process_record), celery/app/trace.py (trace_task),
# https://docs.aws.amazon.com/powertools/python/latest/utilities/batch/
# Usage: findings/coroutine-handlers.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check aws-lambda-powertools==3.37.0 celery==5.7.0 huey==3.5.0 \
  sqs-workers==0.7.3 aws-sqs-consumer==0.0.15 'moto[sqs]==5.2.5' boto3==1.43.106 rq==3.0.0 fakeredis==2.41.0
cat > work.py <<'PYTHON'
ran = []


async def work(*_, **__):
    ran.append("ran")
    raise ConnectionError("The database is away")
PYTHON
cat > consume.py <<'PYTHON'
import logging, os, sys, threading

os.environ |= dict(AWS_DEFAULT_REGION="eu-central-1", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
import boto3
from moto import mock_aws
from work import ran, work

logging.disable()


def powertools(is_async=False):
    from aws_lambda_powertools.utilities import batch

    record = {"messageId": "1", "body": "{}", "eventSource": "aws:sqs"}
    event = {"Records": [record, record | {"messageId": "2"}]}
    if is_async:
        processor = batch.AsyncBatchProcessor(batch.EventType.SQS, raise_on_entire_batch_failure=False)
        result = batch.async_process_partial_response(event=event, record_handler=work, processor=processor)
    else:
        processor = batch.BatchProcessor(batch.EventType.SQS)
        result = batch.process_partial_response(event=event, record_handler=work, processor=processor)
    return f"{len(result['batchItemFailures'])} of 2 failed"


def celery():
    from celery import Celery, signals
    from celery.contrib.testing.worker import start_worker

    app = Celery(broker="memory://")
    app.conf.task_acks_late = True
    task = app.task(work, name="work")
    states, ended = [], threading.Event()
    signals.task_postrun.connect(lambda state, **_: (states.append(state), ended.set()), weak=False)
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="CRITICAL"):
        task.delay()
        ended.wait(30)
    return states[0]


def left(client, url):
    attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return sum(int(value) for name, value in attributes.items() if name.startswith("ApproximateNumberOfMessages"))


def sqs_workers():
    from sqs_workers import SQSEnv, create_standard_queue

    environment = SQSEnv(session=boto3.Session(), queue_prefix="")
    create_standard_queue(environment, "workers")
    queue = environment.queue("workers")
    queue.processor("work")(work).delay()
    result = queue.process_batch(wait_seconds=1)
    url = boto3.client("sqs").get_queue_url(QueueName="workers")["QueueUrl"]
    return f"{result.succeeded_count()} succeeded, {left(boto3.client('sqs'), url)} left"


def aws_sqs_consumer():
    from aws_sqs_consumer import Consumer

    client = boto3.client("sqs")
    url = client.create_queue(QueueName="consumer")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="{}")

    class Worker(Consumer):
        async def handle_message(self, message):
            await work()

        def _polling_wait(self):
            self.stop()

    Worker(url, region="eu-central-1", sqs_client=client).start()
    return f"{left(client, url)} left"


def rq():
    from fakeredis import FakeStrictRedis
    from rq import Queue, SimpleWorker

    connection = FakeStrictRedis()
    queue = Queue(connection=connection)
    job = queue.enqueue(work)
    SimpleWorker([queue], connection=connection).work(burst=True)
    return job.get_status(refresh=True).value


def huey():
    from huey import MemoryHuey

    try:
        queue = MemoryHuey(immediate=False)
        queue.task()(work)()
        return str(queue.execute(queue.dequeue()))
    except Exception as error:
        return type(error).__name__


changed = False
with mock_aws():
    for name, consume, expected in [
        ("Powertools", powertools, "did not run: 0 of 2 failed"),
        ("Powertools, async", lambda: powertools(is_async=True), "ran: 2 of 2 failed"),
        ("Celery", celery, "did not run: SUCCESS"),
        ("sqs-workers", sqs_workers, "did not run: 1 succeeded, 0 left"),
        ("aws-sqs-consumer", aws_sqs_consumer, "did not run: 0 left"),
        ("RQ", rq, "ran: failed"),
        ("Huey", huey, "did not run: ConfigurationError"),
    ]:
        ran.clear()
        result = consume()
        found = f"{'ran' if ran else 'did not run'}: {result}"
        print(f"{name}: the handler {found}")
        changed |= found != expected
sys.exit(changed)
PYTHON
venv/bin/python -W ignore consume.py
