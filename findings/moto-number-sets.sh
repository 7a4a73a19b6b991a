#!/bin/bash
# Moto 5.2.5 compares the members of a DynamoDB number set as text, and all other numbers as numbers: it stores 1 and 1.0 in one
# set, which DynamoDB refuses as duplicates, and removing 1 from a set with 1.0 removes nothing, without an error. Numbers
# are also read back as written, 1.50, where DynamoDB returns 1.5. Hurt: developers who test code against Moto whose numbers
# come from floats in one place and from integers in another.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
# Usage: findings/moto-number-sets.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check \
  'moto[dynamodb]==5.2.5' py-partiql-parser==0.6.3 boto3==1.43.108 botocore==1.43.127
"$folder/python/bin/python" - <<'PYTHON'
import boto3
from moto import mock_aws

KEY = {"id": {"S": "k"}}


@mock_aws
def stored(value, expression=None, operand=None, condition=None):
    """An attribute after a put and an update."""
    client = boto3.client("dynamodb", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")
    key = {"AttributeName": "id"}
    client.create_table(
        TableName="t", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[key | {"AttributeType": "S"}], KeySchema=[key | {"KeyType": "HASH"}],
    )
    client.put_item(TableName="t", Item=KEY | {"n": value})
    if expression:
        options = {"ConditionExpression": condition} if condition else {}
        options |= {"UpdateExpression": expression, "ExpressionAttributeValues": {":n": operand}}
        client.update_item(TableName="t", Key=KEY, **options)
    return client.get_item(TableName="t", Key=KEY)["Item"].get("n")


for name, arguments, expected in [
    ("1.50, read back", [{"N": "1.50"}], {"N": "1.50"}),
    ("1.50, set to 1.5 on the condition that it equals 1.5", [{"N": "1.50"}, "SET n = :n", {"N": "1.5"}, "n = :n"], {"N": "1.5"}),
    ("the set 1, 1.0", [{"NS": ["1", "1.0"]}], {"NS": ["1", "1.0"]}),
    ("the set 1.0, 2 without 1", [{"NS": ["1.0", "2"]}, "DELETE n :n", {"NS": ["1"]}], {"NS": ["1.0", "2"]}),
]:
    seen = stored(*arguments)
    print(f"{name}: {seen}")
    assert seen == expected
PYTHON
