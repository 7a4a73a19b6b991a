#!/bin/bash
# TypeORM 1.1.1 has a single connection to SQLite, with its drivers better-sqlite3 (here on libsql 0.5.29) and sqljs, and does
# not keep the requests apart that use it at the same time: a row that one request stores while a transaction of another is in
# progress belongs to that transaction, and so does a whole second transaction, which becomes a savepoint in it. If the first
# one fails, it rolls back what the others have stored, and they have reported a success. Bun 1.4.5's `SQL` lets a second
# transaction wait, but not a query outside one. With one aiosqlite 0.22.1 connection for all requests, the commit of one also
# stores what another one rolls back a moment later. Kysely 0.28.19 on libsql and Tortoise 1.1.9 let the others wait. Hurt:
# receivers of webhooks that store each `webhook-id` in the transaction that does the work: if the work for one event fails,
# other events that were answered with 204 at that time are lost, without an error.
# Sources: https://typeorm.io/docs/advanced-topics/transactions and https://bun.sh/docs/api/sql#transactions
# Usage: findings/shared-transactions.sh. Needs Node.js 20, Python 3.11 with pip, and the registries of npm and PyPI. Fails if
# the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund --legacy-peer-deps bun@1.4.5 kysely@0.28.19 libsql@0.5.29 reflect-metadata@0.2.2 \
  sql.js@1.17.0 typeorm@1.1.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check aiosqlite==0.22.1 tortoise-orm==1.1.9

# Each `show` receives msg_1, whose work fails, and msg_2 meanwhile: first with a plain insert, then in a transaction, too.
cat > show.mjs <<'NODE'
import { setTimeout as sleep } from "node:timers/promises";

export const TABLE = "create table event (id text primary key)";

export async function show(name, { transaction, insert, stored, clear }) {
  const respond = (promise) => promise.then(() => "204", () => "500");
  const ways = {
    "a plain insert": () => insert("msg_2"),
    "a transaction": () => transaction((insert) => insert("msg_2")),
  };
  for (const [way, receive] of Object.entries(ways)) {
    const first = respond(transaction(async (insert) => {
      await insert("msg_1");
      await sleep(200);
      throw new Error("Another service is away");
    }));
    await sleep(100);
    const second = respond(receive());
    const statuses = [await first, await second];
    console.log(`${name}, ${way}: ${statuses.join(" and ")}, stored: ${await stored()}`);
    await clear();
  }
}
NODE
cat > node.mjs <<'NODE'
import "reflect-metadata";
import { Kysely, SqliteDialect } from "kysely";
import Libsql from "libsql";
import { DataSource, EntitySchema } from "typeorm";
import { show, TABLE } from "./show.mjs";

const event = new EntitySchema({ name: "event", columns: { id: { type: String, primary: true } } });
for (const options of [{ type: "better-sqlite3", database: "events.sqlite", driver: Libsql }, { type: "sqljs" }]) {
  const source = new DataSource({ ...options, synchronize: true, entities: [event] });
  await source.initialize();
  await show(`TypeORM, ${options.type}`, {
    transaction: (work) => source.transaction((manager) => work((id) => manager.insert("event", { id }))),
    insert: (id) => source.getRepository("event").insert({ id }),
    stored: async () => (await source.getRepository("event").find()).map(({ id }) => id).join(" ") || "nothing",
    clear: () => source.getRepository("event").clear(),
  });
}

const database = new Libsql(":memory:");
database.exec(TABLE);
const builder = new Kysely({ dialect: new SqliteDialect({ database }) });
await show("Kysely", {
  transaction: (work) => builder.transaction().execute((transaction) =>
    work((id) => transaction.insertInto("event").values({ id }).execute())),
  insert: (id) => builder.insertInto("event").values({ id }).execute(),
  stored: async () => (await builder.selectFrom("event").selectAll().execute()).map(({ id }) => id).join(" ") || "nothing",
  clear: () => builder.deleteFrom("event").execute(),
});
process.exit();
NODE
cat > bun.mjs <<'NODE'
import { SQL } from "bun";
import { show, TABLE } from "./show.mjs";

const sql = new SQL("sqlite://bun.sqlite");
await sql.unsafe(TABLE);
await show("Bun's SQL", {
  transaction: (work) => sql.begin((transaction) => work((id) => transaction`insert into event values (${id})`)),
  insert: async (id) => await sql`insert into event values (${id})`,
  stored: async () => (await sql`select id from event`).map(({ id }) => id).join(" ") || "nothing",
  clear: async () => await sql`delete from event`,
});
process.exit();
NODE
cat > shared.py <<'PYTHON'
import asyncio, contextlib
import aiosqlite
from tortoise import Tortoise, fields, models
from tortoise.transactions import in_transaction


class Event(models.Model):
    id = fields.CharField(max_length=40, primary_key=True)


async def respond(work):
    try:
        await work
        return 204
    except ConnectionError:
        return 500


async def show(name, transaction, insert, stored):
    async def within(identifier, fails):
        async with transaction():
            await insert(identifier)
            if fails:
                await asyncio.sleep(0.2)
                raise ConnectionError("Another service is away")

    first = asyncio.create_task(respond(within("msg_1", True)))
    await asyncio.sleep(0.1)
    second = await respond(within("msg_2", False))
    print(f"{name}, a transaction: {await first} and {second}, stored: {' '.join(await stored())}")


async def main():
    await Tortoise.init(db_url="sqlite://tortoise.sqlite", modules={"models": ["__main__"]})
    await Tortoise.generate_schemas()
    await show("Tortoise", in_transaction, lambda id: Event.create(id=id), lambda: Event.all().values_list("id", flat=True))
    await Tortoise.close_connections()

    database = await aiosqlite.connect("aiosqlite.sqlite")
    await database.execute("create table event (id text primary key)")

    @contextlib.asynccontextmanager
    async def transaction():
        try:
            yield
            await database.commit()
        except BaseException:
            await database.rollback()
            raise

    async def stored():
        return [row[0] for row in await database.execute_fetchall("select id from event")]

    await show("aiosqlite", transaction, lambda id: database.execute("insert into event values (?)", [id]), stored)
    await database.close()


asyncio.run(main())
PYTHON
seen=$(
  node node.mjs
  node_modules/.bin/bun bun.mjs
  python/bin/python shared.py
)
echo "$seen"
[ "$seen" = "TypeORM, better-sqlite3, a plain insert: 500 and 204, stored: nothing
TypeORM, better-sqlite3, a transaction: 500 and 204, stored: nothing
TypeORM, sqljs, a plain insert: 500 and 204, stored: nothing
TypeORM, sqljs, a transaction: 500 and 204, stored: nothing
Kysely, a plain insert: 500 and 204, stored: msg_2
Kysely, a transaction: 500 and 204, stored: msg_2
Bun's SQL, a plain insert: 500 and 204, stored: nothing
Bun's SQL, a transaction: 500 and 204, stored: msg_2
Tortoise, a transaction: 500 and 204, stored: msg_2
aiosqlite, a transaction: 500 and 204, stored: msg_1 msg_2" ]
