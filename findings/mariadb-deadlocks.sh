#!/bin/bash
# A deadlock in MariaDB 10.11 rolls back the whole transaction, although only one statement fails, and its message says
# "try restarting transaction". A handler that repeats this statement succeeds: the statement runs outside that
# transaction, and the COMMIT is no error either. All that the transaction had stored before is gone. So it is with
# mysql2 3.24.6 and Knex 3.3.0 for Node.js, and with PyMySQL 1.2.4 and SQLAlchemy 2.1.9. Django 5.2.19 raises
# TransactionManagementError. MySQL rolls back the same way, by its manual; PostgreSQL refuses each statement after an
# error. Hurt: receivers of webhooks that store the `webhook-id` and update rows in one transaction, and repeat a
# statement that failed because of a lock: two events at once that update the same two rows are both answered with 204,
# and one of them is half done, without its id. Repeat the whole transaction.
# Source: https://dev.mysql.com/doc/refman/8.4/en/innodb-error-handling.html
# Usage: findings/mariadb-deadlocks.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${database:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libaio1=0.3.113-4 libnuma1=2.0.16-1 liburing2=2.3-3 \
  mariadb-server-core=1:10.11.19-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --ignore-scripts knex@3.3.0 mysql2@3.24.6
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check Django==5.2.19 PyMySQL==1.2.4 SQLAlchemy==2.1.9
port=$((20000 + $$ % 12000))
mkdir data
touch database.log
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mariadbd --no-defaults --user="$(id --user --name)" \
  --datadir="$folder/data" --socket="$folder/socket" --port="$port" --bind-address=127.0.0.1 --skip-grant-tables \
  --lc-messages-dir="$folder/usr/share/mysql" 2> database.log &
database=$!
for _ in {1..300}; do grep --quiet 'ready for connections' database.log && break; sleep 0.1; done

# Two handlers store their events and update the same two rows, in another order.
cat > receivers.py <<'PYTHON'
import sys, threading
import django, pymysql, sqlalchemy as sa
from django.conf import settings

pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 1, "final", 0)
server = {"host": "127.0.0.1", "port": int(sys.argv[1]), "user": "root"}
connection = pymysql.connect(**server, autocommit=True)
cursor = connection.cursor()
for statement in [
    "CREATE DATABASE receiver", "USE receiver", "CREATE TABLE event (id int PRIMARY KEY)",
    "CREATE TABLE customer (id int PRIMARY KEY, credit int)", "INSERT INTO customer VALUES (1, 0), (2, 0)",
]:
    cursor.execute(statement)
engine = sa.create_engine(f"mysql+pymysql://root@127.0.0.1:{server['port']}/receiver")
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.mysql", "NAME": "receiver", **{name.upper(): value for name, value in server.items()},
}})
django.setup()
from django.db import OperationalError, connections, models, transaction

INSERT, UPDATE = "INSERT INTO event VALUES (%s)", "UPDATE customer SET credit = credit + 1 WHERE id = %s"


class Customer(models.Model):
    credit = models.IntegerField()

    class Meta:
        app_label, db_table = "receiver", "customer"


class Event(models.Model):
    id = models.IntegerField(primary_key=True)

    class Meta:
        app_label, db_table = "receiver", "event"


def repeat(error, call):
    try:
        call()
    except error:
        call()


def with_pymysql(event, both):
    client = pymysql.connect(**server, database="receiver")
    client.begin()
    cursor = client.cursor()
    cursor.execute(INSERT, (event,))
    cursor.execute(UPDATE, (event,))
    both.wait()
    repeat(pymysql.err.OperationalError, lambda: cursor.execute(UPDATE, (3 - event,)))
    client.commit()


def with_sqlalchemy(event, both):
    with engine.begin() as client:
        client.exec_driver_sql(INSERT, (event,))
        client.exec_driver_sql(UPDATE, (event,))
        both.wait()
        repeat(sa.exc.OperationalError, lambda: client.exec_driver_sql(UPDATE, (3 - event,)))


def update(customer):
    Customer.objects.filter(id=customer).update(credit=models.F("credit") + 1)


def with_django(event, both):
    try:
        with transaction.atomic():
            Event.objects.create(id=event)
            update(event)
            both.wait()
            repeat(OperationalError, lambda: update(3 - event))
    finally:
        connections.close_all()


def whole_transaction(event, both):
    repeat(sa.exc.OperationalError, lambda: transaction_once(event, both))


def transaction_once(event, both):
    with engine.begin() as client:
        client.exec_driver_sql(INSERT, (event,))
        client.exec_driver_sql(UPDATE, (event,))
        if not getattr(both, "done", False):
            both.wait()
            both.done = True
        client.exec_driver_sql(UPDATE, (3 - event,))


for name, receive in {
    "PyMySQL": with_pymysql, "SQLAlchemy": with_sqlalchemy, "Django": with_django,
    "whole transaction": whole_transaction,
}.items():
    cursor.execute("DELETE FROM event")
    cursor.execute("UPDATE customer SET credit = 0")
    results, both = [], threading.Barrier(2)

    def handle(event):
        try:
            receive(event, both)
            results.append("success")
        except Exception as error:
            results.append(type(error).__name__)

    handlers = [threading.Thread(target=handle, args=(event,)) for event in [1, 2]]
    for handler in handlers:
        handler.start()
    for handler in handlers:
        handler.join()
    cursor.execute("SELECT (SELECT count(*) FROM event), (SELECT sum(credit) FROM customer)")
    stored, credit = cursor.fetchone()
    print(f"{name}: {' and '.join(sorted(results))}, {stored} of 2 events stored, {credit} of 4 updates", flush=True)
PYTHON
cat > receivers.mjs <<'NODE'
import knex from "knex";
import mysql from "mysql2/promise";

const INSERT = "INSERT INTO event VALUES (?)";
const UPDATE = "UPDATE customer SET credit = credit + 1 WHERE id = ?";
const connection = { host: "127.0.0.1", port: Number(process.argv[2]), user: "root", database: "receiver" };
const pool = mysql.createPool(connection);
const database = knex({ client: "mysql2", connection });

const work = async (query, event, both) => {
  await query(INSERT, [event]);
  await query(UPDATE, [event]);
  await both();
  await query(UPDATE, [3 - event]).catch(() => query(UPDATE, [3 - event]));
};
for (const [name, receive] of [
  ["mysql2", async (event, both) => {
    const client = await pool.getConnection();
    await client.beginTransaction();
    await work((...statement) => client.query(...statement), event, both);
    await client.commit();
    client.release();
  }],
  ["Knex", (event, both) => database.transaction((client) =>
    work((statement, values) => client.raw(statement, values), event, both))],
]) {
  await pool.query("DELETE FROM event");
  await pool.query("UPDATE customer SET credit = 0");
  let waiting = 0;
  let go;
  const arrived = new Promise((resolve) => { go = resolve; });
  const both = () => {
    waiting += 1;
    if (waiting === 2) go();
    return arrived;
  };
  const results = await Promise.allSettled([receive(1, both), receive(2, both)]);
  const names = results.map(({ reason }) => (reason ? reason.code : "success")).join(" and ");
  const [[{ stored, credit }]] = await pool.query(
    "SELECT (SELECT count(*) FROM event) AS stored, (SELECT sum(credit) FROM customer) AS credit");
  console.log(`${name}: ${names}, ${stored} of 2 events stored, ${credit} of 4 updates`);
}
process.exit();
NODE
seen=$(
  python/bin/python receivers.py "$port"
  node receivers.mjs "$port"
)
echo "$seen"
[ "$seen" = "PyMySQL: success and success, 1 of 2 events stored, 3 of 4 updates
SQLAlchemy: success and success, 1 of 2 events stored, 3 of 4 updates
Django: TransactionManagementError and success, 1 of 2 events stored, 2 of 4 updates
whole transaction: success and success, 2 of 2 events stored, 4 of 4 updates
mysql2: success and success, 1 of 2 events stored, 3 of 4 updates
Knex: success and success, 1 of 2 events stored, 3 of 4 updates" ]
