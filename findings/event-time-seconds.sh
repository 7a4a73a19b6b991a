#!/bin/bash
# On MariaDB 10.11, the usual types for a time drop the milliseconds without a warning, in the schemas that SQLAlchemy
# 2.1.9, peewee 4.5.3, Pony 0.7.20, Sequelize 6.37.8, Knex 3.3.0, TypeORM 1.1.1 and MikroORM 6.6.16 create: their
# `DATETIME` and `TIMESTAMP` have none. A receiver that ignores each event older than the last one of its job then
# applies an older one of the same second. MySQL, by its manual, and MariaDB with TIME_ROUND_FRACTIONAL round instead,
# so such a receiver also ignores newer events, unless Pony or Sequelize has dropped the milliseconds before. Django
# 5.2.19 keeps six digits. Hurt: receivers of webhooks that order events by their time: an old state of a job replaces
# a new one, and tests on SQLite pass. A precision of 3 helps: `DATE(3)` in Sequelize, `precision` in Knex, TypeORM and
# Pony, `length` in MikroORM, and `mysql.DATETIME(fsp=3)` in SQLAlchemy. peewee has no such option: store milliseconds.
# Source: https://dev.mysql.com/doc/refman/8.4/en/fractional-seconds.html
# Usage: findings/event-time-seconds.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${database:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libaio1=0.3.113-4 libnuma1=2.0.16-1 liburing2=2.3-3 \
  mariadb-server-core=1:10.11.19-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --ignore-scripts knex@3.3.0 @mikro-orm/core@6.6.16 \
  @mikro-orm/mariadb@6.6.16 mysql2@3.24.6 reflect-metadata@0.2.2 sequelize@6.37.8 typeorm@1.1.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check Django==5.2.19 peewee==4.5.3 pony==0.7.20 PyMySQL==1.2.4 \
  SQLAlchemy==2.1.9
port=$((20000 + $$ % 12000))
mkdir data
touch database.log
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/sbin/mariadbd --no-defaults --user="$(id --user --name)" \
  --datadir="$folder/data" --socket="$folder/socket" --port="$port" --bind-address=127.0.0.1 --skip-grant-tables \
  --lc-messages-dir="$folder/usr/share/mysql" 2> database.log &
database=$!
for _ in {1..300}; do grep --quiet 'ready for connections' database.log && break; sleep 0.1; done

# Each stores the time of the last event of a job, 12:00:05.900, and tells which of two other events it would apply.
cat > receivers.py <<'PYTHON'
import sys, warnings
from datetime import datetime
import django, peewee, pymysql, sqlalchemy as sa
from django.conf import settings
from pony import orm as pony
from sqlalchemy import orm
from sqlalchemy.dialects import mysql

server = {"host": "127.0.0.1", "port": int(sys.argv[1]), "user": "root"}
connection = pymysql.connect(**server, autocommit=True)
connection.cursor().execute("CREATE OR REPLACE DATABASE receiver")
last, older, newer = (datetime(2026, 12, 1, 12, 0, 5, milliseconds * 1000) for milliseconds in [900, 100, 950])
pymysql.install_as_MySQLdb()
pymysql.version_info = (2, 2, 1, "final", 0)


def say(name, at):
    applied = [event for event, time in {"older": older, "newer": newer}.items() if at < time]
    print(f"{name}: {', '.join(applied)}")


class Base(orm.DeclarativeBase):
    pass


class SqlAlchemyJob(Base):
    __tablename__ = "sqlalchemy"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    at: orm.Mapped[datetime]
    precise: orm.Mapped[datetime] = orm.mapped_column(mysql.DATETIME(fsp=3))


engine = sa.create_engine(f"mysql+pymysql://root@127.0.0.1:{server['port']}/receiver")
Base.metadata.create_all(engine)
with orm.Session(engine) as session, session.begin():
    session.add(SqlAlchemyJob(id=1, at=last, precise=last))
with orm.Session(engine) as session:
    job = session.get(SqlAlchemyJob, 1)
    say("SQLAlchemy", job.at)
    say("SQLAlchemy with a precision", job.precise)

database = peewee.MySQLDatabase("receiver", **server)


class PeeweeJob(peewee.Model):
    at = peewee.DateTimeField()

    class Meta:
        database = database


database.create_tables([PeeweeJob])
PeeweeJob.create(at=last)
say("peewee", PeeweeJob.get().at)

database = pony.Database("mysql", db="receiver", **server)


class PonyJob(database.Entity):
    at = pony.Required(datetime)
    precise = pony.Required(datetime, precision=3)


database.generate_mapping(create_tables=True)
with pony.db_session:
    PonyJob(at=last, precise=last)
with pony.db_session:
    job = PonyJob.select().first()
    say("Pony", job.at)
    say("Pony with a precision", job.precise)

options = {name.upper(): value for name, value in server.items()}
settings.configure(USE_TZ=False, DATABASES={"default": {
    "ENGINE": "django.db.backends.mysql", "NAME": "receiver", **options,
}})
django.setup()
from django.db import connection, models


class DjangoJob(models.Model):
    at = models.DateTimeField()

    class Meta:
        app_label = "receiver"


with connection.schema_editor() as editor:
    editor.create_model(DjangoJob)
DjangoJob.objects.create(id=1, at=last)
say("Django", DjangoJob.objects.get().at)
PYTHON
cat > receivers.cjs <<'NODE'
require("reflect-metadata");
const { knex } = require("knex");
const { EntitySchema: MikroSchema, MikroORM } = require("@mikro-orm/mariadb");
const { DataTypes, Sequelize } = require("sequelize");
const { DataSource, EntitySchema } = require("typeorm");

const server = { host: "127.0.0.1", port: Number(process.argv[2]), user: "root" };
const [last, older, newer] = [900, 100, 950].map((milliseconds) => new Date(`2026-12-01T12:00:05.${milliseconds}Z`));

function say(name, at) {
  const applied = Object.entries({ older, newer }).filter(([, time]) => at < time);
  console.log(`${name}: ${applied.map(([event]) => event).join(", ")}`);
}

function sayBoth(name, job) {
  say(name, job.at);
  say(`${name} with a precision`, job.precise);
}

async function main() {
  const sequelize = new Sequelize({ ...server, username: "root", database: "receiver", dialect: "mysql", logging: false });
  const Job = sequelize.define("sequelize", { at: DataTypes.DATE, precise: DataTypes.DATE(3) });
  await Job.sync();
  await Job.create({ at: last, precise: last });
  sayBoth("Sequelize", await Job.findOne());

  const database = knex({ client: "mysql2", connection: { ...server, database: "receiver" } });
  await database.schema.createTable("knex", (table) => {
    table.timestamp("at");
    table.timestamp("precise", { precision: 3 });
  });
  await database("knex").insert({ at: last, precise: last });
  sayBoth("Knex", await database("knex").first());

  const id = { type: Number, primary: true };
  const columns = { id, at: { type: Date }, precise: { type: Date, precision: 3 } };
  const TypeJob = new EntitySchema({ name: "typeorm", columns });
  const options = { ...server, username: "root", database: "receiver", entities: [TypeJob], synchronize: true };
  const source = await new DataSource({ type: "mariadb", ...options }).initialize();
  await source.getRepository(TypeJob).save({ id: 1, at: last, precise: last });
  sayBoth("TypeORM", await source.getRepository(TypeJob).findOneBy({ id: 1 }));

  const properties = { id: { type: "number", primary: true }, at: { type: "Date" }, precise: { type: "Date", length: 3 } };
  const MikroJob = new MikroSchema({ name: "mikro", properties });
  const mikro = await MikroORM.init({ ...server, dbName: "receiver", entities: [MikroJob] });
  await mikro.schema.updateSchema({ safe: true, dropTables: false });
  await mikro.em.fork().insert("mikro", { id: 1, at: last, precise: last });
  sayBoth("MikroORM", await mikro.em.fork().findOne("mikro", 1));
  process.exit();
}

main();
NODE
receivers() {
  python/bin/python receivers.py "$port"
  node receivers.cjs "$port"
}
echo "The last event of the job is from 12:00:05.900, the older one from .100, the newer one from .950. Applied:"
receivers | tee seen
python/bin/python - "$port" <<'PYTHON'
import pymysql, sys

connection = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root")
connection.cursor().execute("SET GLOBAL sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')")
PYTHON
echo "With TIME_ROUND_FRACTIONAL:"
receivers | tee rounded
for name in SQLAlchemy peewee Pony Sequelize Knex TypeORM MikroORM; do
  grep --quiet --line-regexp "$name: older, newer" seen
done
for name in SQLAlchemy Pony Sequelize Knex TypeORM MikroORM; do
  grep --quiet --line-regexp "$name with a precision: newer" seen
  grep --quiet --line-regexp "$name with a precision: newer" rounded
done
grep --quiet --line-regexp "Django: newer" seen
for name in SQLAlchemy peewee Knex TypeORM MikroORM; do grep --quiet --line-regexp "$name: " rounded; done
for name in Pony Sequelize; do grep --quiet --line-regexp "$name: older, newer" rounded; done
