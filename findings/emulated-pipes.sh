#!/bin/bash
# Moto 5.2.5 and MiniStack 1.5.33 create an EventBridge pipe from one queue of SQS to another, and describe it as RUNNING, but
# move no message: it stays in the source, without an error in a response. Hurt: developers whose events reach a queue through
# a pipe: their test waits in vain, and they look for the fault in the filter or the template.
# Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-sqs.html
# Usage: findings/emulated-pipes.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33 'moto[sqs]==5.2.5' boto3==1.43.106
cat > pipe.py <<'PYTHON'
import contextlib, sys, time
import boto3

if len(sys.argv) > 1:
    name, address, running = "MiniStack", sys.argv[1], contextlib.nullcontext()
else:
    from moto import mock_aws

    name, address, running = "Moto", None, mock_aws()
with running:
    options = {"region_name": "eu-central-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    sqs, pipes = (boto3.client(service, endpoint_url=address, **options) for service in ["sqs", "pipes"])

    def queue(queue_name):
        url = sqs.create_queue(QueueName=queue_name)["QueueUrl"]
        return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    (jobs, source), (events, target) = queue("jobs"), queue("job-events")
    role = "arn:aws:iam::123456789012:role/pipe"
    pipes.create_pipe(Name="pipe", RoleArn=role, Source=source, Target=target, TargetParameters={"InputTemplate": "<$.body>"})
    sqs.send_message(QueueUrl=jobs, MessageBody='{"event": "job.completed"}')
    time.sleep(10)
    state = pipes.describe_pipe(Name="pipe")["CurrentState"]
    left, moved = (len(sqs.receive_message(QueueUrl=url).get("Messages", [])) for url in [jobs, events])
print(f"{name}: {state}, messages in the source: {left}, in the target: {moved}")
assert (state, left, moved) == ("RUNNING", 1, 0)
PYTHON
venv/bin/python pipe.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1,localhost venv/bin/python pipe.py "http://127.0.0.1:$port"
