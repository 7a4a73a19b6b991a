#!/bin/bash
# The options of ORMs that skip a row whose key exists also skip, or change, a row that violates another constraint, if the
# database is SQLite or MariaDB, because they write INSERT OR IGNORE or INSERT IGNORE. On SQLite, Django 5.2.19's
# `bulk_create(ignore_conflicts=True)` and peewee 4.5.3's `on_conflict_ignore()` skip a row with NULL in a column that is NOT
# NULL, or that fails a CHECK. On MariaDB 10.11, `ignore()` of Knex 3.3.0, `orIgnore()` of TypeORM 1.1.1 and `ignoreDuplicates`
# of Sequelize 6.37.8 skip a row without the row that its foreign key names, and cut off a text that is too long. With
# PostgreSQL's ON CONFLICT DO NOTHING, all of them raise an error. Hurt: receivers of webhooks that insert each event like this
# and answer 200 to a duplicate: an event whose `workflow` is null, or whose customer is unknown, is answered with 200 and lost,
# and a long `workflow` is stored without its end.
# Source: https://www.sqlite.org/lang_conflict.html and https://mariadb.com/kb/en/insert-ignore/
# Usage: findings/ignored-violations.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, and PyPI.
# Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${database:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libaio1=0.3.113-4 libnuma1=2.0.16-1 liburing2=2.3-3 \
  mariadb-server-core=1:10.11.19-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --legacy-peer-deps --ignore-scripts knex@3.3.0 mysql2@3.22.3 reflect-metadata@0.2.2 \
  sequelize@6.37.8 typeorm@1.1.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check Django==5.2.19 peewee==4.5.3
mkdir data
touch database.log
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mariadbd --no-defaults --user="$(id --user --name)" --datadir="$folder/data" \
  --socket="$folder/socket" --skip-grant-tables --skip-networking --lc-messages-dir="$folder/usr/share/mysql" 2> database.log &
database=$!
for _ in {1..300}; do grep --quiet 'ready for connections' database.log && break; sleep 0.1; done
cat > mariadb.mjs <<'NODE'
import "reflect-metadata";
import knex from "knex";
import mysql from "mysql2/promise";
import { DataTypes, Sequelize } from "sequelize";
import { DataSource, EntitySchema } from "typeorm";

const socketPath = process.argv[2];
const client = await mysql.createConnection({ socketPath, user: "root" });
await client.query("CREATE DATABASE receiver");
await client.query("USE receiver");
await client.query("CREATE TABLE customer (id varchar(40) PRIMARY KEY)");
await client.query(`CREATE TABLE event (id varchar(40) PRIMARY KEY, workflow varchar(10), customer varchar(40),
  FOREIGN KEY (customer) REFERENCES customer (id))`);
const events = {
  "unknown customer": { id: "msg_1", workflow: "nightly", customer: "unknown" },
  "long workflow": { id: "msg_2", workflow: "difference-engine", customer: null },
};
async function show(name, insert) {
  for (const [event, values] of Object.entries(events)) {
    const result = await insert(values).then(() => "success", () => "error");
    const [rows] = await client.query("SELECT workflow FROM event WHERE id = ?", [values.id]);
    console.log(`${name}, ${event}: ${result}, ${rows[0]?.workflow ?? "not stored"}`);
  }
  await client.query("DELETE FROM event");
}

await show("MariaDB, plain insert", (event) => client.query("INSERT INTO event SET ?", [event]));
const builder = knex({ client: "mysql2", connection: { socketPath, user: "root", database: "receiver" } });
await show("MariaDB, Knex, ignore", (event) => builder("event").insert(event).onConflict("id").ignore());
const columns = { id: { type: String, primary: true }, workflow: { type: String }, customer: { type: String } };
const entities = [new EntitySchema({ name: "event", columns })];
const source = new DataSource({ type: "mariadb", socketPath, username: "root", database: "receiver", entities });
await source.initialize();
await show("MariaDB, TypeORM, orIgnore", (event) =>
  source.createQueryBuilder().insert().into("event").values(event).orIgnore().execute());
const sequelize = new Sequelize("receiver", "root", "", { dialect: "mysql", dialectOptions: { socketPath }, logging: false });
const Event = sequelize.define("event", {
  id: { type: DataTypes.STRING, primaryKey: true }, workflow: DataTypes.STRING, customer: DataTypes.STRING,
}, { timestamps: false, freezeTableName: true });
await show("MariaDB, Sequelize, ignoreDuplicates", (event) => Event.bulkCreate([event], { ignoreDuplicates: true }));
process.exit();
NODE
cat > sqlite.py <<'PYTHON'
import django, peewee
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
django.setup()
from django.db import connection, models

EVENTS = {"no workflow": {"workflow": None}, "negative size": {"workflow": "nightly", "size": -1}}


class Event(models.Model):
    id = models.TextField(primary_key=True)
    workflow = models.TextField()
    size = models.PositiveIntegerField(default=0)

    class Meta:
        app_label = "receiver"


class PeeweeEvent(peewee.Model):
    id = peewee.TextField(primary_key=True)
    workflow = peewee.TextField()
    size = peewee.IntegerField(default=0, constraints=[peewee.Check("size >= 0")])

    class Meta:
        database = peewee.SqliteDatabase(":memory:")


with connection.schema_editor() as editor:
    editor.create_model(Event)
PeeweeEvent.create_table()


def show(name, insert, count):
    for event, values in EVENTS.items():
        try:
            insert({"id": "msg_1", **values})
            result = "success"
        except Exception as error:
            result = "error"
        print(f"SQLite, {name}, {event}: {result}, {count()} stored")


show("Django, create", lambda event: Event.objects.create(**event), Event.objects.count)
show("Django, ignore_conflicts", lambda event: Event.objects.bulk_create([Event(**event)], ignore_conflicts=True), Event.objects.count)
show("peewee, on_conflict_ignore", lambda event: PeeweeEvent.insert(**event).on_conflict_ignore().execute(), PeeweeEvent.select().count)
PYTHON
seen=$(
  node mariadb.mjs "$folder/socket"
  python/bin/python sqlite.py
)
echo "$seen"
[ "$seen" = "MariaDB, plain insert, unknown customer: error, not stored
MariaDB, plain insert, long workflow: error, not stored
MariaDB, Knex, ignore, unknown customer: success, not stored
MariaDB, Knex, ignore, long workflow: success, difference
MariaDB, TypeORM, orIgnore, unknown customer: success, not stored
MariaDB, TypeORM, orIgnore, long workflow: success, difference
MariaDB, Sequelize, ignoreDuplicates, unknown customer: success, not stored
MariaDB, Sequelize, ignoreDuplicates, long workflow: success, difference
SQLite, Django, create, no workflow: error, 0 stored
SQLite, Django, create, negative size: error, 0 stored
SQLite, Django, ignore_conflicts, no workflow: success, 0 stored
SQLite, Django, ignore_conflicts, negative size: success, 0 stored
SQLite, peewee, on_conflict_ignore, no workflow: success, 0 stored
SQLite, peewee, on_conflict_ignore, negative size: success, 0 stored" ]
