#!/bin/bash
# Moto 5.2.5 ignores the ClientRequestToken of a TransactWriteItems: a call that is repeated with the same token within
# DynamoDB's ten minutes adds to a counter again, and one with other content is carried out instead of refused
# (IdempotentParameterMismatchException). MiniStack 1.5.33 does both as documented. Hurt: developers who rely on the token
# when they repeat a call after a lost response: a test of that case fails with Moto, although the code is right.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
# Usage: findings/moto-transaction-tokens.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[dynamodb]==5.2.5' ministack==1.5.33 boto3==1.43.106
cat > repeat.py <<'PYTHON'
import contextlib, sys
import boto3

KEY = {"id": {"S": "k"}}


def seen(address):
    """The counter after a call and its repetition, and the result of a call with other content and the same token."""
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("dynamodb", "eu-central-1", endpoint_url=address, **credentials)
    attribute = {"AttributeName": "id"}
    client.create_table(
        TableName="table", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[attribute | {"AttributeType": "S"}], KeySchema=[attribute | {"KeyType": "HASH"}],
    )

    def add(number):
        values = {":n": {"N": number}}
        update = {"TableName": "table", "Key": KEY, "UpdateExpression": "ADD n :n", "ExpressionAttributeValues": values}
        client.transact_write_items(ClientRequestToken="token", TransactItems=[{"Update": update}])

    add("1")
    add("1")
    count = client.get_item(TableName="table", Key=KEY)["Item"]["n"]["N"]
    try:
        add("2")
        return count, "accepted"
    except client.exceptions.IdempotentParameterMismatchException:
        return count, "refused"


if len(sys.argv) > 1:
    address, running, expected = sys.argv[1], contextlib.nullcontext(), ("1", "refused")
else:
    from moto import mock_aws

    address, running, expected = None, mock_aws(), ("2", "accepted")
with running:
    result = seen(address)
print(f"{'Moto' if address is None else 'MiniStack'}: 1 was added twice with one token: {result[0]}; other content: {result[1]}")
assert result == expected, expected
PYTHON
venv/bin/python repeat.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1 venv/bin/python repeat.py "http://127.0.0.1:$port"
