#!/bin/bash
# Moto 5.2.5 (py-partiql-parser 0.6.3) cannot insert with PartiQL if a value is a parameter: DynamoDB documents `?` for
# every value, and Moto accepts it in UPDATE and SELECT, but an INSERT raises a TypeError, which its server answers with
# HTTP 500 and a page that an SDK cannot parse. Literal values are inserted. Hurt: developers who insert conditionally
# in batches (BatchExecuteStatement is the only such call) and test against Moto; the error names neither INSERT nor `?`.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html
# Usage: findings/moto-inserts.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  'moto[dynamodb]==5.2.5' py-partiql-parser==0.6.3 boto3==1.43.108 botocore==1.43.127
"$folder/venv/bin/python" - <<'PYTHON'
import boto3
from moto import mock_aws

TEXT, NUMBER = {"S": "k"}, {"N": "1"}
UPDATE = {"Statement": """UPDATE "t" SET n = ? WHERE id = ?""", "Parameters": [{"N": "2"}, TEXT]}
SELECT = {"Statement": """SELECT * FROM "t" WHERE id = ?""", "Parameters": [TEXT]}
PARAMETERS = {"Statement": """INSERT INTO "t" VALUE {'id': ?, 'n': ?}""", "Parameters": [TEXT, NUMBER]}
LITERALS = {"Statement": """INSERT INTO "t" VALUE {'id': 'k', 'n': 1}"""}


@mock_aws
def executed(batched, is_filled, statement):
    """Executes a statement, and returns the table's items or the name of the error."""
    client = boto3.client("dynamodb", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")
    key = {"AttributeName": "id"}
    client.create_table(
        TableName="t", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[key | {"AttributeType": "S"}], KeySchema=[key | {"KeyType": "HASH"}],
    )
    if is_filled:
        client.put_item(TableName="t", Item={"id": TEXT, "n": NUMBER})
    try:
        if batched:
            client.batch_execute_statement(Statements=[statement])
        else:
            client.execute_statement(**statement)
    except Exception as error:
        return type(error).__name__
    return client.scan(TableName="t")["Items"]


item = [{"id": TEXT, "n": NUMBER}]
for batched in (False, True):
    for name, is_filled, statement, expected in (
        ("INSERT of literals", False, LITERALS, item),
        ("INSERT of parameters", False, PARAMETERS, "TypeError"),
        ("UPDATE with parameters", True, UPDATE, [{"id": TEXT, "n": {"N": "2"}}]),
        ("SELECT with parameters", True, SELECT, item),
    ):
        seen = executed(batched, is_filled, statement)
        print("batch" if batched else "single", name, "->", seen)
        assert seen == expected, expected
PYTHON
