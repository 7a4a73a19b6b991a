#!/bin/bash
# A transaction of a driver that is not asynchronous takes an `async` function, and ends before its work does: it commits at the
# first `await`, and an error after it rolls back nothing. So do bun:sqlite of Bun 1.4.5, libsql 0.5.29 for Node.js, Drizzle
# 0.45.4 on bun:sqlite and on sql.js, and `atomic()` of peewee 4.5.3 as the decorator of an `async def`, although `await` gives
# the error to the caller. TypeScript accepts it. Bun's own `SQL` waits. A `with` block of peewee waits, too, but all coroutines
# of a thread share its connection, so it also rolls back the row that another request has stored meanwhile. Hurt: receivers of
# webhooks that insert the `webhook-id` in the transaction that does the work: if the work fails, the response is a 500, but the
# id stays, so the retry looks like a duplicate and is answered with 200, and the event is lost.
# Sources: https://github.com/drizzle-team/drizzle-orm/issues/2275, https://github.com/oven-sh/bun/pull/32937 (closed)
# Usage: findings/async-transactions.sh. Needs Node.js 20, Python 3.11 with pip, and the registries of npm and PyPI. Fails if
# the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund bun@1.4.5 drizzle-orm@0.45.4 libsql@0.5.29 sql.js@1.17.0
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check peewee==4.5.3

# Receives one event twice: its work fails at the first attempt, after the first `await`.
cat > receive.mjs <<'NODE'
export const TABLE = "create table events (id text primary key)";
let away = true;

export async function work() {
  await new Promise((resolve) => setTimeout(resolve, 5));
  if (away) throw new Error("The database is away");
}

export async function show(name, isKnown, process) {
  const statuses = [];
  for (away of [true, false]) {
    try {
      if (await isKnown()) statuses.push("200 (known)");
      else {
        await process();
        statuses.push("204");
      }
    } catch {
      statuses.push("500");
    }
  }
  console.log(`${name}: ${statuses.join(", ")}`);
}
NODE
cat > bun.mjs <<'NODE'
import { Database } from "bun:sqlite";
import { SQL } from "bun";
import { drizzle } from "drizzle-orm/bun-sqlite";
import { sqliteTable, text } from "drizzle-orm/sqlite-core";
import { show, TABLE, work } from "./receive.mjs";

const database = new Database(":memory:");
database.exec(TABLE);
const insert = database.query("insert into events values (?)");
const isKnown = (id) => database.query("select 1 from events where id = ?").get(id) !== null;
const inserted = database.transaction(async (id) => {
  insert.run(id);
  await work();
});
await show("bun:sqlite", () => isKnown("msg_1"), () => inserted("msg_1"));

const events = sqliteTable("events", { id: text().primaryKey() });
await show("Drizzle on bun:sqlite", () => isKnown("msg_2"), () =>
  drizzle(database).transaction(async (transaction) => {
    await transaction.insert(events).values({ id: "msg_2" });
    await work();
  }));

const sql = new SQL("sqlite://:memory:");
await sql.unsafe(TABLE);
await show("Bun's SQL", async () => (await sql`select 1 from events`).length > 0, () =>
  sql.begin(async (transaction) => {
    await transaction`insert into events values ('msg_3')`;
    await work();
  }));
NODE
cat > node.mjs <<'NODE'
import Libsql from "libsql";
import sqljs from "sql.js";
import { drizzle } from "drizzle-orm/sql-js";
import { sqliteTable, text } from "drizzle-orm/sqlite-core";
import { show, TABLE, work } from "./receive.mjs";

const file = new Libsql(":memory:");
file.exec(TABLE);
const inserted = file.transaction(async () => {
  file.prepare("insert into events values (?)").run("msg_1");
  await work();
});
await show("libsql", () => file.prepare("select 1 from events").get(), inserted);

const { Database } = await sqljs();
const database = new Database();
database.run(TABLE);
const events = sqliteTable("events", { id: text().primaryKey() });
const drizzled = drizzle(database);
await show("Drizzle on sql.js", async () => (await drizzled.select().from(events)).length > 0, () =>
  drizzled.transaction(async (transaction) => {
    await transaction.insert(events).values({ id: "msg_1" });
    await work();
  }));
NODE
cat > atomic.py <<'PYTHON'
import asyncio
import peewee

database = peewee.SqliteDatabase(":memory:")


class Event(peewee.Model):
    id = peewee.TextField(primary_key=True)

    class Meta:
        database = database


async def work(fails):
    await asyncio.sleep(0.005)
    if fails:
        raise ConnectionError("The database is away")


@database.atomic()
async def decorated(fails):
    Event.create(id="msg_1")
    await work(fails)


async def show_retry():
    statuses = []
    for fails in [True, False]:
        if Event.get_or_none(Event.id == "msg_1"):
            statuses.append("200 (known)")
            continue
        try:
            await decorated(fails)
            statuses.append("204")
        except ConnectionError:
            statuses.append("500")
    print(f"peewee, as a decorator: {', '.join(statuses)}")


async def within():
    with database.atomic():
        Event.create(id="msg_2")
        await work(fails=True)


async def other():
    Event.create(id="msg_3")
    return "204"


async def show_other():
    results = await asyncio.gather(within(), other(), return_exceptions=True)
    rows = Event.select().where(Event.id != "msg_1").count()
    print(f"peewee, another request during a block that fails: {results[1]}, {rows} rows stored")


database.create_tables([Event])
asyncio.run(show_retry())
asyncio.run(show_other())
PYTHON
seen=$(node_modules/.bin/bun bun.mjs && node node.mjs && python/bin/python atomic.py)
echo "$seen"
[ "$seen" = "bun:sqlite: 500, 200 (known)
Drizzle on bun:sqlite: 500, 200 (known)
Bun's SQL: 500, 204
libsql: 500, 200 (known)
Drizzle on sql.js: 500, 200 (known)
peewee, as a decorator: 500, 200 (known)
peewee, another request during a block that fails: 204, 0 rows stored" ]
