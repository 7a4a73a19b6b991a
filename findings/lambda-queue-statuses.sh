#!/bin/bash
# AWS's Lambda Web Adapter 0.9.1 (crates.io) and npm's @codegenie/serverless-express 4.17.1 pass messages of SQS to a route of the
# application, and count them as processed whatever its status: after a 500, the adapter returns `null`, or the body if it is
# JSON, and serverless-express returns the body, so Lambda deletes the messages. A message of SNS, which Lambda would repeat
# twice after an error, is lost in the same way. The adapter fails the invocation with AWS_LWA_ERROR_STATUS_CODES=400-599, and
# @h4ad/serverless-adapter 4.4.0 fails it by default. Hurt: receivers of webhooks on Lambda that queue events, and process
# them in the same application: while its database is away, each event is deleted, none is repeated, and the dead-letter
# queue and the function's metric of errors stay empty.
# Source: https://github.com/awslabs/aws-lambda-web-adapter#non-http-event-triggers and
# https://github.com/codegenie/serverless-express#eventsourceroutes
# Usage: findings/lambda-queue-statuses.sh. Needs Rust 1.95, a C compiler, crates.io, Node.js 20, npm, and Python 3. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${adapter:-} ${api:-} 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
CARGO_TARGET_DIR=$folder/target cargo install lambda_web_adapter --version 0.9.1 --locked --debug --quiet --root "$folder" \
  --config profile.dev.debug=false --config profile.dev.incremental=false 2> install.log || { cat install.log; exit 1; }
npm install --silent --no-fund --no-audit @codegenie/serverless-express@4.17.1 @h4ad/serverless-adapter@4.4.0 express@5.3.0
cat > event.json <<'JSON'
{"Records": [{"messageId": "m-1", "receiptHandle": "r-1", "body": "{\"event\":\"job.completed\"}", "attributes": {},
  "messageAttributes": {}, "md5OfBody": "", "eventSource": "aws:sqs", "awsRegion": "eu-central-1",
  "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:events"}]}
JSON
cat > api.py <<'PYTHON'
import http.server, sys, threading


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Application(Handler):
    """Fails each event."""

    def do_GET(self):
        self.answer(200, b"")

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(500, b"the database is away")


class Runtime(Handler):
    """Lambda's API for a runtime: hands out one event, and prints its outcome."""

    events = [open("event.json", "rb").read()]

    def do_GET(self):
        if self.path.endswith("/invocation/next") and "runtime" in self.path and Runtime.events:
            function = "arn:aws:lambda:eu-central-1:123456789012:function:worker"
            headers = {"deadline-ms": "9999999999999", "invoked-function-arn": function, "aws-request-id": "request-1"}
            self.answer(200, Runtime.events.pop(), {f"lambda-runtime-{name}": value for name, value in headers.items()})
        else:
            threading.Event().wait()

    def do_POST(self):
        body = b""
        if "content-length" in self.headers:
            body = self.rfile.read(int(self.headers["content-length"]))
        else:
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        self.answer(200, b"{}", {"lambda-extension-identifier": "extension-1"})
        if self.path.endswith("/response"):
            print(f"returns {body.decode()}: the message is deleted", flush=True)
        elif self.path.endswith("request-1/error"):
            print("fails: the message is kept", flush=True)


for port, handler in enumerate([Runtime, Application], int(sys.argv[1])):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever).start()
PYTHON
cat > functions.cjs <<'NODE'
const { readFileSync } = require("node:fs");
const serverlessExpress = require("@codegenie/serverless-express");
const { ServerlessAdapter } = require("@h4ad/serverless-adapter");
const { SQSAdapter } = require("@h4ad/serverless-adapter/adapters/aws");
const { ExpressFramework } = require("@h4ad/serverless-adapter/frameworks/express");
const { DefaultHandler } = require("@h4ad/serverless-adapter/handlers/default");
const { PromiseResolver } = require("@h4ad/serverless-adapter/resolvers/promise");
const express = require("express");

const app = express();
app.post(["/sqs", "/sns"], (request, response) => response.status(500).json({ error: "the database is away" }));
const byServerlessExpress = serverlessExpress({ app, eventSourceRoutes: { AWS_SNS: "/sns", AWS_SQS: "/sqs" } });
const handlers = {
  "serverless-express": byServerlessExpress,
  "serverless-adapter": ServerlessAdapter.new(app)
    .setFramework(new ExpressFramework())
    .setHandler(new DefaultHandler())
    .setResolver(new PromiseResolver())
    .addAdapter(new SQSAdapter())
    .build(),
};
(async () => {
  for (const [name, handler] of Object.entries(handlers)) {
    const event = JSON.parse(readFileSync("event.json"));
    const kept = () => "fails: the message is kept";
    console.log(`${name}: ${await handler(event, {}).then((it) => `returns ${JSON.stringify(it)}: the message is deleted`, kept)}`);
  }
  const topic = await byServerlessExpress({ Records: [{ EventSource: "aws:sns", Sns: { Message: "{}" } }] }, {});
  console.log(`serverless-express, a topic of SNS: returns ${topic}, the message is lost`);
})();
NODE
export AWS_LAMBDA_FUNCTION_NAME=worker AWS_LAMBDA_FUNCTION_VERSION=1 AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128
export AWS_LAMBDA_LOG_GROUP_NAME=worker AWS_LAMBDA_LOG_STREAM_NAME=worker
port=$((20000 + $$ % 12000))
for codes in "" 400-599; do
  python3 api.py "$port" > "outcome$codes" 2> api.log &
  api=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$((port + 1))") 2> /dev/null && break; sleep 0.1; done
  env AWS_LAMBDA_RUNTIME_API="127.0.0.1:$port" AWS_LWA_PORT=$((port + 1)) ${codes:+AWS_LWA_ERROR_STATUS_CODES=$codes} \
    bin/lambda-adapter > "adapter$codes.log" 2>&1 &
  adapter=$!
  for _ in {1..100}; do [ -s "outcome$codes" ] && break; sleep 0.1; done
  { kill -KILL $adapter $api && wait; } 2> /dev/null || true
  echo "Lambda Web Adapter${codes:+, AWS_LWA_ERROR_STATUS_CODES=$codes}: $(cat "outcome$codes")" >> seen
  port=$((port + 2))
done
node functions.cjs 2> functions.log >> seen
cat seen
diff seen - <<'EXPECTED' || { tail --lines 5 ./*.log; exit 1; }
Lambda Web Adapter: returns null: the message is deleted
Lambda Web Adapter, AWS_LWA_ERROR_STATUS_CODES=400-599: fails: the message is kept
serverless-express: returns {"error":"the database is away"}: the message is deleted
serverless-adapter: fails: the message is kept
serverless-express, a topic of SNS: returns undefined, the message is lost
EXPECTED
