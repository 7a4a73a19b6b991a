#!/bin/bash
# mountebank 2.9.1 (npm), as a proxy that records (`proxyOnce`), changes JSON responses, although it passes requests on as they
# came: it writes them anew, so `1.50` becomes 1.5 and an integer above 53 bits another one, in the first response and in the
# record. With a predicate generator for the body, it answers a request with the record of another one whose body differs in
# upper and lower case only, and does not pass it on, because the predicates that it makes ignore case unless
# `caseSensitive` is set. Hurt: developers who record an API or their receiver of webhooks for tests: the results of jobs have
# other numbers than the API sent, and a receiver never sees the event of the job `Build-a` if that of `build-A` came before.
# Source: https://www.mbtest.org/docs/api/proxies
# Usage: findings/mountebank-records.sh. Needs Node.js 20, npm, Python 3, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${mountebank:-}" "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit mountebank@2.9.1
cat > server.py <<'PYTHON'
import http.server, sys


class Server(http.server.BaseHTTPRequestHandler):
    """Prints each body, and answers with numbers that JavaScript cannot keep."""

    def do_POST(self):
        with open("requests", "a") as requests:
            print(self.rfile.read(int(self.headers["content-length"])).decode(), file=requests)
        body = b'{"rate":1.50,"id":12345678901234567891}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
port=$((20000 + $$ % 12000))
cat > imposters.json <<JSON
{"imposters": [{"port": $((port - 5000)), "protocol": "http", "stubs": [{"responses": [{"proxy": {
  "to": "http://127.0.0.1:$((port - 10000))", "mode": "proxyOnce",
  "predicateGenerators": [{"matches": {"path": true, "body": true}}]}}]}]}]}
JSON
python3 server.py $((port - 10000)) &
server=$!
node node_modules/mountebank/bin/mb --port "$port" --configfile imposters.json --localOnly --nologfile > mb.log 2>&1 &
mountebank=$!
for one in $((port - 10000)) $((port - 5000)); do
  for _ in {1..200}; do (: < "/dev/tcp/127.0.0.1/$one") 2> /dev/null && break; sleep 0.1; done
done
{
  for body in '{"job_id":"build-A","rate":1.50}' '{"job_id":"Build-a","rate":1.50}'; do
    curl --silent --max-time 10 --header 'content-type: application/json' --data "$body" "http://127.0.0.1:$((port - 5000))/hook" |
      tr --delete ' \n'
    echo
  done
  echo 'passed on:'
  cat requests
} > seen
cat seen
[ "$(cat seen)" = '{"rate":1.5,"id":12345678901234567000}
{"rate":1.5,"id":12345678901234567000}
passed on:
{"job_id":"build-A","rate":1.50}' ]
