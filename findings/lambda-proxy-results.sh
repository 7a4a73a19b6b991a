#!/bin/bash
# Powertools for AWS Lambda 3.37.0 for Python, Chalice 1.34.0 and lambda-api 1.5.1 answer 200 to a route that returns
# `{"statusCode": 401, "body": ...}`, the form in which a function without a framework answers: they send the object as JSON.
# Powertools 2.35.0 for TypeScript takes it as the response, 401. Hurt: receivers of webhooks on AWS Lambda whose code was
# moved from a plain function to routes, or from one language to the other: an event that was refused, or failed, counts as
# delivered, and the sender does not repeat it.
# Source: https://docs.aws.amazon.com/powertools/python/latest/core/event_handler/api_gateway/
# Usage: findings/lambda-proxy-results.sh. Needs Python 3.11 with pip, PyPI, Node.js 20 and npm's registry. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check aws-lambda-powertools==3.37.0 chalice==1.34.0
npm install --silent --no-audit --no-fund @aws-lambda-powertools/event-handler@2.35.0 lambda-api@1.5.1
cat > event.json <<'JSON'
{
  "version": "2.0", "routeKey": "$default", "rawPath": "/hook", "rawQueryString": "", "body": "{}", "isBase64Encoded": false,
  "headers": {"content-type": "application/json", "host": "example.com"},
  "requestContext": {
    "domainName": "example.com", "requestId": "request-1", "stage": "$default", "time": "01/Jan/2026:00:00:00 +0000",
    "timeEpoch": 1767225600000,
    "http": {"method": "POST", "path": "/hook", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "sender"}
  }
}
JSON
cat > receiver.py <<'PYTHON'
import json
import aws_lambda_powertools.event_handler as powertools, chalice, chalice.test


def hook():
    return {"statusCode": 401, "body": "bad signature"}


with open("event.json") as file:
    event = json.load(file)
app = powertools.LambdaFunctionUrlResolver()
app.post("/hook")(hook)
result = app.resolve(event, None)
print("Powertools for Python:", result["statusCode"], result["body"])
app = chalice.Chalice("receiver")
app.route("/hook", methods=["POST"])(hook)
with chalice.test.Client(app) as client:
    response = client.http.post("/hook", body=b"{}")
    print("Chalice:", response.status_code, response.body.decode())
PYTHON
cat > receiver.mjs <<'NODE'
import { readFileSync } from "node:fs";
import { Router } from "@aws-lambda-powertools/event-handler/http";
import lambdaApi from "lambda-api";

const event = JSON.parse(readFileSync("event.json"));
const hook = async () => ({ statusCode: 401, body: "bad signature" });
const router = new Router();
router.post("/hook", hook);
const context = { awsRequestId: "request-1", functionName: "receiver", getRemainingTimeInMillis: () => 1000 };
let result = await router.resolve(event, context);
console.log("Powertools for TypeScript:", result.statusCode, result.body);
const api = lambdaApi();
api.post("/hook", hook);
result = await api.run(event, {});
console.log("lambda-api:", result.statusCode, result.body);
NODE
python/bin/python receiver.py | tee found
node receiver.mjs | tee --append found
sed --in-place 's/\([0-9]\) .*/\1/' found
printf '%s\n' 'Powertools for Python: 200' 'Chalice: 200' 'Powertools for TypeScript: 401' 'lambda-api: 200' | diff found -
