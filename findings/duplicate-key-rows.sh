#!/bin/bash
# `INSERT ... ON DUPLICATE KEY UPDATE id = id`, the no-op that Drizzle's documentation recommends for MySQL, changes 1 row if the
# id is new and 0 if it is known. But mysql2 3.24.6, mysql 2.18.1 and mariadb 3.5.4 for Node.js, and with them Drizzle 0.45.4,
# Kysely 0.28.19 and TypeORM 1.1.1, report 1 for both on MariaDB 10.11, as do Django 5.2.19 and SQLAlchemy 2.1.9 with PyMySQL,
# because they ask the server for the rows found, not changed. PyMySQL 1.2.4, aiomysql 0.3.2, asyncmy 0.2.18 and peewee 4.5.3
# report 0. INSERT IGNORE reports 0 everywhere, and so does the no-op with `flags: ["-FOUND_ROWS"]` in mysql2. Hurt: receivers
# of webhooks that store each `webhook-id` like this and process the event if a row was affected: each duplicate is processed
# again, and a test on PyMySQL does not show it.
# Source: https://dev.mysql.com/doc/refman/8.4/en/insert-on-duplicate.html and https://orm.drizzle.team/docs/insert
# Usage: findings/duplicate-key-rows.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and PyPI.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${database:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libaio1=0.3.113-4 libnuma1=2.0.16-1 liburing2=2.3-3 \
  mariadb-server-core=1:10.11.19-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --legacy-peer-deps --ignore-scripts drizzle-orm@0.45.4 kysely@0.28.19 mariadb@3.5.4 \
  mysql@2.18.1 mysql2@3.24.6 reflect-metadata@0.2.2 typeorm@1.1.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check aiomysql==0.3.2 asyncmy==0.2.18 Django==5.2.19 peewee==4.5.3 \
  PyMySQL==1.2.4 SQLAlchemy==2.1.9
port=$((20000 + $$ % 12000))
mkdir data
touch database.log
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mariadbd --no-defaults --user="$(id --user --name)" --datadir="$folder/data" \
  --socket="$folder/socket" --port="$port" --bind-address=127.0.0.1 --skip-grant-tables \
  --lc-messages-dir="$folder/usr/share/mysql" 2> database.log &
database=$!
for _ in {1..300}; do grep --quiet 'ready for connections' database.log && break; sleep 0.1; done
cat > insert.mjs <<'NODE'
import "reflect-metadata";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/mysql2";
import { int, mysqlTable, varchar } from "drizzle-orm/mysql-core";
import { Kysely, MysqlDialect } from "kysely";
import mariadb from "mariadb";
import mysql from "mysql";
import callbacks from "mysql2";
import mysql2 from "mysql2/promise";
import { DataSource, EntitySchema } from "typeorm";

const NO_OP = "INSERT INTO event (id, size) VALUES (?, 1) ON DUPLICATE KEY UPDATE id = id";
const options = { host: "127.0.0.1", port: Number(process.argv[2]), user: "root" };
const setup = await mysql2.createConnection(options);
await setup.query("CREATE DATABASE receiver");
await setup.query("CREATE TABLE receiver.event (id varchar(60) PRIMARY KEY, size int)");
options.database = "receiver";

/** Inserts an id twice, and prints the numbers of affected rows. */
async function show(name, insert) {
  console.log(`${name}: ${await insert(name)}, ${await insert(name)}`);
}

const client = await mysql2.createConnection(options);
await show("mysql2", async (id) => (await client.query(NO_OP, [id]))[0].affectedRows);
await show("mysql2, IGNORE", async (id) => (await client.query("INSERT IGNORE INTO event VALUES (?, 1)", [id]))[0].affectedRows);
const changed = await mysql2.createConnection({ ...options, flags: ["-FOUND_ROWS"] });
await show("mysql2, -FOUND_ROWS", async (id) => (await changed.query(NO_OP, [id]))[0].affectedRows);
const old = mysql.createConnection(options);
await show("mysql", (id) => new Promise((resolve, reject) =>
  old.query(NO_OP, [id], (error, result) => (error ? reject(error) : resolve(result.affectedRows)))));
const connector = await mariadb.createConnection(options);
await show("mariadb", async (id) => (await connector.query(NO_OP, [id])).affectedRows);
const event = mysqlTable("event", { id: varchar({ length: 60 }).primaryKey(), size: int() });
const database = drizzle(mysql2.createPool(options));
await show("Drizzle", async (id) =>
  (await database.insert(event).values({ id, size: 1 }).onDuplicateKeyUpdate({ set: { id: sql`id` } }))[0].affectedRows);
await show("Drizzle, ignore", async (id) => (await database.insert(event).ignore().values({ id, size: 1 }))[0].affectedRows);
const builder = new Kysely({ dialect: new MysqlDialect({ pool: callbacks.createPool(options) }) });
await show("Kysely", async (id) => (await builder.insertInto("event").values({ id, size: 1 })
  .onDuplicateKeyUpdate(({ ref }) => ({ id: ref("id") })).executeTakeFirst()).numInsertedOrUpdatedRows);
const entities = [new EntitySchema({ name: "event", columns: { id: { type: String, primary: true }, size: { type: Number } } })];
const source = new DataSource({ ...options, type: "mariadb", username: "root", entities });
await source.initialize();
await show("TypeORM", async (id) => (await source.createQueryBuilder().insert().into("event").values({ id, size: 1 })
  .orUpdate(["size"], ["id"]).execute()).raw.affectedRows);
process.exit();
NODE
cat > insert.py <<'PYTHON'
import asyncio, sys
import aiomysql, asyncmy, django, peewee, pymysql, sqlalchemy
from django.conf import settings
from sqlalchemy.dialects.mysql import insert

NO_OP = "INSERT INTO event (id, size) VALUES (%s, 1) ON DUPLICATE KEY UPDATE id = id"
PORT = int(sys.argv[1])
# Django takes PyMySQL for mysqlclient, which would have to be compiled.
pymysql.install_as_MySQLdb()
DATABASE = {"ENGINE": "django.db.backends.mysql", "NAME": "receiver", "USER": "root", "HOST": "127.0.0.1", "PORT": PORT}
settings.configure(DATABASES={"default": DATABASE})
django.setup()
from django.db import connection

options = {"host": "127.0.0.1", "port": PORT, "user": "root", "db": "receiver", "autocommit": True}
client = pymysql.connect(**options)
cursor = client.cursor()
print(f"PyMySQL: {cursor.execute(NO_OP, ['PyMySQL'])}, {cursor.execute(NO_OP, ['PyMySQL'])}")


async def show(driver):
    client = await driver.connect(**options)
    async with client.cursor() as cursor:
        numbers = [await cursor.execute(NO_OP, [driver.__name__]) for _ in range(2)]
    client.close()
    print(f"{driver.__name__}: {numbers[0]}, {numbers[1]}")


asyncio.run(show(aiomysql))
asyncio.run(show(asyncmy))


class Event(peewee.Model):
    id = peewee.CharField(primary_key=True)
    size = peewee.IntegerField()

    class Meta:
        database = peewee.MySQLDatabase("receiver", host="127.0.0.1", port=PORT, user="root")


query = Event.insert(id="peewee", size=1).on_conflict(update={Event.id: Event.id})
print(f"peewee: {query.as_rowcount().execute()}, {query.as_rowcount().execute()}")
with connection.cursor() as cursor:
    numbers = []
    for _ in range(2):
        cursor.execute(NO_OP, ["Django"])
        numbers.append(cursor.rowcount)
print(f"Django: {numbers[0]}, {numbers[1]}")
engine = sqlalchemy.create_engine(f"mysql+pymysql://root@127.0.0.1:{PORT}/receiver")
columns = [sqlalchemy.Column("id", sqlalchemy.String(60)), sqlalchemy.Column("size", sqlalchemy.Integer)]
table = sqlalchemy.Table("event", sqlalchemy.MetaData(), *columns)
statement = insert(table).values(id="SQLAlchemy", size=1)
statement = statement.on_duplicate_key_update(id=statement.inserted.id)
with engine.begin() as client:
    print(f"SQLAlchemy: {client.execute(statement).rowcount}, {client.execute(statement).rowcount}")
PYTHON
seen=$(
  node insert.mjs "$port"
  python/bin/python insert.py "$port"
)
echo "$seen"
[ "$seen" = "mysql2: 1, 1
mysql2, IGNORE: 1, 0
mysql2, -FOUND_ROWS: 1, 0
mysql: 1, 1
mariadb: 1, 1
Drizzle: 1, 1
Drizzle, ignore: 1, 0
Kysely: 1, 1
TypeORM: 1, 1
PyMySQL: 1, 0
aiomysql: 1, 0
asyncmy: 1, 0
peewee: 1, 0
Django: 1, 1
SQLAlchemy: 1, 1" ]
