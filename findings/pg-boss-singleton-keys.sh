#!/bin/bash
# pg-boss 10.4.2 and 12.38.0 ignore `singletonKey` in a queue with the default policy, without an error: two jobs with the same
# key are both queued and run. In 9.0.3, the same call allowed one that was queued or active. The policy `stately` permits one
# queued job with the key, and another one once it has run, so a later duplicate runs again. With `id`, a failed job counts
# as a duplicate: `send` returns null and nothing runs. With `singletonSeconds`, so does a failed job of that period. Hurt:
# receivers of webhooks that queue an event with its `webhook-id` as the key: after the update, each duplicate is processed
# twice, and with `id` or `singletonSeconds`, an event that was sent again because its job failed is dropped.
# Usage: findings/pg-boss-singleton-keys.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund pg-boss-9@npm:pg-boss@9.0.3 pg-boss-10@npm:pg-boss@10.4.2 \
  pg-boss-12@npm:pg-boss@12.38.0 @electric-sql/pglite@0.5.14
cat > queues.mjs <<'NODE'
import { PGlite } from "@electric-sql/pglite";
import PgBoss9 from "pg-boss-9";
import PgBoss10 from "pg-boss-10";
import { PgBoss as PgBoss12 } from "pg-boss-12";

const KEY = "msg_1854d20f452c5b4c1e350d7c7a00518b";
const UUID = "1854d20f-452c-4b4c-9e35-0d7c7a00518b";
const jobs = (ids) => ids.map((id) => (id ? "a job" : "null")).join(", ");
const found = {};
for (const [version, PgBoss] of [[9, PgBoss9], [10, PgBoss10], [12, PgBoss12]]) {
  const postgres = await PGlite.create();
  const executeSql = async (text, values) => {
    if (values?.length) return postgres.query(text, values);
    const results = await postgres.exec(text);
    return { rows: results.flatMap(({ rows }) => rows) };
  };
  const boss = new PgBoss({ db: { executeSql }, supervise: false, schedule: false, noScheduling: true, noSupervisor: true });
  boss.on("error", (error) => console.log(error.message));
  await boss.start();
  /** Sends a job, optionally takes and finishes it, and sends it again. */
  const twice = async (queue, policy, options, finish) => {
    if (version > 9) await boss.createQueue(queue, version === 10 ? { name: queue, policy } : { policy });
    const first = await boss.send(queue, {}, { retryLimit: 0, ...options });
    if (finish) {
      await boss.fetch(queue);
      await boss[finish](queue, first);
    }
    return jobs([first, await boss.send(queue, {}, { retryLimit: 0, ...options })]);
  };
  found[version] = { "default policy": await twice("default", "standard", { singletonKey: KEY }) };
  if (version > 9) {
    Object.assign(found[version], {
      stately: await twice("waiting", "stately", { singletonKey: KEY }),
      "stately, after a success": await twice("stately", "stately", { singletonKey: KEY }, "complete"),
      "id, after a failure": await twice("id", "standard", { id: UUID }, "fail"),
      "singletonSeconds, after a failure": await twice("period", "standard", { singletonKey: KEY, singletonSeconds: 3600 }, "fail"),
    });
  }
}
for (const [version, results] of Object.entries(found)) console.log(`pg-boss ${version}:`, results);
const both = "a job, a job";
const one = "a job, null";
const later = {
  "default policy": both, stately: one, "stately, after a success": both, "id, after a failure": one,
  "singletonSeconds, after a failure": one,
};
const expected = { 9: { "default policy": one }, 10: later, 12: later };
process.exit(JSON.stringify(found) === JSON.stringify(expected) ? 0 : 1);
NODE
node queues.mjs
