#!/bin/bash
# AWS's SDK for JavaScript 3.1175.0 (@smithy/node-http-handler 4.14.2) does not end a call after the `requestTimeout` of
# its `requestHandler`: it writes a warning and goes on waiting, without a limit, so no retry begins. In 3.600.0
# (handler 3.3.3), the same option fails with a TimeoutError, after which the SDK tries twice again. The option now
# means the whole request, and raises an error only with `throwOnRequestTimeout: true`; the earlier meaning is
# `socketTimeout`. Versions in between, such as 3.839.0, take the new handler, too, unless a lock file keeps the old
# one. Hurt: producers that send events to SQS with a time limit: if a connection goes silent, `send` waits until the
# function or the process ends, and the event is lost. Set `throwOnRequestTimeout` or `socketTimeout`.
# Source: https://github.com/smithy-lang/smithy-typescript/tree/main/packages/types
# Usage: findings/aws-sdk-request-timeout.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir old new
(cd old && npm install --silent --no-audit --no-fund @aws-sdk/client-sqs@3.600.0 @smithy/node-http-handler@3.3.3)
(cd new && npm install --silent --no-audit --no-fund @aws-sdk/client-sqs@3.1175.0 @smithy/node-http-handler@4.14.2)
cat > send.mjs <<'NODE'
import { createServer } from "node:net";
import { createRequire } from "node:module";

const [folder, options] = process.argv.slice(2);
const { SQSClient, SendMessageCommand } = createRequire(`${process.cwd()}/${folder}/`)("@aws-sdk/client-sqs");
let requests = 0;
// A queue that reads each request and never answers.
const queue = createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", () => requests++);
}).listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${queue.address().port}`;
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const requestHandler = JSON.parse(options);
  const client = new SQSClient({ region: "eu-central-1", endpoint: url, credentials, requestHandler });
  const message = new SendMessageCommand({ QueueUrl: `${url}/123456789012/events`, MessageBody: "{}" });
  const waiting = new Promise((resolve) => setTimeout(resolve, 15000, "still waiting after 15 s"));
  const sent = client.send(message).then(() => "sent", (error) => error.name);
  console.log(`${folder}, ${options}: ${await Promise.race([sent, waiting])}, ${requests} requests`);
  process.exit();
});
NODE
seen=$(
  node send.mjs old '{"requestTimeout":1000}' 2> /dev/null
  node send.mjs new '{"requestTimeout":1000}' 2> warning
  node send.mjs new '{"requestTimeout":1000,"throwOnRequestTimeout":true}' 2> /dev/null
  node send.mjs new '{"socketTimeout":1000}' 2> /dev/null
)
echo "$seen"
grep --only-matching 'WARN.*requestTimeout\.' warning
[ "$seen" = 'old, {"requestTimeout":1000}: TimeoutError, 3 requests
new, {"requestTimeout":1000}: still waiting after 15 s, 1 requests
new, {"requestTimeout":1000,"throwOnRequestTimeout":true}: TimeoutError, 3 requests
new, {"socketTimeout":1000}: TimeoutError, 3 requests' ]
