#!/bin/bash
# AWS's SDKs for JavaScript send a message to the host in its `QueueUrl`, not to the endpoint in `AWS_ENDPOINT_URL` or
# `AWS_ENDPOINT_URL_SQS`: @aws-sdk/client-sqs 3.1175.0 with a warning, aws-sdk 2.1693.0 without one, and even if the code sets
# `endpoint`. boto3 1.43.106 sends it to the endpoint in each case. Hurt: producers who test against an emulator with these
# variables, but with the URL of the real queue in another setting: the test's events reach real receivers. Version 3 takes
# `endpoint` in the code, or `useQueueUrlAsEndpoint: false`; version 2 only another `QueueUrl`.
# Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
# Usage: findings/sqs-endpoints.sh. Needs Python 3 with pip, Node.js 20, and the registries of PyPI and npm. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check boto3==1.43.106 botocore==1.43.127
npm install --silent --no-audit --no-fund --ignore-scripts @aws-sdk/client-sqs@3.1175.0 aws-sdk@2.1693.0
port=$((20000 + $$ % 12000))
cat > queues.py <<'PYTHON'
import hashlib, http.server, json, sys, threading


class Queue(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))["MessageBody"]
        print(f"{self.server.name}: {body}", flush=True)
        answer = json.dumps({"MessageId": "1", "MD5OfMessageBody": hashlib.md5(body.encode()).hexdigest()}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


for number, name in enumerate(["queue URL", "endpoint"]):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) + number), Queue)
    server.name = name
    threading.Thread(target=server.serve_forever).start()
PYTHON
python3 queues.py "$port" > found &
server=$!
cat > send.py <<'PYTHON'
import sys
import boto3

url, endpoint = sys.argv[1:]
for name, options in [("variable", {}), ("code", {"endpoint_url": endpoint})]:
    sqs = boto3.client("sqs", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test", **options)
    sqs.send_message(QueueUrl=url, MessageBody=f"boto3, {name}")
PYTHON
cat > send.mjs <<'NODE'
import { SQSClient, SendMessageCommand } from "@aws-sdk/client-sqs";
import AWS from "aws-sdk";

const [url, endpoint] = process.argv.slice(2);
const region = "eu-central-1";
const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const cases = [
  ["variable", {}],
  ["useQueueUrlAsEndpoint", { useQueueUrlAsEndpoint: false }],
  ["code", { endpoint }],
];
for (const [name, options] of cases) {
  const command = new SendMessageCommand({ QueueUrl: url, MessageBody: `version 3, ${name}` });
  await new SQSClient({ region, credentials, ...options }).send(command);
}
for (const [name, options] of [cases[0], cases[2]]) {
  const sqs = new AWS.SQS({ region, ...credentials, ...options });
  await sqs.sendMessage({ QueueUrl: url, MessageBody: `version 2, ${name}` }).promise();
}
NODE
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
url=http://127.0.0.1:$port/123456789012/job-events endpoint=http://127.0.0.1:$((port + 1))
export AWS_ENDPOINT_URL=$endpoint AWS_ENDPOINT_URL_SQS=$endpoint NO_PROXY=127.0.0.1
venv/bin/python send.py "$url" "$endpoint"
node --no-warnings send.mjs "$url" "$endpoint" 2> warnings
cat found
diff found - <<'EXPECTED'
endpoint: boto3, variable
endpoint: boto3, code
queue URL: version 3, variable
endpoint: version 3, useQueueUrlAsEndpoint
endpoint: version 3, code
queue URL: version 2, variable
queue URL: version 2, code
EXPECTED
echo "warnings: $(grep --count 'using QueueUrl host as endpoint' warnings)"
[ "$(grep --count 'using QueueUrl host as endpoint' warnings)" = 1 ]
