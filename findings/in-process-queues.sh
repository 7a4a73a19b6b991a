#!/bin/bash
# `await queue.push(event)` resolves with a queue of npm's async 3.2.6 if the worker has failed: only `pushAsync` rejects.
# The same holds for its cargo, cargoQueue and priorityQueue. For a list of events, it resolves before the work has
# begun. `push` of fastq 1.20.3 and neo-async 2.6.2 returns no promise, so `await` does not wait. Without a callback or
# a listener for errors, none of them reports the error, not even as an unhandled rejection; nor does fastq.promise
# without `await`. fastq.promise with `await`, p-queue 10.0.0, p-limit 7.3.3 and Bottleneck 2.19.5 reject. Hurt:
# receivers of webhooks that limit their work with such a queue and answer after it: while their database is away, each
# event is answered with 204 and lost, and no log shows it. Use `pushAsync`, or one of the others with `await`.
# Source: https://caolan.github.io/async/v3/docs.html#queue and https://github.com/mcollina/fastq
# Usage: findings/in-process-queues.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts async@3.2.6 bottleneck@2.19.5 fastq@1.20.3 neo-async@2.6.2 \
  p-limit@7.3.3 p-queue@10.0.0
cat > receivers.mjs <<'NODE'
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import async from "async";
import Bottleneck from "bottleneck";
import fastq from "fastq";
import neo from "neo-async";
import pLimit from "p-limit";
import PQueue from "p-queue";

const store = async () => {
  await sleep(20);
  throw new Error("the database does not answer");
};
const withCallback = (_event, done) => store().then(() => done(), done);
const [queue, cargo, cargoQueue, priorityQueue] = [
  async.queue(store, 2), async.cargo(store, 2), async.cargoQueue(store, 2, 2), async.priorityQueue(store, 2),
];
const [fast, fastPromise, neoQueue] = [fastq(withCallback, 2), fastq.promise(store, 2), neo.queue(withCallback, 2)];
const [pQueue, limit, bottleneck] = [new PQueue({ concurrency: 2 }), pLimit(2), new Bottleneck({ maxConcurrent: 2 })];
const receivers = {
  "async, queue": [(event) => queue.push(event), 204],
  "async, queue, a list": [(event) => queue.push([event]), 204],
  "async, queue, pushAsync": [(event) => queue.pushAsync(event), 500],
  "async, cargo": [(event) => cargo.push(event), 204],
  "async, cargoQueue": [(event) => cargoQueue.push(event), 204],
  "async, priorityQueue": [(event) => priorityQueue.push(event, 1), 204],
  "fastq": [(event) => fast.push(event), 204],
  "fastq.promise": [(event) => fastPromise.push(event), 500],
  "fastq.promise, without await": [(event) => void fastPromise.push(event), 204],
  "neo-async": [(event) => neoQueue.push(event), 204],
  "p-queue": [(event) => pQueue.add(() => store(event)), 500],
  "p-limit": [(event) => limit(() => store(event)), 500],
  "Bottleneck": [(event) => bottleneck.schedule(() => store(event)), 500],
};
let unhandled = 0;
process.on("unhandledRejection", () => unhandled++);
const server = createServer(async (request, response) => {
  const [work] = receivers[decodeURIComponent(request.url.slice(1))];
  let body = "";
  for await (const part of request) body += part;
  try {
    await work(JSON.parse(body));
    response.writeHead(204).end();
  } catch {
    response.writeHead(500).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
let changed = false;
for (const [name, [, expected]] of Object.entries(receivers)) {
  const url = `http://127.0.0.1:${server.address().port}/${encodeURIComponent(name)}`;
  const { status } = await fetch(url, { method: "POST", body: '{"job_id":"1"}' });
  console.log(`${name}: ${status}`);
  changed ||= status !== expected;
}
await sleep(500);
console.log(`unhandled rejections: ${unhandled}`);
process.exit(changed || unhandled > 0 ? 1 : 0);
NODE
node receivers.mjs
