#!/bin/bash
# amazon-sqs-extended-client 1.0.1, AWS's library for Python that puts large messages of SQS into S3, writes its mark of a large
# message into the attributes that the caller has passed. If a receiver passes the same attributes with each event, the next
# small one gets this mark, too, and sending it succeeds. `receive_message` then raises an error for the whole batch and returns
# none of its messages, so they all reach the dead-letter queue, also those that were sent before. The next large one cannot be
# sent. With a new dictionary for each message, all arrive. Hurt: receivers of webhooks that queue events with it: the first
# event above 256 KB stops the queue, and the error names the format of a payload, not the cause.
# Source: https://github.com/awslabs/amazon-sqs-python-extended-client-lib
# Usage: findings/sqs-extended-attributes.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check 'moto[s3,sqs]==5.2.5' amazon-sqs-extended-client==1.0.1 boto3==1.43.106
cat > queue_events.py <<'PYTHON'
import json, sys
import boto3
import sqs_extended_client
from moto import mock_aws

ATTRIBUTES = {"source": {"DataType": "String", "StringValue": "webhooks"}}
# The second event is above 256 KB.
EVENTS = [{"job_id": f"job-{number}", "result": "." * size} for number, size in enumerate([10, 300_000, 10, 300_000], 1)]


@mock_aws
def queue(copied):
    """The lines that a receiver and its worker see."""
    client = boto3.client("sqs")
    client.large_payload_support = "large-payloads"
    client.s3_client.create_bucket(Bucket="large-payloads")
    dead = client.create_queue(QueueName="dead")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
    url = client.create_queue(QueueName="events", Attributes={"VisibilityTimeout": "0", "RedrivePolicy": policy})["QueueUrl"]
    attributes = json.loads(json.dumps(ATTRIBUTES))
    seen = []
    for event in EVENTS:
        given = dict(attributes) if copied else attributes
        try:
            client.send_message(QueueUrl=url, MessageBody=json.dumps(event), MessageAttributes=given)
            seen.append(f"{event['job_id']} sent")
        except sqs_extended_client.exceptions.SQSExtendedClientException as error:
            seen.append(f"{event['job_id']} not sent: {error}".strip())
    for _ in range(4):
        try:
            messages = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        except sqs_extended_client.exceptions.SQSExtendedClientException as error:
            seen.append(f"not received: {error}")
            continue
        seen.append("received: " + ", ".join(json.loads(message["Body"])["job_id"] for message in messages))
        for message in messages:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    left = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
    return seen + [f"in the dead-letter queue: {left['ApproximateNumberOfMessages']}"]


found = {}
for name, copied in ("the same attributes for each event", False), ("a copy for each event", True):
    found[copied] = queue(copied)
    print(name, *found[copied], sep="\n  ")
refused = "not received: Invalid payload format for retrieving stored messages in S3"
taken = "Message attribute name ExtendedPayloadSize is reserved for use by the SQS extended client."
changed = found[False] != [
    "job-1 sent", "job-2 sent", "job-3 sent", f"job-4 not sent: {taken}", refused, refused, refused, "received: ",
    "in the dead-letter queue: 3",
]
[*sent, first, second, third, fourth, dead] = found[True]
changed |= sent != [f"job-{number} sent" for number in range(1, 5)]
changed |= first != "received: job-1, job-2, job-3, job-4" or dead != "in the dead-letter queue: 0"
sys.exit(changed)
PYTHON
AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test venv/bin/python queue_events.py
