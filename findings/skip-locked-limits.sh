#!/bin/bash
# A worker that takes one event from a table of PostgreSQL 15 with `WHERE id IN (SELECT id ... LIMIT 1 FOR UPDATE SKIP
# LOCKED)` takes all of them at once if the table's statistics are from a quiet time, when it had one event, or none
# that was new. The planner then expects one row, and runs the subquery again for each row of the table. Each run skips
# the rows that the same statement has changed already, and so finds the next one. A worker that reads the first row of
# RETURNING processes one event, and the others are deleted, or marked as taken. So do statements of SQLAlchemy 2.1.9,
# Knex 3.3.0 and Drizzle 0.45.4. A new table, and one that was analyzed while it was full, give one event, so tests
# pass, and the next ANALYZE of autovacuum hides the cause. Write `id = (SELECT ...)` for one event, or for several, `id
# = ANY (ARRAY (SELECT ...))`, or a WITH that is MATERIALIZED: PostgreSQL runs these once. Hurt: receivers of webhooks
# that store events in a table as their queue: if several events arrive together after a quiet hour, all but one are
# lost, although each was answered with 204.
# Source: https://github.com/QueueClassic/queue_classic/pull/320 and https://github.com/saurabhnanda/odd-jobs/issues/115
# Usage: findings/skip-locked-limits.sh. Needs apt-get of Debian 12, Node.js 20, npm's registry, Python 3.11 with pip,
# PyPI, and setpriv if it runs as root. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libldap-2.5-0=2.5.13+dfsg-5 libpq5=15.20-0+deb12u1 \
  postgresql-15=15.20-0+deb12u1
for package in *.deb; do dpkg --extract "$package" .; done
npm install --silent --no-audit --no-fund --legacy-peer-deps drizzle-orm@0.45.4 knex@3.3.0 pg@8.23.1
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check psycopg-binary==3.3.9 psycopg==3.3.9 SQLAlchemy==2.1.9
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
# The script analyzes the table itself, as autovacuum does from time to time.
run_postgres postgres -k "$folder/data" -h 127.0.0.1 -p "$PORT" -c autovacuum=off >> postgres.log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null && break; sleep 0.1; done
sleep 1

cat > take.mjs <<'NODE'
import { asc, inArray } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, jsonb, pgTable } from "drizzle-orm/pg-core";
import knex from "knex";

const connection = `postgres://postgres@127.0.0.1:${process.env.PORT}/postgres`;
if (process.argv[2] === "Knex") {
  const database = knex({ client: "pg", connection });
  const next = database("event").select("id").orderBy("id").limit(1).forUpdate().skipLocked();
  const [event] = await database("event").whereIn("id", next).delete().returning("id");
  console.log(event.id);
} else {
  const database = drizzle(connection);
  const events = pgTable("event", { id: bigint({ mode: "number" }).primaryKey(), payload: jsonb() });
  const next = database.select({ id: events.id }).from(events).orderBy(asc(events.id)).limit(1)
    .for("update", { skipLocked: true });
  const [event] = await database.delete(events).where(inArray(events.id, next)).returning();
  console.log(event.id);
}
process.exit();
NODE
cat > take.py <<'PYTHON'
import os, subprocess, sys
import psycopg, sqlalchemy as sa

PORT = os.environ["PORT"]
EVENTS = 20
connection = psycopg.connect(f"host=127.0.0.1 port={PORT} user=postgres dbname=postgres", autocommit=True)
engine = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{PORT}/postgres")
event = sa.table("event", sa.column("id"))


def fill(count):
    connection.execute("INSERT INTO event (payload) SELECT '{}' FROM generate_series(1, %s)", (count,))


def new_queue():
    connection.execute("DROP TABLE IF EXISTS event; CREATE TABLE event (id bigserial PRIMARY KEY, payload jsonb)")


def quiet_queue():
    """An empty queue that was analyzed while one event waited in it."""
    new_queue()
    fill(1)
    connection.execute("VACUUM ANALYZE event")
    connection.execute("DELETE FROM event")


def busy_queue():
    new_queue()
    fill(EVENTS)
    connection.execute("ANALYZE event; DELETE FROM event")


def kept_events():
    """A table of processed events, with an index of the new ones, that was analyzed while there was none."""
    new_queue()
    connection.execute("ALTER TABLE event ADD state text DEFAULT 'new'; CREATE INDEX ON event (id) WHERE state = 'new'")
    fill(1000)
    connection.execute("UPDATE event SET state = 'done'")
    connection.execute("VACUUM ANALYZE event")


def plain(statement):
    return lambda: connection.execute(statement).fetchone()


def with_sqlalchemy():
    next_event = sa.select(event.c.id).order_by(event.c.id).limit(1).with_for_update(skip_locked=True)
    with engine.begin() as session:
        session.execute(sa.delete(event).where(event.c.id.in_(next_event)).returning(event.c.id)).first()


def with_node(library):
    return lambda: subprocess.run(["node", "take.mjs", library], check=True, stdout=subprocess.DEVNULL)


NEXT = "SELECT id FROM event ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
NEW = "SELECT id FROM event WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
TAKE = "UPDATE event SET state = 'taken' WHERE state = 'new' AND id"
seen = []
for name, prepare, take in [
    ("DELETE, IN", quiet_queue, plain(f"DELETE FROM event WHERE id IN ({NEXT}) RETURNING *")),
    ("DELETE, IN, new table", new_queue, plain(f"DELETE FROM event WHERE id IN ({NEXT}) RETURNING *")),
    ("DELETE, IN, analyzed while full", busy_queue, plain(f"DELETE FROM event WHERE id IN ({NEXT}) RETURNING *")),
    ("SQLAlchemy", quiet_queue, with_sqlalchemy),
    ("Knex", quiet_queue, with_node("Knex")),
    ("Drizzle", quiet_queue, with_node("Drizzle")),
    ("DELETE, =", quiet_queue, plain(f"DELETE FROM event WHERE id = ({NEXT}) RETURNING *")),
    ("DELETE, = ANY (ARRAY)", quiet_queue, plain(f"DELETE FROM event WHERE id = ANY (ARRAY ({NEXT})) RETURNING *")),
    ("UPDATE, IN", kept_events, plain(f"{TAKE} IN ({NEW}) RETURNING *")),
    ("UPDATE, WITH", kept_events,
     plain(f"WITH next AS MATERIALIZED ({NEW}) {TAKE} IN (SELECT id FROM next) RETURNING *")),
]:
    prepare()
    fill(EVENTS)
    waiting = "SELECT count(*) FROM event" + (" WHERE state = 'new'" if prepare is kept_events else "")
    take()
    left = connection.execute(waiting).fetchone()[0]
    seen.append(EVENTS - left)
    print(f"{name}: the worker gets 1 of {EVENTS} events, and {left} wait", flush=True)
sys.exit(seen != [20, 1, 1, 20, 20, 20, 1, 1, 20, 1])
PYTHON
environment/bin/python take.py
