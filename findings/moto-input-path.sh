#!/bin/bash
# Moto 5.2.5 ignores `InputPath` of an EventBridge target: a queue gets the whole event instead of its detail, without an
# error, and list_targets_by_rule shows the path as it was set. `InputTransformer` on the same target works. Hurt: developers
# who test a producer that sends its events through EventBridge: a rule that is right on AWS fails in the test, and code
# that passes the test reads `detail` from a message that AWS never sends.
# Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html
# Usage: findings/moto-input-path.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check \
  'moto[events,sqs]==5.2.5' boto3==1.43.108 botocore==1.43.127
"$folder/python/bin/python" - <<'PYTHON'
import json
import boto3
from moto import mock_aws

DETAIL = {"event": "job.completed"}
WAYS = {
    "InputPath": {"InputPath": "$.detail"},
    "InputTransformer": {"InputTransformer": {"InputPathsMap": {"detail": "$.detail"}, "InputTemplate": "<detail>"}},
}
EXPECTED = {"InputPath": "the whole event", "InputTransformer": "the detail"}


@mock_aws
def seen(way):
    """What a queue gets of an event through a rule."""
    options = {"region_name": "eu-central-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    events, sqs = boto3.client("events", **options), boto3.client("sqs", **options)
    queue = sqs.create_queue(QueueName="queue")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="rule", EventPattern=json.dumps({"source": ["jobs"]}))
    events.put_targets(Rule="rule", Targets=[{"Id": "1", "Arn": arn} | WAYS[way]])
    assert WAYS[way].items() <= events.list_targets_by_rule(Rule="rule")["Targets"][0].items()
    events.put_events(Entries=[{"Source": "jobs", "DetailType": "job", "Detail": json.dumps(DETAIL)}])
    body = json.loads(sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"])
    return "the detail" if body == DETAIL else "the whole event" if body["detail"] == DETAIL else body


for way in WAYS:
    found = seen(way)
    print(f"{way}: the queue gets {found}")
    assert found == EXPECTED[way]
PYTHON
