#!/bin/bash
# Moto 5.2.5 counts the characters of a message of SQS or SNS, not its bytes, and dynalite 4.0.0 those of an item of
# DynamoDB: a text of 600,000 "é", which is 1.2 MB, passes the limit of 1 MiB. Neither Moto nor MiniStack 1.5.33 counts
# the attributes of a message of SQS, as AWS does, or refuses an eleventh one, and neither has a limit for PutEvents of
# EventBridge: 1.2 MB in one entry and 2 MB in ten are accepted. Moto also accepts an empty message. AWS documents that
# it refuses each of these calls. MiniStack counts the bytes of SQS and SNS, Moto those of DynamoDB, and all refuse what
# is too long in ASCII. Hurt: producers of events with large results, above all in other languages than English: their
# tests pass, and SQS refuses the event, or a batch of ten. In tests, compare the length of the encoded text and of its
# attributes with the limit.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
# Usage: findings/emulated-sizes.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and npm. Fails
# if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33 'moto[dynamodb,events,sns,sqs]==5.2.5' \
  boto3==1.43.106
npm install --silent --no-audit --no-fund dynalite@4.0.0
cat > sizes.py <<'PYTHON'
import contextlib, json, sys
import boto3

name, address = sys.argv[1:]
if name == "Moto":
    import moto

    address, running = None, moto.mock_aws()
else:
    running = contextlib.nullcontext()
options = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "endpoint_url": address}
ATTRIBUTE = {"DataType": "String", "StringValue": "x" * 900}
MIB = 1024 * 1024
ASCII, ACCENTS = "an item, 410 KB in ASCII", "an item, 500 KB of é"


def attributes(count):
    return {"MessageAttributes": {f"attribute{number}": ATTRIBUTE for number in range(count)}}


def entry(size):
    return {"Source": "jobs", "DetailType": "job", "Detail": json.dumps({"result": "x" * size})}


def batch(text, **more):
    return [{"Id": str(number), "MessageBody": text, **more} for number in range(10)]


found = {}
with running:
    client = lambda service: boto3.client(service, "eu-central-1", **options)
    if name != "dynalite":
        sqs, sns, events = client("sqs"), client("sns"), client("events")
        queue = sqs.create_queue(QueueName="events")["QueueUrl"]
        topic = sns.create_topic(Name="events")["TopicArn"]
        calls = {
            "SQS, 1 MiB and 1 in ASCII": lambda: sqs.send_message(QueueUrl=queue, MessageBody="x" * (MIB + 1)),
            "SQS, 1.2 MB of é": lambda: sqs.send_message(QueueUrl=queue, MessageBody="é" * 600_000),
            "SQS, ten times 120 KB of é": lambda: sqs.send_message_batch(QueueUrl=queue, Entries=batch("é" * 60_000)),
            "SQS, with attributes": lambda: sqs.send_message(QueueUrl=queue, MessageBody="x" * MIB, **attributes(9)),
            "SQS, eleven attributes": lambda: sqs.send_message(QueueUrl=queue, MessageBody="x", **attributes(11)),
            "SQS, empty": lambda: sqs.send_message(QueueUrl=queue, MessageBody=""),
            "SNS, 256 KiB and 1 in ASCII": lambda: sns.publish(TopicArn=topic, Message="x" * (MIB // 4 + 1)),
            "SNS, 300 KB of é": lambda: sns.publish(TopicArn=topic, Message="é" * 150_000),
            "PutEvents, 1.2 MB": lambda: events.put_events(Entries=[entry(1_200_000)]),
            "PutEvents, ten times 200 KB": lambda: events.put_events(Entries=[entry(200_000)] * 10),
        }
    if name != "MiniStack":
        dynamodb = client("dynamodb")
        dynamodb.create_table(
            TableName="events", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        dynamodb.get_waiter("table_exists").wait(TableName="events", WaiterConfig={"Delay": 1})
        put = lambda text: dynamodb.put_item(TableName="events", Item={"id": {"S": "1"}, "body": {"S": text}})
        items = {ASCII: lambda: put("x" * 410_000), ACCENTS: lambda: put("é" * 250_000)}
        calls = items if name == "dynalite" else calls | items
    for call, run in calls.items():
        try:
            result = run()
            found[call] = "refused" if result.get("FailedEntryCount") or result.get("Failed") else "accepted"
        except boto3.exceptions.botocore.exceptions.ClientError:
            found[call] = "refused"
for call, state in found.items():
    print(f"{name}: {call}: {state}")
REFUSED = {
    "Moto": ["SQS, 1 MiB and 1 in ASCII", "SNS, 256 KiB and 1 in ASCII", ASCII, ACCENTS],
    "MiniStack": [*list(calls)[:3], "SQS, empty", "SNS, 256 KiB and 1 in ASCII", "SNS, 300 KB of é"],
    "dynalite": [ASCII],
}
sys.exit({call for call, state in found.items() if state == "refused"} != set(REFUSED[name]))
PYTHON
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
servers=$!
node node_modules/dynalite/cli.js --host 127.0.0.1 --port $((port + 1)) --createTableMs 5 > log2 2>&1 &
servers="$servers $!"
export NO_PROXY=127.0.0.1,localhost
venv/bin/python sizes.py Moto ""
for number in 0 1; do
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port + number))") 2> /dev/null && break; sleep 0.2; done
done
venv/bin/python sizes.py MiniStack "http://127.0.0.1:$port"
venv/bin/python sizes.py dynalite "http://127.0.0.1:$((port + 1))"
