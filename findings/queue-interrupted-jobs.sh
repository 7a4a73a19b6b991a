#!/bin/bash
# BullMQ 6.7.0 and Bull 4.16.5 permanently fail a job whose worker ended twice while it ran, although it has five `attempts` of
# which none has failed: "job stalled more than allowable limit". An interruption counts as a stall, not as an attempt, and
# `maxStalledCount` is 1 by default; with a higher one, BullMQ runs the job again.
# bee-queue 2.0.0 looks for interrupted jobs only when a worker starts, so it does not run the job again soon after the restart,
# but at a later one, unless the program calls `checkStalledJobs` with an interval. Hurt: receivers of webhooks that answer 202
# once the event is in such a queue, and do not close the worker at a SIGTERM: an event whose work takes longer than the time
# between two deployments or crashes is lost, or waits for the next one, although the queue is stored and the job has retries.
# Source: https://docs.bullmq.io/guide/jobs/stalled
# Usage: findings/queue-interrupted-jobs.sh. Needs apt-get of Debian 12, Node.js 20, npm, and npm's registry. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund bullmq@6.7.0 bull@4.16.5 bee-queue@2.0.0
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/redis-server --bind 127.0.0.1 --port "$port" --save "" > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

# Works on the queue in the second argument, and first adds a job if there is a third one. A stall is noticed after seconds.
cat > worker.mjs <<'NODE'
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Bee from "bee-queue";
import Bull from "bull";
import { Queue, Worker } from "bullmq";

const [port, name, add] = process.argv.slice(2);
const redis = { host: "127.0.0.1", port: Number(port) };
const log = (state) => appendFileSync(name, `${state}\n`);
const work = async () => {
  log("begun");
  await sleep(4000);
  log("done");
};
const failed = (_, error) => log(error.message);
const settings = { lockDuration: 2000, stalledInterval: 1000 };
if (name.startsWith("BullMQ")) {
  if (name.endsWith("10")) settings.maxStalledCount = 10;
  if (add) await new Queue(name, { connection: redis }).add("event", {}, { attempts: 5 });
  new Worker(name, work, { connection: redis, ...settings }).on("failed", failed);
} else if (name === "Bull") {
  const queue = new Bull(name, { redis, settings });
  if (add) await queue.add({}, { attempts: 5 });
  queue.on("failed", failed);
  queue.process(work);
} else {
  const queue = new Bee(name, { redis, stallInterval: 1000 });
  if (add) await queue.createJob({}).retries(5).save();
  queue.on("failed", failed);
  queue.process(work);
  if (name.endsWith("checks")) queue.checkStalledJobs(1000);
}
NODE
cat > check.mjs <<'NODE'
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const port = process.argv[2];

/** The states of a job whose first two workers get a SIGTERM a second after it began, or after 12 seconds. */
const seen = async (name) => {
  const log = () => (existsSync(name) ? readFileSync(name, "utf8").trim().split("\n") : []);
  const states = [];
  for (const round of [1, 2, 3]) {
    const before = log().length;
    const worker = spawn(process.execPath, ["worker.mjs", port, name, ...(round === 1 ? ["add"] : [])], { stdio: "inherit" });
    for (let i = 0; i < 120 && log().length === before; i += 1) await sleep(100);
    await sleep(round === 3 ? 5000 : 1000);
    worker.kill("SIGTERM");
    await new Promise((resolve) => worker.once("exit", resolve));
    states.push(log().slice(before).join(", ") || "nothing");
  }
  return states.join("; ");
};
const expected = {
  BullMQ: "begun; begun; job stalled more than allowable limit",
  Bull: "begun; begun; job stalled more than allowable limit",
  "BullMQ, maxStalledCount 10": "begun; begun; begun, done",
  "bee-queue": "begun; nothing; begun, done",
  "bee-queue, with checks": "begun; begun; begun, done",
};
const names = Object.keys(expected);
const found = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await seen(name)])));
for (const name of names) console.log(`${name}: ${found[name]}`);
process.exit(names.every((name) => found[name] === expected[name]) ? 0 : 1);
NODE
node check.mjs "$port"
