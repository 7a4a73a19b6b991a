#!/bin/bash
# FastAPI 0.165.0 runs the code of a dependency after its `yield` when the response has been sent, as every version since
# 0.118, so a transaction that the dependency commits there is confirmed before it is committed: if the commit fails, the
# response is a 204 anyway, and the change is lost. FastAPI 0.117.1 and Litestar 2.25.0 commit first, and answer 500, as does
# FastAPI with `Depends(..., scope="function")`. dishka 1.10.1 commits after the response, too, also with Litestar. Hurt:
# receivers of webhooks whose session is a dependency that commits, as many written for FastAPI 0.106 to 0.117 are: an event
# that the database refused, or could not store, counts as delivered, and the sender does not repeat it.
# Source: https://fastapi.tiangolo.com/advanced/advanced-dependencies/
# Usage: findings/fastapi-late-commits.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check dishka==1.10.1 fastapi==0.165.0 litestar==2.25.0 starlette==1.10.0 \
  uvicorn==0.54.0
python/bin/pip install --quiet --disable-pip-version-check --target before fastapi==0.117.1 starlette==0.48.0
cat > receivers.py <<'PYTHON'
import http.client, sqlite3, sys, threading, time
from collections.abc import AsyncIterator
import fastapi, uvicorn


async def transaction() -> AsyncIterator[sqlite3.Connection]:
    """A transaction that is committed if the handler succeeds."""
    connection = sqlite3.connect("events.db")
    connection.execute("pragma foreign_keys = on")
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


def store(connection, request):
    # Whether the job exists is checked by the commit, because the table says so.
    job = request.headers["x-job"]
    connection.execute("insert into events (job) values (?)", (job,))


def with_fastapi(**options):
    app = fastapi.FastAPI()

    @app.post("/hook", status_code=204)
    async def hook(request: fastapi.Request, connection=fastapi.Depends(transaction, **options)):
        store(connection, request)

    return app


def with_litestar():
    import litestar, litestar.di

    @litestar.post("/hook", status_code=204, dependencies={"connection": litestar.di.Provide(transaction)})
    async def hook(request: litestar.Request, connection: sqlite3.Connection) -> None:
        store(connection, request)

    return litestar.Litestar([hook])


def container():
    import dishka

    provider = dishka.Provider(scope=dishka.Scope.REQUEST)
    provider.provide(transaction)
    return dishka.make_async_container(provider)


def with_dishka_in_fastapi():
    import dishka, dishka.integrations.fastapi as integration

    app = fastapi.FastAPI()

    @app.post("/hook", status_code=204)
    @integration.inject
    async def hook(request: fastapi.Request, connection: dishka.FromDishka[sqlite3.Connection]):
        store(connection, request)

    integration.setup_dishka(container(), app)
    return app


def with_dishka_in_litestar():
    import dishka, dishka.integrations.litestar as integration, litestar

    @litestar.post("/hook", status_code=204)
    @integration.inject
    async def hook(request: litestar.Request, connection: dishka.FromDishka[sqlite3.Connection]) -> None:
        store(connection, request)

    app = litestar.Litestar([hook])
    integration.setup_dishka(container(), app)
    return app


def seen(app):
    """The responses to events of a known job and an unknown one, and the number of those stored."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    database.execute("delete from events")
    statuses = []
    for job in "known", "unknown":
        connection = http.client.HTTPConnection("127.0.0.1", server.servers[0].sockets[0].getsockname()[1])
        connection.request("POST", "/hook", b"{}", {"content-type": "application/json", "x-job": job})
        statuses.append(connection.getresponse().status)
    # A commit after a response may still be running.
    time.sleep(0.5)
    return *statuses, database.execute("select count(*) from events").fetchone()[0]


database = sqlite3.connect("events.db", isolation_level=None)
database.executescript(
    """create table if not exists jobs (name text primary key);
    create table if not exists events (job text references jobs deferrable initially deferred);
    insert or ignore into jobs values ('known')"""
)
if sys.argv[1:] == ["before"]:
    found = {"FastAPI 0.117": seen(with_fastapi())}
    expected = {"FastAPI 0.117": (204, 500, 1)}
else:
    found = {
        "FastAPI": seen(with_fastapi()),
        "FastAPI, scope function": seen(with_fastapi(scope="function")),
        "Litestar": seen(with_litestar()),
        "dishka in FastAPI": seen(with_dishka_in_fastapi()),
        "dishka in Litestar": seen(with_dishka_in_litestar()),
    }
    expected = {
        "FastAPI": (204, 204, 1),
        "FastAPI, scope function": (204, 500, 1),
        "Litestar": (204, 500, 1),
        "dishka in FastAPI": (204, 204, 1),
        "dishka in Litestar": (204, 204, 1),
    }
for name, (known, unknown, stored) in found.items():
    print(f"{name}: {known} and {unknown}, {stored} stored")
sys.exit(found != expected)
PYTHON
python/bin/python receivers.py 2> log || { cat log; exit 1; }
PYTHONPATH=before python/bin/python receivers.py before 2> log || { cat log; exit 1; }
