#!/bin/bash
# npm's sqs-producer 8.0.4 sends a message that is a text with the text itself as the id of its entry in a batch. SQS allows only
# letters, digits, hyphens and underscores there, and each id once, so every JSON text fails with InvalidBatchEntryId, and
# two equal texts in a call fail both. A group without an id passes its checks and fails at SQS, too. Hurt: producers who
# follow the example with ["msg1", "msg2"], the first of its README: it works, and no event in JSON does.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatchRequestEntry.html
# Usage: findings/sqs-producer-ids.sh. Needs Python 3.11 with pip, Node.js 20, and the registries of PyPI and npm. Fails if
# the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33
npm install --silent --no-audit --no-fund --ignore-scripts sqs-producer@8.0.4 @aws-sdk/client-sqs@3.1175.0
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
cat > send.mjs <<'NODE'
import { CreateQueueCommand, SQSClient } from "@aws-sdk/client-sqs";
import { Producer } from "sqs-producer";

const region = "eu-central-1";
const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const sqs = new SQSClient({ region, credentials, endpoint: process.argv[2] });
const { QueueUrl: queueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: "job-events" }));
const producer = Producer.create({ queueUrl, region, sqs });
const body = JSON.stringify({ event: "job.completed" });
const cases = [
  [["msg1", "msg2"], "sent 2"],
  [body, "InvalidBatchEntryId"],
  [["same", "same"], "BatchEntryIdsNotDistinct"],
  [{ body, groupId: "tenant" }, "InvalidBatchEntryId"],
  [{ id: "job-7/2", body }, "InvalidBatchEntryId"],
  [{ id: "0", body, groupId: "tenant" }, "sent 1"],
];
for (const [message, expected] of cases) {
  const found = await producer.send(message).then((sent) => `sent ${sent.length}`, (error) => error.name);
  console.log(`${JSON.stringify(message)}: ${found}`);
  if (found !== expected) process.exit(1);
}
NODE
NO_PROXY=127.0.0.1,localhost node --no-warnings send.mjs "http://127.0.0.1:$port"
