#!/bin/bash
# Moto 5.2.5 accepts a message of SQS with a character that SQS does not allow, such as U+FFFF, and delivers it unchanged.
# SQS documents InvalidMessageContents, as MiniStack 1.5.33 answers. JSON allows U+FFFE and U+FFFF, and JavaScript's JSON.stringify
# writes them as they are; Python's json.dumps escapes them. Hurt: producers in Node.js that pass on text of others, whose
# tests pass, and whose message about one such job is rejected each time it is sent.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
# Usage: findings/moto-characters.sh. Needs Python 3.11 with pip, Node.js 20, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[sqs]==5.2.5' ministack==1.5.33 boto3==1.43.106
cat > send.py <<'PYTHON'
import contextlib, json, subprocess, sys
import boto3
from botocore.exceptions import ClientError

EVENT = {"job_id": "job-1", "error": "not a character: \uffff"}
by_node = subprocess.run(
    ["node", "--print", "JSON.stringify({job_id: 'job-1', error: 'not a character: \\uffff'})"],
    capture_output=True, check=True, text=True, encoding="utf-8",
).stdout.strip()
BODIES = {"json.dumps": json.dumps(EVENT), "JSON.stringify": by_node}
assert json.loads(by_node) == EVENT and "\uffff" in by_node

if len(sys.argv) > 1:
    name, address, running = "MiniStack", sys.argv[1], contextlib.nullcontext()
    expected = {"json.dumps": "delivered", "JSON.stringify": "InvalidMessageContents"}
else:
    from moto import mock_aws

    name, address, running = "Moto", None, mock_aws()
    expected = {"json.dumps": "delivered", "JSON.stringify": "delivered"}
with running:
    client = boto3.client(
        "sqs", "eu-central-1", endpoint_url=address, aws_access_key_id="test", aws_secret_access_key="test"
    )
    queue = client.create_queue(QueueName="queue")["QueueUrl"]
    for way, body in BODIES.items():
        try:
            client.send_message(QueueUrl=queue, MessageBody=body)
            [message] = client.receive_message(QueueUrl=queue)["Messages"]
            found = "delivered" if message["Body"] == body else message["Body"]
        except ClientError as error:
            found = error.response["Error"]["Code"]
        print(f"{name}, {way}: {found}")
        assert found == expected[way]
PYTHON
venv/bin/python send.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1,localhost venv/bin/python send.py "http://127.0.0.1:$port"
