#!/bin/bash
# A consumer of SQS that is slower than the visibility timeout fares differently in each emulator. Moto 5.2.5 deletes the
# message with the outdated receipt handle of the first receive, while another consumer has it; MiniStack 1.5.33 rejects that
# handle; SQS documents a success after which the message may stay. Both emulators also let such a consumer prolong its
# timeout, which hides the message again; SQS documents MessageNotInflight. Hurt: developers whose heartbeats or deletions
# come too late: their tests pass, and in AWS a message is handled twice.
# Sources: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html and
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
# Usage: findings/sqs-late-consumers.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[sqs]==5.2.5' ministack==1.5.33 boto3==1.43.106
cat > late.py <<'PYTHON'
import contextlib, sys, time
import boto3
from botocore.exceptions import ClientError


def code(call, **fields):
    try:
        call(**fields)
        return "accepted"
    except ClientError as error:
        return error.response["Error"]["Code"]


def seen(address):
    """The results of a late deletion and of a late extension, each with the number of messages that are left to receive."""
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("sqs", "eu-central-1", endpoint_url=address, **credentials)
    results = []
    for name in ["deletion", "extension"]:
        url = client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody="a job")
        [message] = client.receive_message(QueueUrl=url)["Messages"]
        time.sleep(1.5)
        late = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
        if name == "deletion":
            # Another consumer has received the message in the meantime, but not finished it.
            assert client.receive_message(QueueUrl=url)["Messages"]
            result = code(client.delete_message, **late)
            time.sleep(1.5)
        else:
            result = code(client.change_message_visibility, **late, VisibilityTimeout=60)
        results.append((result, len(client.receive_message(QueueUrl=url).get("Messages", []))))
    return results


if len(sys.argv) > 1:
    address, running, expected = sys.argv[1], contextlib.nullcontext(), [("ReceiptHandleIsInvalid", 1), ("accepted", 0)]
else:
    from moto import mock_aws

    address, running, expected = None, mock_aws(), [("accepted", 0), ("accepted", 0)]
with running:
    results = seen(address)
print(f"{'Moto' if address is None else 'MiniStack'}: late deletion, and messages left: {results[0]}; late extension: {results[1]}")
assert results == expected, expected
PYTHON
venv/bin/python late.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1,localhost venv/bin/python late.py "http://127.0.0.1:$port"
