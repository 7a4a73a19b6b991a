#!/bin/bash
# bee-queue 2.0.0 puts its scripts into Redis when a queue is created, and never again: after a restart of Redis 7.0.15, which
# forgets scripts though it keeps all data, `save()` fails with NOSCRIPT for each job until the program is restarted, although the
# connection works again. A worker that was not restarted still runs the jobs of others. BullMQ 6.7.0 and node-resque 9.7.1 go
# on. Hurt: receivers of webhooks that store each event in such a queue: a short restart of Redis at night becomes an outage that
# lasts until the receiver is restarted, too, because each event is answered with an error.
# Sources: the README of bee-queue ("Under the hood") and https://redis.io/docs/latest/commands/evalsha/
# Usage: findings/bee-queue-redis-restart.sh. Needs apt-get of Debian 12, Node.js 20 and npm's registry. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${programs:-} "${server:-}" 2> /dev/null || true; sleep 0.5; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund bee-queue@2.0.0 bullmq@6.7.0 node-resque@9.7.1
export PORT=$((20000 + $$ % 12000)) LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
start_redis() {
  usr/bin/redis-server --bind 127.0.0.1 --port "$PORT" --appendonly yes --dir "$folder" >> log 2>&1 &
  server=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null && break; sleep 0.1; done
}
cat > queue.mjs <<'NODE'
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const [library, role, first] = process.argv.slice(2);
const redis = { host: "127.0.0.1", port: Number(process.env.PORT) };
const see = (text) => appendFileSync("seen", `${library}: ${text}\n`);
const run = (event) => see(`ran ${event}`);
const ignore = () => {};
let add;
if (library === "bee-queue") {
  const Queue = require("bee-queue");
  const queue = new Queue("events", { redis, isWorker: role === "work" }).on("error", ignore);
  if (role === "work") queue.process(async (job) => run(job.data.event));
  add = (event) => queue.createJob({ event }).save();
} else if (library === "BullMQ") {
  const { Queue, Worker } = require("bullmq");
  if (role === "work") new Worker("events", async (job) => run(job.data.event), { connection: redis }).on("error", ignore);
  else {
    const queue = new Queue("events", { connection: redis }).on("error", ignore);
    add = (event) => queue.add("process", { event });
  }
} else {
  const { Queue, Worker } = await import("node-resque");
  const connection = { pkg: "ioredis", ...redis, database: 0 };
  if (role === "work") {
    const worker = new Worker({ connection, queues: ["events"], timeout: 500 }, { process: { perform: async (event) => run(event) } });
    worker.on("error", ignore);
    await worker.connect();
    worker.start();
  } else {
    const queue = new Queue({ connection }, {}).on("error", ignore);
    await queue.connect();
    add = (event) => queue.enqueue("events", "process", [event]);
  }
}
if (role === "add") {
  const addNext = async (event) => {
    try {
      await add(event);
    } catch (error) {
      see(`cannot add ${event}: ${error.message.split(" ")[0]}`);
    }
  };
  await addNext(first);
  // One more event at each signal.
  let next = 0;
  process.on("SIGUSR2", () => addNext(`${first}-${++next}`));
}
NODE
programs=
start() {
  node queue.mjs "$@" 2>> log &
  programs+=" $!"
}
start_redis
touch seen
declare -A producers
for library in bee-queue BullMQ node-resque; do
  start $library work
  start $library add old
  producers[$library]=$!
done
sleep 5
kill "$server"
wait "$server" || true
sleep 2
start_redis
sleep 8
for library in bee-queue BullMQ node-resque; do
  for _ in 1 2; do
    kill -USR2 "${producers[$library]}"
    sleep 2
  done
  start $library add new
  sleep 2
done
for library in bee-queue BullMQ node-resque; do grep "^$library" seen; done | tee sorted
[ "$(cat sorted)" = "bee-queue: ran old
bee-queue: cannot add old-1: NOSCRIPT
bee-queue: cannot add old-2: NOSCRIPT
bee-queue: ran new
BullMQ: ran old
BullMQ: ran old-1
BullMQ: ran old-2
BullMQ: ran new
node-resque: ran old
node-resque: ran old-1
node-resque: ran old-2
node-resque: ran new" ] || { tail log; exit 1; }
