#!/bin/bash
# Moto 5.2.5 has no LastEvaluatedKey in a page of DynamoDB's Query that the last items fill exactly. DynamoDB stops at the
# limit before it knows whether more follows, so it returns the key, and the next page is empty; MiniStack 1.5.33 does, too.
# Hurt: developers whose code takes the key for "there is more", such as a button that leads to an empty page, or a loop
# that reads the first item of each page: with Moto, a test of exactly one full page passes.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html
# Usage: findings/moto-last-page.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[dynamodb]==5.2.5' ministack==1.5.33 boto3==1.43.106
cat > page.py <<'PYTHON'
import contextlib, sys
import boto3


def seen(address):
    """Whether each page of two items, of four in all, has a key for the next page."""
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("dynamodb", "eu-central-1", endpoint_url=address, **credentials)
    keys = [("id", "HASH"), ("time", "RANGE")]
    client.create_table(
        TableName="events", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
    )
    for number in range(4):
        client.put_item(TableName="events", Item={"id": {"S": "k"}, "time": {"S": str(number)}})
    query = {
        "TableName": "events", "Limit": 2,
        "KeyConditionExpression": "id = :id", "ExpressionAttributeValues": {":id": {"S": "k"}},
    }
    pages = client.get_paginator("query").paginate(**query)
    return [(len(page["Items"]), "LastEvaluatedKey" in page) for page in pages]


if len(sys.argv) > 1:
    address, running, expected = sys.argv[1], contextlib.nullcontext(), [(2, True), (2, True), (0, False)]
else:
    from moto import mock_aws

    address, running, expected = None, mock_aws(), [(2, True), (2, False)]
with running:
    pages = seen(address)
print(f"{'Moto' if address is None else 'MiniStack'}: items and keys of the pages: {pages}")
assert pages == expected, expected
PYTHON
venv/bin/python page.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1 venv/bin/python page.py "http://127.0.0.1:$port"
