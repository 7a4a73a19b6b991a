#!/bin/bash
# Inserts that skip a row which exists, whose results do not say so. TypeORM 1.1.1's `orIgnore()` returns the id and an empty
# `raw` both times on PostgreSQL, and its `save()` finds the row and raises no error. Sequelize 6.37.8 with `ignoreDuplicates`
# returns instances both times from `bulkCreate`, and raises SequelizeEmptyResultError from `create`; its `upsert` returns null
# instead of whether it inserted. Knex 3.3.0's `ignore()` and peewee 4.5.3's `on_conflict_ignore()` return on SQLite the row id
# of the last insert of the connection, which was an earlier one. Sequelize's `findOrCreate`, Kysely 0.28.19 and Drizzle 0.45.4
# say whether or how many rows were inserted. Hurt: receivers of webhooks that store each `webhook-id` like this and process
# the event if the result is not empty: each duplicate is processed again, or answered with 500 until its last attempt.
# Source: https://typeorm.io/docs/query-builder/insert-query-builder and https://knexjs.org/guide/query-builder.html#insert
# Usage: findings/orm-ignored-inserts.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and
# PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --legacy-peer-deps --ignore-scripts @electric-sql/pglite@0.5.17 \
  @electric-sql/pglite-socket@0.2.17 better-sqlite3@npm:libsql@0.5.29 drizzle-orm@0.45.4 knex@3.3.0 kysely@0.28.19 pg@8.23.1 reflect-metadata@0.2.2 \
  sequelize@6.37.8 typeorm@1.1.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check peewee==4.5.3
cat > insert.mjs <<'NODE'
import "reflect-metadata";
import { PGlite } from "@electric-sql/pglite";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";
import { drizzle } from "drizzle-orm/pglite";
import { pgTable, text } from "drizzle-orm/pg-core";
import knex from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { DataTypes, Sequelize } from "sequelize";
import { DataSource, EntitySchema } from "typeorm";

const port = Number(process.argv[2]);
const postgres = await PGlite.create();
await postgres.exec("CREATE TABLE event (id text PRIMARY KEY)");
const server = new PGLiteSocketServer({ db: postgres, port, host: "127.0.0.1", maxConnections: 5 });
await server.start();
const database = `postgres://postgres@127.0.0.1:${port}/postgres`;

/** Inserts an id twice, and prints both results. */
async function show(name, insert) {
  const results = [];
  for (let run = 0; run < 2; run += 1) {
    results.push(await insert().then((result) => JSON.stringify(result), (error) => error.name));
  }
  console.log(`${name}: ${results.join(" then ")}`);
}

const Event = new EntitySchema({ name: "event", columns: { id: { type: String, primary: true } } });
const typeorm = await new DataSource({ type: "postgres", url: database, entities: [Event], poolSize: 1 }).initialize();
const events = typeorm.getRepository(Event);
await show("TypeORM, orIgnore", () => events.createQueryBuilder().insert().values({ id: "msg_1" }).orIgnore().execute());
await show("TypeORM, save", () => events.save({ id: "msg_2" }));
await typeorm.destroy();

const sequelize = new Sequelize(database, { logging: false });
const options = { timestamps: false, freezeTableName: true };
const Model = sequelize.define("event", { id: { type: DataTypes.STRING, primaryKey: true } }, options);
await show("Sequelize, create", () => Model.create({ id: "msg_3" }, { ignoreDuplicates: true }));
await show("Sequelize, bulkCreate", () => Model.bulkCreate([{ id: "msg_4" }], { ignoreDuplicates: true }));
await show("Sequelize, upsert", async () => (await Model.upsert({ id: "msg_5" }))[1]);
await show("Sequelize, findOrCreate", async () => (await Model.findOrCreate({ where: { id: "msg_6" } }))[1]);
await sequelize.close();

const sqlite = knex({ client: "better-sqlite3", connection: { filename: ":memory:" }, useNullAsDefault: true });
await sqlite.schema.createTable("event", (table) => table.string("id").primary());
await sqlite("event").insert({ id: "msg_of_another_event" });
await show("Knex, ignore, SQLite", () => sqlite("event").insert({ id: "msg_7" }).onConflict("id").ignore());
await show("Knex, ignore and returning, SQLite", () =>
  sqlite("event").insert({ id: "msg_8" }).onConflict("id").ignore().returning("id"));
await sqlite.destroy();

const kysely = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: database, max: 1 }) }) });
await show("Kysely, doNothing", async () => {
  const insert = kysely.insertInto("event").values({ id: "msg_9" }).onConflict((conflict) => conflict.doNothing());
  return Number((await insert.executeTakeFirst()).numInsertedOrUpdatedRows);
});
await kysely.destroy();
const table = pgTable("event", { id: text().primaryKey() });
await show("Drizzle, onConflictDoNothing", async () =>
  (await drizzle(postgres).insert(table).values({ id: "msg_10" }).onConflictDoNothing()).affectedRows);
await server.stop();
process.exit();
NODE
cat > insert.py <<'PYTHON'
import peewee


class Event(peewee.Model):
    id = peewee.CharField(primary_key=True)

    class Meta:
        database = peewee.SqliteDatabase(":memory:")


Event.create_table()
Event.create(id="msg_of_another_event")
results = [Event.insert(id="msg_11").on_conflict_ignore().execute() for _ in range(2)]
print(f"peewee, on_conflict_ignore, SQLite: {results[0]} then {results[1]}")
PYTHON
seen=$(
  node insert.mjs $((20000 + $$ % 12000))
  python/bin/python insert.py
)
echo "$seen"
raw='{"identifiers":[{"id":"msg_1"}],"generatedMaps":[{}],"raw":[]}'
[ "$seen" = "TypeORM, orIgnore: $raw then $raw
"'TypeORM, save: {"id":"msg_2"} then {"id":"msg_2"}
Sequelize, create: {"id":"msg_3"} then SequelizeEmptyResultError
Sequelize, bulkCreate: [{"id":"msg_4"}] then [{"id":"msg_4"}]
Sequelize, upsert: null then null
Sequelize, findOrCreate: true then false
Knex, ignore, SQLite: [2] then [2]
Knex, ignore and returning, SQLite: [{"id":"msg_8"}] then []
Kysely, doNothing: 1 then 0
Drizzle, onConflictDoNothing: 1 then 0
peewee, on_conflict_ignore, SQLite: 2 then 2' ]
