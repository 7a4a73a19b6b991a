#!/bin/bash
# FastAPI 0.165.0, BlackSheep 2.6.4 and Chalice 1.34.0 answer 200, and Litestar 2.25.0 answers 201, to a handler that returns
# `"", 401` as in Flask 3.1.3 and Quart 0.22.0: they send the pair as JSON, `["",401]`. Starlette 1.10.0 and Bottle 0.13.4
# answer 500. Hurt: receivers of webhooks that were moved from Flask, whose routes otherwise look the same: an event that was
# refused, or failed, counts as delivered, and the sender does not repeat it.
# Usage: findings/tuple-status.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check blacksheep==2.6.4 bottle==0.13.4 chalice==1.34.0 fastapi==0.165.0 \
  flask==3.1.3 litestar==2.25.0 quart==0.22.0 starlette==1.10.0 uvicorn==0.54.0
cat > receivers.py <<'PYTHON'
import http.client, sys, threading, time, wsgiref.simple_server
import blacksheep, bottle, chalice, chalice.test, fastapi, flask, litestar, quart, uvicorn
import starlette.applications, starlette.routing


async def hook():
    return "", 401


async def hook_of_starlette(_):
    return "", 401


@litestar.post("/hook")
async def hook_of_litestar() -> tuple[str, int]:
    return "", 401


asgi = {
    "BlackSheep": blacksheep.Application(),
    "FastAPI": fastapi.FastAPI(),
    "Litestar": litestar.Litestar([hook_of_litestar]),
    "Quart": quart.Quart("receiver"),
    "Starlette": starlette.applications.Starlette(
        routes=[starlette.routing.Route("/hook", hook_of_starlette, methods=["POST"])]
    ),
}
asgi["BlackSheep"].router.add_post("/hook", hook)
asgi["FastAPI"].post("/hook")(hook)
asgi["Quart"].post("/hook")(hook)
wsgi = {"Bottle": bottle.Bottle(), "Flask": flask.Flask("receiver")}
for app in wsgi.values():
    app.post("/hook")(lambda: ("", 401))
on_lambda = chalice.Chalice("receiver")
on_lambda.route("/hook", methods=["POST"])(lambda: ("", 401))


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


def serve(app):
    """The port of a server for this application."""
    if app in wsgi.values():
        server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return server.servers[0].sockets[0].getsockname()[1]


def post(app):
    connection = http.client.HTTPConnection("127.0.0.1", serve(app))
    connection.request("POST", "/hook", b"{}", {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read().decode()


found = {name: post(app) for name, app in (asgi | wsgi).items()}
with chalice.test.Client(on_lambda) as client:
    response = client.http.post("/hook", body=b"{}")
    found["Chalice"] = response.status_code, response.body.decode()
for name, (status, body) in sorted(found.items()):
    print(f"{name}: {status} {body[:30]}")
pair = '["",401]'
expected = {
    "BlackSheep": (200, pair), "Chalice": (200, pair), "FastAPI": (200, pair), "Litestar": (201, pair), "Flask": (401, ""),
    "Quart": (401, ""),
}
sys.exit({name: found[name] for name in expected} != expected or {found["Bottle"][0], found["Starlette"][0]} != {500})
PYTHON
python/bin/python receivers.py 2> log || { cat log; exit 1; }
