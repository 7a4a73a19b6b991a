#!/bin/bash
# PyPI's dynamodb-json 1.4.2, among the 2,500 most downloaded packages, reads an object in a DynamoDB item as a single
# value if it has a member with the name of a type, such as `S`, `N`, `M`, `L` or `B`: it looks for these names in every
# object of the text. So the result `{"S": 3, "M": 5, "L": 2}` of a job becomes the text "3", without an error, also
# from an item that the package has written itself. npm's dynamodb-data-types 4.0.1, with 73,000 downloads a month,
# writes a list of texts as a set, which DynamoDB returns in any order, and rejects if a text occurs twice or the list
# is empty; it reads the number 9007199254740993 as 9007199254740992. boto3 1.43.106, dynojson 0.2.0 and
# @aws-sdk/util-dynamodb 3.996.9 give back what was stored. dynalite 4.0.0 stands in for DynamoDB. Hurt: receivers of
# webhooks that store events in DynamoDB, or read its streams or exports: results shrink to one value, and events with
# such lists are not stored. Convert with the SDK, or store the event as one text.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
# Usage: findings/dynamodb-json-members.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and npm.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check boto3==1.43.106 dynamodb-json==1.4.2 dynojson==0.2.0
npm install --silent --no-audit --no-fund @aws-sdk/util-dynamodb@3.996.9 dynalite@4.0.0 dynamodb-data-types@4.0.1
port=$((20000 + $$ % 12000))
node node_modules/dynalite/cli.js --host 127.0.0.1 --port "$port" --createTableMs 5 > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
# Reads lines with the name of a converter and data, and prints the data as an item, and an item as data.
cat > convert.cjs <<'NODE'
const { AttributeValue } = require("dynamodb-data-types");
const { marshall, unmarshall } = require("@aws-sdk/util-dynamodb");
const [name, way, text] = process.argv.slice(2);
const [write, read] = name === "aws" ? [marshall, unmarshall] : [AttributeValue.wrap, AttributeValue.unwrap];
const result = (way === "write" ? write : read)(JSON.parse(text));
console.log(JSON.stringify(result, (_, value) => (typeof value === "bigint" ? `${value}` : value)));
NODE
cat > check.py <<'PYTHON'
import functools, json, subprocess, sys
from decimal import Decimal
import boto3, dynojson
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from dynamodb_json import json_util

options = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "endpoint_url": sys.argv[1]}
client = boto3.client("dynamodb", "eu-central-1", **options)
client.create_table(
    TableName="events", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
)
client.get_waiter("table_exists").wait(TableName="events")


def node(name, way, data):
    return json.loads(subprocess.check_output(["node", "convert.cjs", name, way, json.dumps(data)], text=True))


def as_boto3_writes(data):
    return TypeSerializer().serialize(data)["M"]


CONVERTERS = {
    "boto3": (as_boto3_writes, lambda item: TypeDeserializer().deserialize({"M": item})),
    "dynamodb-json": (lambda data: json.loads(json_util.dumps(data)), lambda item: json_util.loads(json.dumps(item))),
    "dynojson": (as_boto3_writes, lambda item: json.loads(dynojson.unmarshall(json.dumps(item)))),
    "@aws-sdk/util-dynamodb": (functools.partial(node, "aws", "write"), functools.partial(node, "aws", "read")),
    "dynamodb-data-types": (functools.partial(node, "types", "write"), functools.partial(node, "types", "read")),
}
RESULTS = [{"S": 3, "M": 5, "L": 2}, {"M": {"a": 1}, "b": 2}, ["b", "a"], ["a", "a"], []]
LOST = {
    "dynamodb-json": ["3", {"a": 1}],
    "dynamodb-data-types": [*RESULTS[:3], "ValidationException", "ValidationException"],
}


def stored(write, read, result):
    """What a receiver reads from an item with the result."""
    try:
        client.put_item(TableName="events", Item=write({"id": "job-7", "result": result}))
    except client.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    item = client.get_item(TableName="events", Key={"id": {"S": "job-7"}})["Item"]
    return json.loads(json.dumps(read(item)["result"], default=int))


changed = False
for name, (write, read) in CONVERTERS.items():
    found = [stored(write, read, result) for result in RESULTS]
    print(f"{name}: {', '.join(f'{json.dumps(a)} -> {json.dumps(b)}' for a, b in zip(RESULTS, found))}")
    expected = LOST.get(name, [])
    changed |= found != expected + RESULTS[len(expected) :]
number = {"id": {"N": "9007199254740993"}}
found = {name: int(read(number)["id"]) for name, (_, read) in CONVERTERS.items()}
print(f"9007199254740993 is read as {found}")
changed |= [name for name, read in found.items() if read != 9007199254740993] != ["dynamodb-data-types"]
sys.exit(changed)
PYTHON
NO_PROXY=127.0.0.1 venv/bin/python check.py "http://127.0.0.1:$port"
