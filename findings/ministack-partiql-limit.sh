#!/bin/bash
# MiniStack 1.5.33 ignores the Limit of DynamoDB's ExecuteStatement on a table, though it obeys it on an index: it returns
# all items and no NextToken. DynamoDB stops after as many items and returns a NextToken, and MiniStack itself does so for
# Query. Hurt: developers whose code reads a PartiQL result in pages: on the emulator, it never sees a second page, and a
# function that relies on small pages gets everything at once.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ExecuteStatement.html
# Usage: findings/ministack-partiql-limit.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33 boto3==1.43.106
cat > limit.py <<'PYTHON'
import sys
import boto3

credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
client = boto3.client("dynamodb", "eu-central-1", endpoint_url=sys.argv[1], **credentials)
keys = [("id", "HASH"), ("time", "RANGE")]
client.create_table(
    TableName="events", BillingMode="PAY_PER_REQUEST",
    AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
    KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
)
for number in range(5):
    client.put_item(TableName="events", Item={"id": {"S": "k"}, "time": {"S": str(number)}})
value = {"S": "k"}
query = client.query(
    TableName="events", KeyConditionExpression="id = :id", ExpressionAttributeValues={":id": value}, Limit=2
)
statement = client.execute_statement(Statement='SELECT * FROM "events" WHERE id = ?', Parameters=[value], Limit=2)
by_query = len(query["Items"]), "LastEvaluatedKey" in query
by_statement = len(statement["Items"]), "NextToken" in statement or "LastEvaluatedKey" in statement
print(f"items, and whether there are more: Query {by_query}, ExecuteStatement {by_statement}")
assert (by_query, by_statement) == ((2, True), (5, False))
PYTHON
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1 venv/bin/python limit.py "http://127.0.0.1:$port"
