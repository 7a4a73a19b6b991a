#!/bin/bash
# A transaction that catches a unique violation on PostgreSQL (here PGlite 0.5, which is PostgreSQL's own code) and goes on to
# its end reports a success and stores nothing. The server answers ROLLBACK to the COMMIT of a failed transaction, which is no
# error, and pg 8.23.1 for Node.js, Knex 3.3.0, Sequelize 6.37.8, TypeORM 1.1.1, Drizzle 0.45.4 on pg, psycopg 3.3.9, psycopg2
# 2.9.13, asyncpg 0.32.0, peewee 4.5.3 and PHP 8.2's PDO take it as a commit. Kysely 0.28.19, postgres.js 3.4.9 and pg8000
# 1.31.6 raise an error. On SQLite, the same code stores the rest, but Django 5.2.19 (`atomic`, `ATOMIC_REQUESTS`) and a session
# of SQLAlchemy 2.1.9 whose `flush` failed within `begin()` roll back without an error there, too. Hurt: receivers of webhooks
# that store an event and its customer in one transaction, and ignore the error if the customer exists: each event of a known
# customer is answered with 204 and lost, with its `webhook-id`, and most tests with SQLite pass. Insert with ON CONFLICT DO
# NOTHING, or within a savepoint: a nested `atomic()`, `begin_nested()` or `transaction()`.
# Source: https://github.com/pgjdbc/pgjdbc/issues/1968 (since 42.2.11, JDBC raises an error) and
# https://github.com/rust-postgres/rust-postgres/pull/1342
# Usage: findings/caught-violations.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and PyPI.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet php8.2-cli=8.2.36-1~deb12u1 php8.2-common=8.2.36-1~deb12u1 \
  php8.2-pgsql=8.2.36-1~deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --legacy-peer-deps --ignore-scripts @electric-sql/pglite@0.5.17 \
  @electric-sql/pglite-socket@0.2.17 drizzle-orm@0.45.4 knex@3.3.0 kysely@0.28.19 pg@8.23.1 postgres@3.4.9 \
  reflect-metadata@0.2.2 sequelize@6.37.8 typeorm@1.1.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check asyncpg==0.32.0 Django==5.2.19 peewee==4.5.3 pg8000==1.31.6 \
  psycopg-binary==3.3.9 psycopg==3.3.9 psycopg2-binary==2.9.13 SQLAlchemy==2.1.9
export PORT=$((20000 + $$ % 12000))
cat > server.mjs <<'NODE'
import { PGlite } from "@electric-sql/pglite";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";

const db = await PGlite.create();
await db.exec(`CREATE TABLE customer (id text PRIMARY KEY); INSERT INTO customer VALUES ('known');
  CREATE TABLE event (id text PRIMARY KEY)`);
await new PGLiteSocketServer({ db, host: "127.0.0.1", port: Number(process.env.PORT), maxConnections: 20 }).start();
NODE
node server.mjs &
server=$!
for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null && break; sleep 0.1; done

# Each receiver stores an event, then adds its customer unless there is one, and commits.
cat > receivers.mjs <<'NODE'
import "reflect-metadata";
import { drizzle } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";
import knex from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { DataTypes, Sequelize } from "sequelize";
import { DataSource, EntitySchema } from "typeorm";

const url = `postgres://postgres@127.0.0.1:${process.env.PORT}/postgres`;
const pool = new pg.Pool({ connectionString: url, max: 2 });
const known = { id: "known" };

async function show(name, receive) {
  const result = await receive({ id: name }).then(() => "success", () => "error");
  const { rows } = await pool.query("SELECT id FROM event WHERE id = $1", [name]);
  console.log(`${name}: ${result}, ${rows.length} stored`);
}

await show("pg", async (event) => {
  const client = await pool.connect();
  await client.query("BEGIN");
  await client.query("INSERT INTO event VALUES ($1)", [event.id]);
  await client.query("INSERT INTO customer VALUES ('known')").catch(() => {});
  await client.query("COMMIT");
  client.release();
});
const sql = postgres(url, { max: 1 });
await show("postgres.js", (event) => sql.begin(async (transaction) => {
  await transaction`INSERT INTO event VALUES (${event.id})`;
  await transaction`INSERT INTO customer VALUES ('known')`.catch(() => {});
}));
const database = knex({ client: "pg", connection: url });
await show("Knex", (event) => database.transaction(async (transaction) => {
  await transaction("event").insert(event);
  await transaction("customer").insert(known).catch(() => {});
}));
const sequelize = new Sequelize(url, { logging: false });
const [Events, Customers] = ["event", "customer"].map((name) => sequelize.define(
  name, { id: { type: DataTypes.STRING, primaryKey: true } }, { timestamps: false, freezeTableName: true }));
await show("Sequelize", (event) => sequelize.transaction(async (transaction) => {
  await Events.create(event, { transaction });
  await Customers.create(known, { transaction }).catch(() => {});
}));
const entities = ["event", "customer"].map((name) => new EntitySchema({ name, columns: { id: { type: String, primary: true } } }));
const source = await new DataSource({ type: "postgres", url, entities }).initialize();
await show("TypeORM", (event) => source.transaction(async (manager) => {
  await manager.insert("event", event);
  await manager.insert("customer", known).catch(() => {});
}));
const kysely = new Kysely({ dialect: new PostgresDialect({ pool }) });
await show("Kysely", (event) => kysely.transaction().execute(async (transaction) => {
  await transaction.insertInto("event").values(event).execute();
  await transaction.insertInto("customer").values(known).execute().catch(() => {});
}));
const [events, customers] = ["event", "customer"].map((name) => pgTable(name, { id: text().primaryKey() }));
await show("Drizzle", (event) => drizzle(pool).transaction(async (transaction) => {
  await transaction.insert(events).values(event);
  await transaction.insert(customers).values(known).catch(() => {});
}));
process.exit();
NODE
cat > receivers.py <<'PYTHON'
import asyncio, contextlib, os
import asyncpg, pg8000.dbapi, peewee, psycopg, psycopg2, sqlalchemy as sa, sqlalchemy.orm as orm

server = {"host": "127.0.0.1", "port": int(os.environ["PORT"]), "user": "postgres"}
postgres = {"dbname": "postgres", **server}
EVENT, CUSTOMER = "INSERT INTO event VALUES (%s)", "INSERT INTO customer VALUES ('known')"


def show(name, receive, count):
    try:
        receive(name)
        result = "success"
    except Exception:
        result = "error"
    print(f"{name}: {result}, {count(name)} stored", flush=True)


def count(name):
    with psycopg.connect(**postgres) as connection:
        return connection.execute("SELECT count(*) FROM event WHERE id = %s", (name,)).fetchone()[0]


def with_psycopg(name):
    with psycopg.connect(**postgres) as connection:
        connection.execute(EVENT, (name,))
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            connection.execute(CUSTOMER)


def with_psycopg2(name):
    with psycopg2.connect(**postgres) as connection, connection.cursor() as cursor:
        cursor.execute(EVENT, (name,))
        with contextlib.suppress(psycopg2.errors.UniqueViolation):
            cursor.execute(CUSTOMER)


def with_pg8000(name):
    connection = pg8000.dbapi.connect(database="postgres", **server)
    connection.cursor().execute(EVENT, (name,))
    with contextlib.suppress(pg8000.dbapi.DatabaseError):
        connection.cursor().execute(CUSTOMER)
    connection.commit()


def with_asyncpg(name):
    async def receive():
        connection = await asyncpg.connect(database="postgres", **server)
        async with connection.transaction():
            await connection.execute("INSERT INTO event VALUES ($1)", name)
            with contextlib.suppress(asyncpg.UniqueViolationError):
                await connection.execute(CUSTOMER)

    asyncio.run(receive())


show("psycopg", with_psycopg, count)
show("psycopg2", with_psycopg2, count)
show("pg8000", with_pg8000, count)
show("asyncpg", with_asyncpg, count)

for name, database in {
    "peewee": peewee.PostgresqlDatabase("postgres", **server), "peewee, SQLite": peewee.SqliteDatabase(":memory:"),
}.items():
    Event, Customer = (
        type(table, (peewee.Model,), {"id": peewee.TextField(primary_key=True), "Meta": type("Meta", (), {"database": database})})
        for table in ["event", "customer"]
    )
    if "SQLite" in name:
        database.create_tables([Event, Customer])
        Customer.create(id="known")

    def with_peewee(event):
        with database.atomic():
            Event.create(id=event)
            with contextlib.suppress(peewee.IntegrityError):
                Customer.create(id="known")

    show(name, with_peewee, lambda event: Event.select().where(Event.id == event).count())


class Base(orm.DeclarativeBase):
    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)


class Event(Base):
    __tablename__ = "event"


class Customer(Base):
    __tablename__ = "customer"


address = f"postgresql+psycopg://postgres@127.0.0.1:{server['port']}/postgres"
for name, engine in {
    "SQLAlchemy, session": sa.create_engine(address),
    "SQLAlchemy, session, SQLite": sa.create_engine("sqlite://", poolclass=sa.StaticPool),
}.items():
    if "SQLite" in name:
        Base.metadata.create_all(engine)
        with orm.Session(engine) as session, session.begin():
            session.add(Customer(id="known"))

    def with_session(event):
        with orm.Session(engine) as session, session.begin():
            session.add(Event(id=event))
            with contextlib.suppress(sa.exc.IntegrityError):
                session.add(Customer(id="known"))
                session.flush()

    def count_in_engine(event):
        with orm.Session(engine) as session:
            return len(session.scalars(sa.select(Event).where(Event.id == event)).all())

    show(name, with_session, count_in_engine)
PYTHON
cat > django_receiver.py <<'PYTHON'
import os, sys
import django
from django.conf import settings

DATABASES = {
    "PostgreSQL": {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": os.environ["PORT"], "USER": "postgres", "NAME": "postgres"},
    "SQLite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}
engine = sys.argv[1]
settings.configure(
    ALLOWED_HOSTS=["*"], DATABASES={"default": {**DATABASES[engine], "ATOMIC_REQUESTS": True}}, ROOT_URLCONF=__name__)
django.setup()
from django.db import IntegrityError, connection, models, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import path


class Event(models.Model):
    id = models.TextField(primary_key=True)

    class Meta:
        app_label, db_table = "receiver", "event"


class Customer(models.Model):
    id = models.TextField(primary_key=True)

    class Meta:
        app_label, db_table = "receiver", "customer"


def hook(request):
    Event.objects.create(id="Django")
    try:
        Customer.objects.create(id="known")
    except IntegrityError:
        pass
    return HttpResponse(status=204)


def nested(request):
    Event.objects.create(id="Django, nested")
    try:
        with transaction.atomic():
            Customer.objects.create(id="known")
    except IntegrityError:
        pass
    return HttpResponse(status=204)


urlpatterns = [path("hook", hook), path("nested", nested)]
if engine == "SQLite":
    with connection.schema_editor() as editor:
        editor.create_model(Event)
        editor.create_model(Customer)
    Customer.objects.create(id="known")
for url, name in {"/hook": "Django", "/nested": "Django, nested"}.items():
    status = Client().post(url).status_code
    print(f"{name}, {engine}: {status}, {Event.objects.filter(id=name).count()} stored")
PYTHON
cat > receiver.php <<'PHP'
<?php
$pdo = new PDO("pgsql:host=127.0.0.1;port={$_SERVER['PORT']};dbname=postgres;user=postgres");
$pdo->beginTransaction();
$pdo->exec("INSERT INTO event VALUES ('PDO')");
try {
    $pdo->exec("INSERT INTO customer VALUES ('known')");
} catch (PDOException) {
}
$result = $pdo->commit() ? "success" : "error";
echo "PDO: $result, " . $pdo->query("SELECT count(*) FROM event WHERE id = 'PDO'")->fetchColumn() . " stored\n";
PHP
extensions=$folder/usr/lib/php/20220829
seen=$(
  node receivers.mjs
  python/bin/python receivers.py
  python/bin/python django_receiver.py PostgreSQL
  python/bin/python django_receiver.py SQLite
  usr/bin/php8.2 --no-php-ini -d "extension=$extensions/pdo.so" -d "extension=$extensions/pdo_pgsql.so" receiver.php
)
echo "$seen"
[ "$seen" = "pg: success, 0 stored
postgres.js: error, 0 stored
Knex: success, 0 stored
Sequelize: success, 0 stored
TypeORM: success, 0 stored
Kysely: error, 0 stored
Drizzle: success, 0 stored
psycopg: success, 0 stored
psycopg2: success, 0 stored
pg8000: error, 0 stored
asyncpg: success, 0 stored
peewee: success, 0 stored
peewee, SQLite: success, 1 stored
SQLAlchemy, session: success, 0 stored
SQLAlchemy, session, SQLite: success, 0 stored
Django, PostgreSQL: 204, 0 stored
Django, nested, PostgreSQL: 204, 1 stored
Django, SQLite: 204, 0 stored
Django, nested, SQLite: 204, 1 stored
PDO: success, 0 stored" ]
