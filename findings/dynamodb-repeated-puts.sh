#!/bin/bash
# If the connection breaks after DynamoDB has stored an item and before its response has arrived, AWS's SDKs send the PutItem
# again, also with the condition `attribute_not_exists`, which then finds the item that they wrote themselves. So boto3 1.44.8
# and @aws-sdk/client-dynamodb 3.1169.0, and with them PynamoDB 6.1.0, Dynamoose 4.2.0, ElectroDB 3.9.3 and dynamodb-toolbox
# 2.10.6, report a failed condition, as for an item of another request. Powertools for Python 3.37.0 takes its own record for
# that of another execution in progress, and refuses the event without running the handler, until the Lambda function's time
# would have ended. Hurt: receivers of webhooks that store each `webhook-id` with such a put and answer 200 to a duplicate: a
# new event looks like a duplicate and is lost. A random value in the item, compared with the item that
# `ReturnValuesOnConditionCheckFailure` returns, tells them apart; with a single attempt, the SDKs report the broken connection.
# Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html (conditional writes)
# Usage: findings/dynamodb-repeated-puts.sh. Needs Node.js 20, Python 3.11 with pip, and the registries of npm and PyPI. Fails
# if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --legacy-peer-deps @aws-sdk/client-dynamodb@3.1169.0 @aws-sdk/lib-dynamodb@3.1169.0 \
  dynamodb-toolbox@2.10.6 dynamoose@4.2.0 electrodb@3.9.3
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check aws-lambda-powertools==3.37.0 boto3==1.44.8 botocore==1.44.8 pynamodb==6.1.0
port=$((20000 + $$ % 12000))
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=eu-central-1 AWS_REGION=eu-central-1 NO_PROXY=127.0.0.1
export ADDRESS=http://127.0.0.1:$port

# A table in memory. It stores the first PutItem with an id, and closes the connection instead of sending a response.
cat > table.py <<'PYTHON'
import http.server, json, sys

KEYS = {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}
items = {}


class Table(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["x-amz-target"].endswith("DescribeTable"):
            return self.respond(200, {"Table": {"TableName": "event", "TableStatus": "ACTIVE", **KEYS}})
        key = call["Item"]["id"]["S"]
        if key not in items:
            items[key] = call["Item"]
            self.close_connection = True
            return
        error = {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}
        if call.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
            error["Item"] = items[key]
        self.respond(400, error)

    def respond(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Table).serve_forever()
PYTHON
python3 table.py "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

cat > put.mjs <<'NODE'
import { DynamoDB, DynamoDBClient, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import dynamoose from "dynamoose";
import { Entity as Electro } from "electrodb";
import { Entity, PutItemCommand as Put, Table, item, string } from "dynamodb-toolbox";

const options = { endpoint: process.env.ADDRESS };
const client = new DynamoDBClient(options);
const command = (id) => new PutItemCommand({ TableName: "event", Item: { id: { S: id } }, ConditionExpression: "attribute_not_exists(id)" });
async function show(name, call) {
  const result = await call().then(() => "stored", (error) => (error.cause?.name ?? error.name));
  console.log(`${name}: ${result}`);
}

await show("SDK for JavaScript", () => client.send(command("msg_1")));
await show("SDK for JavaScript, one attempt", () => new DynamoDBClient({ ...options, maxAttempts: 1 }).send(command("msg_2")));
dynamoose.aws.ddb.set(new DynamoDB(options));
const Model = dynamoose.model("event", { id: String }, { create: false, waitForActive: false });
await show("Dynamoose", () => Model.create({ id: "msg_3" }));
const electro = new Electro({
  model: { entity: "event", version: "1", service: "receiver" },
  attributes: { id: { type: "string" } },
  indexes: { primary: { pk: { field: "id", composite: ["id"] } } },
}, { client, table: "event" });
await show("ElectroDB", () => electro.create({ id: "msg_4" }).go());
const table = new Table({ name: "event", partitionKey: { name: "id", type: "string" }, documentClient: DynamoDBDocumentClient.from(client) });
const event = new Entity({ name: "event", table, schema: item({ id: string().key() }) });
await show("dynamodb-toolbox", () =>
  event.build(Put).item({ id: "msg_5" }).options({ condition: { attr: "id", exists: false } }).send());
NODE
cat > put.py <<'PYTHON'
import os, types, uuid
import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from botocore.config import Config
from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model

client = boto3.client("dynamodb", endpoint_url=os.environ["ADDRESS"])
once = boto3.client("dynamodb", endpoint_url=os.environ["ADDRESS"], config=Config(retries={"total_max_attempts": 1}))


class Event(Model):
    class Meta:
        table_name, region, host = "event", "eu-central-1", os.environ["ADDRESS"]

    id = UnicodeAttribute(hash_key=True)


def put(client, identifier, attempt="-"):
    item = {"id": {"S": identifier}, "attempt": {"S": attempt}}
    options = {"ConditionExpression": "attribute_not_exists(id)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    client.put_item(TableName="event", Item=item, **options)


def put_own(identifier):
    attempt = str(uuid.uuid4())
    try:
        put(client, identifier, attempt)
    except client.exceptions.ConditionalCheckFailedException as error:
        if error.response["Item"]["attempt"]["S"] != attempt:
            raise


def show(name, call):
    try:
        call()
        print(f"{name}: stored")
    except Exception as error:
        print(f"{name}: {getattr(error, 'cause_response_code', None) or type(error).__name__}")


@idempotent(persistence_store=DynamoDBPersistenceLayer("event", boto3_client=client), config=IdempotencyConfig(event_key_jmespath="id"))
def handler(event, context):
    print("the handler runs")


show("boto3", lambda: put(client, "msg_11"))
show("boto3, one attempt", lambda: put(once, "msg_12"))
show("boto3, with a value of this attempt", lambda: put_own("msg_13"))
show("PynamoDB", lambda: Event("msg_14").save(Event.id.does_not_exist()))
context = types.SimpleNamespace(get_remaining_time_in_millis=lambda: 30000)
show("Powertools", lambda: handler({"id": "msg_15"}, context))
show("Powertools, the retry", lambda: handler({"id": "msg_15"}, context))
PYTHON
seen=$(
  node --no-warnings put.mjs
  python/bin/python put.py
)
echo "$seen"
[ "$seen" = "SDK for JavaScript: ConditionalCheckFailedException
SDK for JavaScript, one attempt: TimeoutError
Dynamoose: ConditionalCheckFailedException
ElectroDB: ConditionalCheckFailedException
dynamodb-toolbox: ConditionalCheckFailedException
boto3: ConditionalCheckFailedException
boto3, one attempt: ConnectionClosedError
boto3, with a value of this attempt: stored
PynamoDB: ConditionalCheckFailedException
Powertools: IdempotencyAlreadyInProgressError
Powertools, the retry: IdempotencyAlreadyInProgressError" ]
