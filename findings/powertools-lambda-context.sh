#!/bin/bash
# Powertools for AWS Lambda judges an event in progress wrongly if its idempotency wraps a function that is not the handler, as
# with the batch processor, and `register_lambda_context` is not called on the configuration in each invocation. 3.37.0 for Python
# with DynamoDB refuses an event for an hour with IdempotencyAlreadyInProgressError if the function timed out while it processed
# it; registered, or with `idempotent` on the handler, the next attempt runs. 2.35.0 for TypeScript with `CachePersistenceLayer`
# (Redis, Valkey) does the opposite: it takes an event in progress for an abandoned one, and processes a duplicate at the same
# time. Only a warning asks for the call. Hurt: receivers of webhooks that process each record of a batch from SQS once: an event
# that was too slow once fails at each retry, and reaches the dead-letter queue; or two copies of an event are processed.
# Sources: https://github.com/awslabs/aws-lambda-powertools-python/pull/1387, `CachePersistenceLayer.js` of the package
# Usage: findings/powertools-lambda-context.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and npm.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.43.106 aws-lambda-powertools==3.37.0
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund @aws-lambda-powertools/idempotency@2.35.0 \
  @aws-lambda-powertools/jmespath@2.35.0 @aws-lambda-powertools/commons@2.35.0
cat > receiver.py <<'PYTHON'
import os, threading, time
from types import SimpleNamespace

os.environ |= dict(AWS_DEFAULT_REGION="eu-central-1", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer, IdempotencyConfig, idempotent, idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from moto import mock_aws

CONTEXT = SimpleNamespace(function_name="hook", get_remaining_time_in_millis=lambda: 1000)


def second_attempt(name):
    """The result of the attempt after one that did not end in its second."""
    config = IdempotencyConfig("id")
    store = DynamoDBPersistenceLayer("events")
    begun = threading.Event()

    def work():
        if not begun.is_set():
            begun.set()
            time.sleep(3600)

    @idempotent_function(data_keyword_argument="event", persistence_store=store, config=config)
    def process(event):
        work()

    @idempotent(persistence_store=store, config=config)
    def decorated(event, context):
        work()

    def handler(event, context):
        if name == "idempotent":
            return decorated(event, context)
        if name == "registered":
            config.register_lambda_context(context)
        return process(event=event)

    event = {"id": name}
    threading.Thread(target=handler, args=(event, CONTEXT), daemon=True).start()
    begun.wait()
    time.sleep(1.5)
    try:
        handler(event, CONTEXT)
        return "processed"
    except IdempotencyAlreadyInProgressError as error:
        return type(error).__name__


with mock_aws():
    boto3.client("dynamodb").create_table(
        TableName="events", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    for name in ["not registered", "registered", "idempotent"]:
        print(f"Python and DynamoDB, {name}: the attempt after a timeout: {second_attempt(name)}", flush=True)
os._exit(0)
PYTHON
cat > receiver.mjs <<'NODE'
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";

const items = new Map();
const client = {
  get: async (key) => items.get(key) ?? null,
  set: async (key, value, options) => (options?.NX && items.has(key) ? null : (items.set(key, value), "OK")),
  del: async ([key]) => Number(items.delete(key)),
};
const context = { functionName: "hook", getRemainingTimeInMillis: () => 10_000 };
for (const name of ["not registered", "registered"]) {
  const config = new IdempotencyConfig({ eventKeyJmesPath: "id" });
  const work = async () => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    return "processed";
  };
  const processed = makeIdempotent(work, { persistenceStore: new CachePersistenceLayer({ client }), config });
  const handler = async (event) => {
    if (name === "registered") config.registerLambdaContext(context);
    return processed(event);
  };
  const attempts = [handler({ id: name })];
  await new Promise((resolve) => setTimeout(resolve, 100));
  attempts.push(handler({ id: name }));
  const seen = await Promise.all(attempts.map((attempt) => attempt.catch((error) => error.name)));
  console.log(`TypeScript and a cache, ${name}: two attempts at the same time: ${seen.join(", ")}`);
}
NODE
seen=$(venv/bin/python -W ignore receiver.py && node receiver.mjs 2> warnings)
echo "$seen"
[ "$seen" = "Python and DynamoDB, not registered: the attempt after a timeout: IdempotencyAlreadyInProgressError
Python and DynamoDB, registered: the attempt after a timeout: processed
Python and DynamoDB, idempotent: the attempt after a timeout: processed
TypeScript and a cache, not registered: two attempts at the same time: processed, processed
TypeScript and a cache, registered: two attempts at the same time: processed, IdempotencyAlreadyInProgressError" ]
