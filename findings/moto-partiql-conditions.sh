#!/bin/bash
# Moto 5.2.5 (py-partiql-parser 0.6.3) answers PartiQL statements of DynamoDB wrongly without an error. An INSERT of a
# key that exists replaces the item, where DynamoDB raises a DuplicateItemException. An UPDATE or DELETE whose condition
# does not hold succeeds, where DynamoDB raises a ConditionalCheckFailedException. In a SELECT, `<>` returns exactly the
# items that it should leave out, IN and BETWEEN return those with the first value only, and NOT and a condition without
# spaces around its `=` return none. Its parser splits the condition at white space and compares the columns for
# equality only. MiniStack 1.5.33 answers all of them like DynamoDB, and so does Moto if the same condition is given to
# PutItem, UpdateItem and Query. Hurt: receivers of webhooks that insert the id of each event with PartiQL to find
# duplicates, or claim a stored event with a conditional UPDATE: against Moto, each duplicate is stored as new, and two
# workers get the same event.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html
# Usage: findings/moto-partiql-conditions.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33 'moto[dynamodb]==5.2.5' \
  py-partiql-parser==0.6.3 boto3==1.43.106
cat > statements.py <<'PYTHON'
import contextlib, sys
import boto3

if len(sys.argv) > 1:
    name, address, running = "MiniStack", sys.argv[1], contextlib.nullcontext()
else:
    import moto

    name, address, running = "Moto", None, moto.mock_aws()
S = lambda text: {"S": text}
EVENTS = {"1": "taken", "2": "new", "3": "new"}
SELECT = "SELECT id FROM events WHERE "
STATEMENTS = [
    ("a known id", "INSERT INTO events VALUE {'id': '1', 'state': 'new'}"),
    ("a new id", "INSERT INTO events VALUE {'id': '4', 'state': 'new'}"),
    ("the condition holds", "UPDATE events SET worker = 'b' WHERE id = '2' AND state = 'new'"),
    ("it does not hold", "UPDATE events SET worker = 'b' WHERE id = '1' AND state = 'new'"),
    ("it does not hold", "DELETE FROM events WHERE id = '2' AND state = 'taken'"),
    ("1", SELECT + "state = 'taken'"),
    ("2 3", SELECT + "state <> 'taken'"),
    ("2 3", SELECT + "NOT state = 'taken'"),
    ("1 2", SELECT + "id IN ['1', '2']"),
    ("1 2", SELECT + "id BETWEEN '1' AND '2'"),
    ("1", SELECT + "state='taken' AND id='1'"),
]


def outcome(call, *arguments, **options):
    try:
        result = call(*arguments, **options)
    except client.exceptions.ClientError as error:
        return error.response["Error"]["Code"].removesuffix("Exception")
    return " ".join(sorted(item["id"]["S"] for item in result.get("Items", []))) or "empty"


with running:
    options = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "endpoint_url": address}
    client = boto3.client("dynamodb", "eu-central-1", **options)
    client.create_table(
        TableName="events", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )

    def store():
        for number in client.scan(TableName="events")["Items"]:
            client.delete_item(TableName="events", Key={"id": number["id"]})
        for number, state in EVENTS.items():
            client.put_item(TableName="events", Item={"id": S(number), "state": S(state)})

    found = []
    for expected, statement in STATEMENTS:
        store()
        found.append(outcome(client.execute_statement, Statement=statement))
        if not statement.startswith("SELECT"):
            stored = client.scan(TableName="events")["Items"]
            states = {item["id"]["S"]: item["state"]["S"] + item.get("worker", S(""))["S"] for item in stored}
            found[-1] += ", unchanged" if states == EVENTS else ", changed"
        print(f"{name}: {statement} ({expected}): {found[-1]}")
    store()
    unequal = {"ExpressionAttributeNames": {"#s": "state"}, "ExpressionAttributeValues": {":s": S("taken")}}
    found.append(outcome(client.scan, TableName="events", FilterExpression="#s <> :s", **unequal))
    known = {"Item": {"id": S("1")}, "ConditionExpression": "attribute_not_exists(id)"}
    found.append(outcome(client.put_item, TableName="events", **known))
    print(f"{name}, without PartiQL: a filter with <>: {found[-2]}; a conditional PutItem of a known id: {found[-1]}")
without = ["2 3", "ConditionalCheckFailed"]
if name == "Moto":
    changed = ["empty, changed"] * 3 + ["empty, unchanged"] * 2
    sys.exit(found != [*changed, "1", "1", "empty", "1", "1", "empty", *without])
failed = "ConditionalCheckFailed, unchanged"
changed = ["DuplicateItem, unchanged", "empty, changed", "empty, changed", failed, failed]
sys.exit(found != [*changed, "1", "2 3", "2 3", "1 2", "1 2", "1", *without])
PYTHON
venv/bin/python statements.py
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1,localhost venv/bin/python statements.py "http://127.0.0.1:$port"
