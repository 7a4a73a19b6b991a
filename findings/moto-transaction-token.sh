#!/bin/bash
# Moto 5.2.5 executes a DynamoDB transaction again if it is repeated with its ClientRequestToken: a counter that a repeated
# call must raise once is raised twice. DynamoDB answers the repetition without effect, for ten minutes, and refuses the
# token for another transaction; Moto executes that one as well. Hurt: developers who make calls idempotent with the token
# and test this against Moto, where correct code counts twice.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
# Usage: findings/moto-transaction-token.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check \
  'moto[dynamodb]==5.2.5' py-partiql-parser==0.6.3 boto3==1.43.108 botocore==1.43.127
"$folder/python/bin/python" - <<'PYTHON'
import boto3
from moto import mock_aws


@mock_aws
def count(amounts):
    """A counter after transactions with the same token, each of which adds an amount."""
    client = boto3.client("dynamodb", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")
    key = {"AttributeName": "id"}
    client.create_table(
        TableName="t", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[key | {"AttributeType": "S"}], KeySchema=[key | {"KeyType": "HASH"}],
    )
    item = {"TableName": "t", "Key": {"id": {"S": "k"}}}
    for amount in amounts:
        update = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": amount}}}
        client.transact_write_items(ClientRequestToken="token-1", TransactItems=[{"Update": item | update}])
    return client.get_item(**item)["Item"]["n"]["N"]


for name, amounts, expected in [("the same transaction", ["1", "1"], "2"), ("another transaction", ["1", "5"], "6")]:
    found = count(amounts)
    print(f"the token for {name}: the counter is {found}; on AWS, it is 1")
    assert found == expected
PYTHON
