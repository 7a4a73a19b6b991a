#!/bin/bash
# The validating proxy of @stoplight/prism-cli 5.16.0 writes JSON anew in both directions, also if it finds no violation: a
# request reaches the upstream with other numbers, escapes and white space, so a signature of its bytes does not match, and
# of the response, 12345678901234567890 arrives as 12345678901234567000, and 1.50 as 1.5. Hurt: receivers
# behind the proxy, which reject signed events, and callers who test an API through it and see other values.
# Source: https://github.com/stoplightio/prism/blob/master/docs/guides/03-validation-proxy.md
# Usage: findings/prism-proxy-bodies.sh. Needs Python 3.11, Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @stoplight/prism-cli@5.16.0
cat > openapi.json <<'JSON'
{"openapi": "3.1.0", "info": {"title": "Receiver", "version": "1"}, "paths": {"/hook": {"post": {
  "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "required": ["job_id"]}}}},
  "responses": {"200": {"description": "Done", "content": {"application/json": {"schema": {"type": "object"}}}}}}}}}
JSON
# Answers with the body of the request, and saves it.
cat > upstream.py <<'PYTHON'
from http.server import BaseHTTPRequestHandler, HTTPServer


class Upstream(BaseHTTPRequestHandler):
    def do_POST(self):
        open("received.json", "wb").write(self.rfile.read(int(self.headers["content-length"])))
        body = open("sent.json", "rb").read()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Upstream)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
printf '{"job_id": "job-1", "result": {"id": 12345678901234567890, "rate": 1.50, "name": "\\u00e9"}}' > sent.json
rewritten='{"job_id":"job-1","result":{"id":12345678901234567000,"rate":1.5,"name":"é"}}'
: > prism.log
python3 upstream.py > upstream.txt &
until [ -s upstream.txt ]; do sleep 0.1; done
upstream=http://127.0.0.1:$(cat upstream.txt)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
node_modules/.bin/prism proxy openapi.json "$upstream" --host 127.0.0.1 --port "$port" > prism.log 2>&1 &
until grep --quiet "listening on" prism.log; do sleep 0.5; done

# Compares what arrives if the event is posted to this address.
expect() {
  local name=$1 url=$2 expected=$3
  curl --silent --show-error --header 'content-type: application/json' --data-binary @sent.json "$url/hook" > response.json
  printf '%s\n  the upstream gets %s\n  the caller gets   %s\n' "$name" "$(cat received.json)" "$(cat response.json)"
  [ "$(cat received.json)" = "$expected" ]
  [ "$(cat response.json)" = "$expected" ]
}
expect "without a proxy" "$upstream" "$(cat sent.json)"
expect "with Prism" "http://127.0.0.1:$port" "$rewritten"
if grep --quiet Violation prism.log; then exit 1; fi
