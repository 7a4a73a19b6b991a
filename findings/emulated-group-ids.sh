#!/bin/bash
# SNS and EventBridge pass a message group id on to a standard queue of SQS, so that its fair queues tell one customer's
# messages from another's. MiniStack 1.5.33 keeps the id in SNS's Publish, but loses it in PublishBatch and in a rule of
# EventBridge. Moto 5.2.5 keeps it in both calls of SNS, but a rule with such a target makes PutEvents raise a KeyError. Hurt:
# developers whose events reach a queue through SNS or EventBridge: a test cannot show that the id is missing, or right.
# Sources: https://docs.aws.amazon.com/sns/latest/api/API_PublishBatchRequestEntry.html and
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_SqsParameters.html
# Usage: findings/emulated-group-ids.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33 'moto[events,sns,sqs]==5.2.5' boto3==1.43.106
cat > groups.py <<'PYTHON'
import contextlib, json, sys, time
import boto3

if len(sys.argv) > 1:
    name, address, running = "MiniStack", sys.argv[1], contextlib.nullcontext()
    expected = {"Publish": "tenant", "PublishBatch": "none", "PutEvents": "none"}
else:
    from moto import mock_aws

    name, address, running = "Moto", None, mock_aws()
    expected = {"Publish": "tenant", "PublishBatch": "tenant", "PutEvents": "KeyError"}
with running:
    options = {"region_name": "eu-central-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    sqs, sns, events = (boto3.client(service, endpoint_url=address, **options) for service in ["sqs", "sns", "events"])
    url = sqs.create_queue(QueueName="job-events")["QueueUrl"]
    queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name="jobs")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue, Attributes={"RawMessageDelivery": "true"})
    events.put_rule(Name="rule", EventPattern=json.dumps({"source": ["jobs"]}))
    events.put_targets(Rule="rule", Targets=[{"Id": "1", "Arn": queue, "SqsParameters": {"MessageGroupId": "tenant"}}])
    entry = {"Id": "0", "Message": "a job", "MessageGroupId": "tenant"}
    ways = {
        "Publish": lambda: sns.publish(TopicArn=topic, Message="a job", MessageGroupId="tenant"),
        "PublishBatch": lambda: sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=[entry]),
        "PutEvents": lambda: events.put_events(Entries=[{"Source": "jobs", "DetailType": "job", "Detail": "{}"}]),
    }

    def group(way):
        """The group id of the message that a call sends, or the error."""
        try:
            ways[way]()
        except KeyError as error:
            return type(error).__name__
        time.sleep(1)
        [message] = sqs.receive_message(QueueUrl=url, AttributeNames=["MessageGroupId"])["Messages"]
        return message.get("Attributes", {}).get("MessageGroupId", "none")

    found = {way: group(way) for way in ways}
print(f"{name}: {', '.join(f'{way} {value}' for way, value in found.items())}")
assert found == expected, expected
PYTHON
venv/bin/python groups.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1,localhost venv/bin/python groups.py "http://127.0.0.1:$port"
