#!/bin/bash
# SQLAlchemy 2.1.9 and SQLModel 0.0.50 keep the old values of an object of the session when `with_for_update()` selects
# its row again: PostgreSQL waits for the lock and returns the new values, and the session drops them, because the
# object is there already. So does `session.get(..., with_for_update=True)`, and with `expire_on_commit=False`, which
# SQLAlchemy recommends for asyncio, also if the object is from an earlier transaction. `em.lock()` of MikroORM 6.6.16
# locks a row and does not read it. So a handler that has looked at a customer, locks it, and adds to a value of it
# overwrites what another handler has added, although each held the lock. Django 5.2.19 and MikroORM's `findOne` with a
# `lockMode` give the new values. Add `execution_options(populate_existing=True)` to the statement, call
# `session.refresh(customer, with_for_update=True)`, or in MikroORM, `findOne` instead of `lock`. Hurt: receivers of
# webhooks that keep credits or counts of a customer in a row: if two events of one customer arrive at once, both are
# answered with 204, and the effect of one is lost.
# Source: https://docs.sqlalchemy.org/en/20/orm/queryguide/api.html#populate-existing
# Usage: findings/locked-rows.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip, PyPI,
# and setpriv if it runs as root. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libldap-2.5-0=2.5.13+dfsg-5 libpq5=15.20-0+deb12u1 \
  postgresql-15=15.20-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund @mikro-orm/core@6.6.16 @mikro-orm/postgresql@6.6.16
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check Django==5.2.19 psycopg-binary==3.3.9 psycopg==3.3.9 \
  SQLAlchemy==2.1.9 sqlmodel==0.0.50
export PORT=$((20000 + $$ % 12000))
# PostgreSQL does not run as root.
mkdir data
other=()
if [ "$(id --user)" = 0 ]; then
  chmod 711 .
  chown 65534 data
  other=(setpriv --reuid 65534 --clear-groups)
fi
run_postgres() {
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu exec "${other[@]}" "usr/lib/postgresql/15/bin/$1" \
    -D "$folder/data" "${@:2}"
}
(run_postgres initdb --username postgres --auth trust --no-sync > initdb.log)
run_postgres postgres -k "$folder/data" -h 127.0.0.1 -p "$PORT" >> postgres.log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null && break; sleep 0.1; done
sleep 1

# Two handlers look at a customer, lock it, and add 1 to its credit, each in a transaction.
cat > receivers.py <<'PYTHON'
import os, threading
import django, psycopg, sqlalchemy as sa, sqlalchemy.orm as orm, sqlmodel
from django.conf import settings

server = {"host": "127.0.0.1", "port": os.environ["PORT"], "user": "postgres"}
connection = psycopg.connect(**server, dbname="postgres", autocommit=True)
connection.execute("CREATE TABLE customer (id int PRIMARY KEY, credit int); INSERT INTO customer VALUES (1, 0)")
engine = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server['port']}/postgres")
both = threading.Barrier(2)


class Base(orm.DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    credit: orm.Mapped[int]


class CustomerModel(sqlmodel.SQLModel, table=True):
    __tablename__ = "customer"
    id: int = sqlmodel.Field(primary_key=True)
    credit: int


LOCKED = sa.select(Customer).where(Customer.id == 1).with_for_update()


def in_session(lock):
    def handle():
        with orm.Session(engine) as session, session.begin():
            customer = session.get(Customer, 1)
            assert customer.credit == 0
            both.wait()
            lock(session).credit += 1

    return handle


def refreshed(session):
    customer = session.get(Customer, 1)
    session.refresh(customer, with_for_update=True)
    return customer


def in_two_transactions():
    with orm.Session(engine, expire_on_commit=False) as session:
        with session.begin():
            customer = session.get(Customer, 1)
        both.wait()
        with session.begin():
            session.scalars(LOCKED).one().credit += 1
    assert customer.credit == 1


def with_sqlmodel():
    with sqlmodel.Session(engine) as session:
        customer = session.get(CustomerModel, 1)
        assert customer.credit == 0
        both.wait()
        session.exec(sqlmodel.select(CustomerModel).where(CustomerModel.id == 1).with_for_update()).one().credit += 1
        session.commit()


settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres",
    **{name.upper(): value for name, value in server.items()},
}})
django.setup()
from django.db import connections, models, transaction


class DjangoCustomer(models.Model):
    credit = models.IntegerField()

    class Meta:
        app_label, db_table = "receiver", "customer"


def with_django():
    with transaction.atomic():
        customer = DjangoCustomer.objects.get(pk=1)
        assert customer.credit == 0
        both.wait()
        locked = DjangoCustomer.objects.select_for_update().get(pk=1)
        locked.credit += 1
        locked.save()
    connections.close_all()


for name, handle in {
    "SQLAlchemy, select": in_session(lambda session: session.scalars(LOCKED).one()),
    "SQLAlchemy, get": in_session(lambda session: session.get(Customer, 1, with_for_update=True)),
    "SQLAlchemy, expire_on_commit=False": in_two_transactions,
    "SQLModel, select": with_sqlmodel,
    "SQLAlchemy, populate_existing": in_session(
        lambda session: session.scalars(LOCKED.execution_options(populate_existing=True)).one()),
    "SQLAlchemy, refresh": in_session(refreshed),
    "Django": with_django,
}.items():
    connection.execute("UPDATE customer SET credit = 0")
    handlers = [threading.Thread(target=handle) for _ in range(2)]
    for handler in handlers:
        handler.start()
    for handler in handlers:
        handler.join()
    print(f"{name}: 2 events, credit {connection.execute('SELECT credit FROM customer').fetchone()[0]}", flush=True)
PYTHON
cat > receivers.mjs <<'NODE'
import { EntitySchema, LockMode, MikroORM } from "@mikro-orm/postgresql";

const Customer = new EntitySchema({
  name: "Customer", tableName: "customer",
  properties: { id: { type: "number", primary: true }, credit: { type: "number" } },
});
const orm = await MikroORM.init({
  entities: [Customer], dbName: "postgres", host: "127.0.0.1", port: Number(process.env.PORT), user: "postgres",
});
const database = orm.em.getConnection();

async function show(name, lock) {
  await database.execute("UPDATE customer SET credit = 0");
  let looked = 0;
  let go;
  const both = new Promise((resolve) => { go = resolve; });
  const handle = () => orm.em.fork().transactional(async (em) => {
    const customer = await em.findOne(Customer, 1);
    looked += 1;
    if (looked === 2) go();
    await both;
    await lock(em, customer);
    customer.credit += 1;
  });
  await Promise.all([handle(), handle()]);
  const [{ credit }] = await database.execute("SELECT credit FROM customer");
  console.log(`${name}: 2 events, credit ${credit}`);
}

await show("MikroORM, lock", (em, customer) => em.lock(customer, LockMode.PESSIMISTIC_WRITE));
await show("MikroORM, findOne", (em) => em.findOne(Customer, 1, { lockMode: LockMode.PESSIMISTIC_WRITE }));
await orm.close();
NODE
seen=$(
  environment/bin/python receivers.py
  node receivers.mjs
)
echo "$seen"
[ "$seen" = "SQLAlchemy, select: 2 events, credit 1
SQLAlchemy, get: 2 events, credit 1
SQLAlchemy, expire_on_commit=False: 2 events, credit 1
SQLModel, select: 2 events, credit 1
SQLAlchemy, populate_existing: 2 events, credit 2
SQLAlchemy, refresh: 2 events, credit 2
Django: 2 events, credit 2
MikroORM, lock: 2 events, credit 1
MikroORM, findOne: 2 events, credit 2" ]
