#!/bin/bash
# @message-queue-toolkit/sqs 24.2.1 deletes a message that it has no handler for, or whose schema does not fit, also if the
# queue has a redrive policy: only a message whose handler fails gets into the dead-letter queue of the policy. The toolkit
# sends such messages to a dead-letter queue if it is in its own option `deadLetterQueue`, which then also sets the policy.
# Its README describes that queue for handlers that fail. Hurt: receivers of webhooks that put events into SQS with a queue
# from a template: an event of a new type, or with a member of another type, is logged as an error and lost.
# Source: @message-queue-toolkit/sqs/dist/sqs/AbstractSqsConsumer.js (createConsumer, failProcessing)
# Usage: findings/message-queue-toolkit-unknown.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and
# npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'moto[server,sqs]==5.2.5'
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts @message-queue-toolkit/sqs@24.2.1 \
  @message-queue-toolkit/core@25.4.0 @aws-sdk/client-sqs@3.1175.0 zod@4.1.13
port=$((20000 + $$ % 12000))
venv/bin/moto_server -H 127.0.0.1 -p "$port" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > consume.mjs <<'NODE'
import { setTimeout as sleep } from "node:timers/promises";
import { CreateQueueCommand, GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { MessageHandlerConfigBuilder } from "@message-queue-toolkit/core";
import { AbstractSqsConsumer } from "@message-queue-toolkit/sqs";
import { z } from "zod";

const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const sqsClient = new SQSClient({ region: "eu-central-1", credentials, endpoint: process.argv[2] });
const create = async (QueueName, Attributes) =>
  (await sqsClient.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl;
const attributes = async (QueueUrl) =>
  (await sqsClient.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }))).Attributes;
const count = async (QueueUrl) => {
  const found = await attributes(QueueUrl);
  return Number(found.ApproximateNumberOfMessages) + Number(found.ApproximateNumberOfMessagesNotVisible);
};
const handled = [];
const handlers = new MessageHandlerConfigBuilder()
  .addConfig(z.object({ type: z.literal("job.completed"), job_id: z.string() }), async ({ job_id }) => {
    handled.push(job_id);
    if (job_id === "fails") throw new Error("The database is away");
    return { result: "success" };
  })
  .build();

class Consumer extends AbstractSqsConsumer {
  constructor(options) {
    const names = ["trace", "debug", "info", "warn", "error", "fatal"];
    const logger = Object.fromEntries(names.map((name) => [name, () => {}]));
    const consumerErrorResolver = { processError: (error) => error };
    super({ sqsClient, logger, consumerErrorResolver, errorReporter: { report() {} } }, options, {});
  }
}

async function seen(name, options) {
  const dead = await create(`${name}-dead`, {});
  const deadLetterTargetArn = (await attributes(dead)).QueueArn;
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 2 });
  const queueUrl = await create(name, { VisibilityTimeout: "1", RedrivePolicy });
  for (const message of [
    { type: "job.completed", job_id: "fits" },
    { type: "job.failed", job_id: "unknown type" },
    { type: "job.completed", job_id: 7 },
    { type: "job.completed", job_id: "fails" },
  ]) {
    await sqsClient.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: JSON.stringify(message) }));
  }
  const consumer = new Consumer({
    locatorConfig: { queueUrl }, messageTypeResolver: { messageTypePath: "type" }, handlers,
    consumerOverrides: { waitTimeSeconds: 1 }, ...options(dead),
  });
  handled.length = 0;
  await consumer.start();
  await sleep(8000);
  await consumer.close(true);
  return `handled ${[...new Set(handled)].join(", ")}; waiting ${await count(queueUrl)}, dead ${await count(dead)}, of 4`;
}

const plain = await seen("policy-only", () => ({}));
const redrivePolicy = { maxReceiveCount: 2 };
const own = await seen("own-option", (queueUrl) => ({ deadLetterQueue: { locatorConfig: { queueUrl }, redrivePolicy } }));
console.log(`with a redrive policy: ${plain}\nwith the option deadLetterQueue: ${own}`);
const expected = ["handled fits, fails; waiting 0, dead 1, of 4", "handled fits, fails; waiting 0, dead 3, of 4"];
process.exit(`${[plain, own]}` === `${expected}` ? 0 : 1);
NODE
NO_PROXY=127.0.0.1,localhost node --no-warnings consume.mjs "http://127.0.0.1:$port"
