#!/bin/bash
# serverless-offline-sqs 8.0.0 ignores the batchItemFailures that a function returns: it deletes all messages of the batch,
# although the event has `functionResponseType: ReportBatchItemFailures`. Only an error that leaves the handler keeps them.
# AWS Lambda deletes the others and delivers the failed ones again. Hurt: developers of a function that processes events from
# SQS, for example with Powertools' batch processor: on their machine, an event that failed is gone at once, so a test that
# waits for an empty queue passes, and neither the retry nor the dead-letter queue can be tried out.
# Sources: serverless-offline-sqs/src/sqs.js (job), https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
# Usage: findings/serverless-offline-sqs-failures.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and
# npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${servers:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[server,sqs]==5.2.5' boto3==1.43.106
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund serverless@3.40.0 serverless-offline@13.10.1 serverless-offline-sqs@8.0.0
port=$((20000 + $$ % 12000))
venv/bin/moto_server -H 127.0.0.1 -p "$port" > moto.log 2>&1 &
servers=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > serverless.yml <<YAML
service: receiver
provider: {name: aws, runtime: nodejs20.x, region: eu-central-1}
plugins: [serverless-offline-sqs, serverless-offline]
functions:
  reports:
    handler: receiver.reports
    events:
      - sqs: {arn: "arn:aws:sqs:eu-central-1:123456789012:reports", batchSize: 2, functionResponseType: ReportBatchItemFailures}
  raises:
    handler: receiver.raises
    events:
      - sqs: {arn: "arn:aws:sqs:eu-central-1:123456789012:raises", batchSize: 2, functionResponseType: ReportBatchItemFailures}
custom:
  serverless-offline: {host: 127.0.0.1, httpPort: $((port + 1)), lambdaPort: $((port + 2))}
  serverless-offline-sqs:
    {endpoint: "http://127.0.0.1:$port", region: eu-central-1, accessKeyId: test, secretAccessKey: test, autoCreate: false}
YAML
cat > receiver.js <<'NODE'
exports.reports = async ({ Records }) => {
  console.log("handled in reports:", Records.map(({ body }) => body).join(", "));
  const failed = Records.filter(({ body }) => body === "fails");
  return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
};
exports.raises = async ({ Records }) => {
  console.log("handled in raises:", Records.map(({ body }) => body).join(", "));
  throw new Error("The database is away");
};
NODE
cat > queues.py <<'PYTHON'
import sys
import boto3

address, command = sys.argv[1:]
client = boto3.client("sqs", "eu-central-1", endpoint_url=address, aws_access_key_id="test", aws_secret_access_key="test")
counts = []
for name in ["reports", "raises"]:
    if command == "fill":
        url = client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "3600"})["QueueUrl"]
        for body in ["succeeds", "fails"]:
            client.send_message(QueueUrl=url, MessageBody=body)
    else:
        url = client.get_queue_url(QueueName=name)["QueueUrl"]
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        counts.append(sum(int(value) for key, value in attributes.items() if key.startswith("ApproximateNumberOfMessages")))
print(*counts)
PYTHON
export NO_PROXY=127.0.0.1,localhost SLS_TELEMETRY_DISABLED=1 SLS_NOTIFICATIONS_MODE=off
venv/bin/python queues.py "http://127.0.0.1:$port" fill > filled
node node_modules/serverless/bin/serverless.js offline > log 2>&1 &
servers+=" $!"
for _ in {1..300}; do [ "$(grep --count '^handled in' log)" -lt 2 ] || break; sleep 0.2; done
sleep 2
grep '^handled in' log
left=$(venv/bin/python queues.py "http://127.0.0.1:$port" count)
echo "messages left after a reported failure, and after an error: $left (AWS: 1 2)"
[ "$left" = '0 2' ]
