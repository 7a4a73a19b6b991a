#!/bin/bash
# sqs-consumer 14.2.8 for Node.js does not delete a message whose handler returns nothing, as in the first example of its
# README: it handles the message again after each visibility timeout, without an error, until it is in the dead-letter queue.
# Version 13.0.0 deletes it. @middy/sqs-partial-batch-failure 6.4.5 reports all messages of a batch as failed if its handler
# returns nothing, the results of Promise.all, its own batchItemFailures, or fewer results than messages, as for one that
# skips duplicates. Both want something else than a result: the message itself, and the results of Promise.allSettled. Hurt:
# receivers of webhooks that work through SQS: each event is processed several times and is then among the failed ones.
# Sources: https://github.com/bbc/sqs-consumer/pull/583, @middy/sqs-partial-batch-failure/index.js
# Usage: findings/sqs-handlers-without-result.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and npm.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[server,sqs]==5.2.5'
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts consumer-13@npm:sqs-consumer@13.0.0 \
  consumer-14@npm:sqs-consumer@14.2.8 @aws-sdk/client-sqs@3.1175.0 @middy/core@6.4.5 @middy/sqs-partial-batch-failure@6.4.5
port=$((20000 + $$ % 12000))
venv/bin/moto_server -H 127.0.0.1 -p "$port" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > consume.mjs <<'NODE'
import { setTimeout as sleep } from "node:timers/promises";
import { CreateQueueCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import middy from "@middy/core";
import sqsPartialBatchFailure from "@middy/sqs-partial-batch-failure";

const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const sqs = new SQSClient({ region: "eu-central-1", credentials, endpoint: process.argv[2] });
let changed = false;
for (const [name, result, repeated] of [
  ["consumer-13", () => {}, false],
  ["consumer-14", () => {}, true],
  ["consumer-14", (message) => message, false],
]) {
  const { Consumer } = await import(name);
  const queue = { QueueName: `${name}-${result.length}`, Attributes: { VisibilityTimeout: "1" } };
  const { QueueUrl: queueUrl } = await sqs.send(new CreateQueueCommand(queue));
  await sqs.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: "{}" }));
  let runs = 0;
  let errors = 0;
  const handleMessage = async (message) => ((runs += 1), result(message));
  const consumer = Consumer.create({ queueUrl, sqs, waitTimeSeconds: 1, handleMessage });
  for (const event of ["error", "processing_error", "timeout_error"]) consumer.on(event, () => (errors += 1));
  consumer.start();
  await sleep(4000);
  consumer.stop();
  const returned = result.length ? "the message" : "nothing";
  const handled = runs > 1 ? "again" : "once";
  console.log(`${name}, a handler that returns ${returned}: the message was handled ${handled}, ${errors} errors`);
  changed ||= runs > 1 !== repeated || errors > 0;
}
const event = () => ({ Records: ["a", "b", "c"].map((messageId) => ({ messageId, body: "{}" })) });
const handlers = {
  "Promise.allSettled": ({ Records }) => Promise.allSettled(Records.map(async ({ messageId }) => messageId)),
  "Promise.all": ({ Records }) => Promise.all(Records.map(async ({ messageId }) => messageId)),
  nothing: async () => {},
  "its own failures": async () => ({ batchItemFailures: [{ itemIdentifier: "b" }] }),
  "no result for a duplicate": ({ Records }) => Promise.allSettled(Records.slice(1).map(async () => {})),
};
for (const [name, handler] of Object.entries(handlers)) {
  const wrapped = middy(handler).use(sqsPartialBatchFailure({ logger: () => {} }));
  const { batchItemFailures } = await wrapped(event(), { getRemainingTimeInMillis: () => 10_000 });
  const failed = batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  console.log(`Middy, a handler that returns ${name}: failed are ${failed.join(", ") || "none"}`);
  changed ||= `${failed}` !== (name === "Promise.allSettled" ? "" : "a,b,c");
}
process.exit(changed ? 1 : 0);
NODE
NO_PROXY=127.0.0.1,localhost node --no-warnings consume.mjs "http://127.0.0.1:$port"
