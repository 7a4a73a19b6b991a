#!/bin/bash
# Moto 5.2.5 fails at an `InputTemplate` of EventBridge that is a JSON object with a text variable outside quotes, the form
# in AWS's own example: put_events raises a JSONDecodeError of Moto's code instead of a response. The same variable works
# inside quotes, and an object works outside them; MiniStack 1.5.33 accepts all three. Hurt: developers who test a producer
# whose messages are made by a rule: a right template fails, and the quotes that make it pass turn numbers into text.
# Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_InputTransformer.html
# Usage: findings/moto-input-templates.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[events,sqs]==5.2.5' ministack==1.5.33 boto3==1.43.106
cat > templates.py <<'PYTHON'
import contextlib, json, sys
import boto3

DETAIL = {"tenant": "t", "result": {"answer": 42}}
PATHS = {name: f"$.detail.{name}" for name in DETAIL}
TEMPLATES = {"<tenant>": "t", '"<tenant>"': "t", "<result>": {"answer": 42}}


def seen(template, address):
    """The value that a queue gets for this variable in a JSON object."""
    options = {"region_name": "eu-central-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    events, sqs = (boto3.client(name, endpoint_url=address, **options) for name in ["events", "sqs"])
    queue = sqs.create_queue(QueueName=f"queue-{list(TEMPLATES).index(template)}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="rule", EventPattern=json.dumps({"source": ["jobs"]}))
    transformer = {"InputPathsMap": PATHS, "InputTemplate": f'{{"value": {template}}}'}
    events.put_targets(Rule="rule", Targets=[{"Id": "1", "Arn": arn, "InputTransformer": transformer}])
    try:
        events.put_events(Entries=[{"Source": "jobs", "DetailType": "job", "Detail": json.dumps(DETAIL)}])
    except json.JSONDecodeError as error:
        return type(error).__name__
    return json.loads(sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"])["value"]


if len(sys.argv) > 1:
    name, address, running = "MiniStack", sys.argv[1], contextlib.nullcontext
else:
    from moto import mock_aws as running

    name, address = "Moto", None
for template, expected in TEMPLATES.items():
    with running():
        found = seen(template, address)
    print(f'{name}: {{"value": {template}}}: {found}')
    assert found == ("JSONDecodeError" if (name, template) == ("Moto", "<tenant>") else expected)
PYTHON
venv/bin/python templates.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1,localhost venv/bin/python templates.py "http://127.0.0.1:$port"
