#!/bin/bash
# Powertools for AWS Lambda, 3.37.0 for Python and 2.35.0 for TypeScript, stores every response that an idempotent handler
# returns, even one with `statusCode` 500 or 503: each repeat within the hour, the default, gets the stored failure, and the
# handler does not run. So does a `ServiceUnavailableError` that a route of its event handler raises, because the resolver
# turns it into a response. Only an error that leaves the handler removes the record. Hurt: receivers of webhooks that use
# `webhook-id` as the key, so that no event is processed twice: after a database was away for a second, the sender's retries
# fail as well, although the database is back.
# Usage: findings/powertools-stored-failures.sh. Needs Python 3.11 with pip, Node.js 20, PyPI and npm's registry. Fails if
# the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.43.106 \
  aws-lambda-powertools==3.37.0
npm install --silent --no-audit --no-fund @aws-lambda-powertools/idempotency@2.35.0 \
  @aws-lambda-powertools/jmespath@2.35.0 @aws-lambda-powertools/commons@2.35.0
cat > receiver.py <<'PYTHON'
import os
from types import SimpleNamespace

os.environ |= dict(AWS_DEFAULT_REGION="eu-central-1", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
import boto3
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import ServiceUnavailableError
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from moto import mock_aws

CONTEXT = SimpleNamespace(function_name="hook", get_remaining_time_in_millis=lambda: 10_000)
ROUTE = {"http": {"method": "POST", "path": "/hook"}, "stage": "$default"}


def statuses(key, handle):
    """The statuses of three attempts of one event, and how often the handler ran. Its first run fails."""
    runs = 0

    @idempotent(persistence_store=DynamoDBPersistenceLayer("events"), config=IdempotencyConfig('headers."webhook-id"'))
    def handler(event, context):
        nonlocal runs
        runs += 1
        return handle(event, context, runs == 1)

    seen = []
    for _ in range(3):
        event = {"headers": {"webhook-id": key}, "requestContext": ROUTE, "rawPath": "/hook", "body": "{}"}
        try:
            seen.append(int(handler(event, CONTEXT)["statusCode"]))
        except ConnectionError:
            seen.append("raised")
    return seen, runs


def returned(event, context, fails):
    return {"statusCode": 500 if fails else 204}


def routed(event, context, fails):
    app = APIGatewayHttpResolver()

    @app.post("/hook")
    def hook():
        if fails:
            raise ServiceUnavailableError("The database is away")
        return Response(status_code=204)

    return app.resolve(event, context)


def raised(event, context, fails):
    if fails:
        raise ConnectionError("The database is away")
    return {"statusCode": 204}


with mock_aws():
    boto3.client("dynamodb").create_table(
        TableName="events", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    for handle, expected in [
        (returned, ([500, 500, 500], 1)), (routed, ([503, 503, 503], 1)), (raised, (["raised", 204, 204], 2)),
    ]:
        seen = statuses(handle.__name__, handle)
        print(f"Python, {handle.__name__}: statuses of three attempts and runs: {seen}")
        assert seen == expected
PYTHON
venv/bin/python receiver.py
cat > receiver.mjs <<'NODE'
import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";

const items = new Map();
const client = {
  get: async (key) => items.get(key) ?? null,
  set: async (key, value, options) => (options?.NX && items.has(key) ? null : (items.set(key, value), "OK")),
  del: async ([key]) => Number(items.delete(key)),
};
let runs = 0;
const handler = makeIdempotent(async () => ({ statusCode: (runs += 1) === 1 ? 500 : 204 }), {
  persistenceStore: new CachePersistenceLayer({ client }),
  config: new IdempotencyConfig({ eventKeyJmesPath: 'headers."webhook-id"' }),
});
const context = { functionName: "hook", getRemainingTimeInMillis: () => 10_000 };
const seen = [];
for (let attempt = 0; attempt < 3; attempt++) {
  seen.push((await handler({ headers: { "webhook-id": "msg_1" } }, context)).statusCode);
}
console.log(`TypeScript, returned: statuses of three attempts: ${seen}; runs: ${runs}`);
process.exit(`${seen}` === "500,500,500" && runs === 1 ? 0 : 1);
NODE
node receiver.mjs
