#!/bin/bash
# `fetch` of Node.js 20.20.2 (undici 6.24.1) returns a chunked response that was cut off as a complete one, if its headers have
# `connection: close`, as all of gunicorn 27.0.1's sync workers do. gunicorn closes the connection if the application raises an
# error after the first part of the body, or its worker is killed. A body that is cut at the end of a line looks complete: `text()`
# and a reader of the stream show no error, where RFC 9112 has such a response as incomplete. The package undici 7.30.2 raises
# "terminated", but with the agent of Node.js, and no error, if the program has called Node's `fetch` before. With a length, and in
# Node.js 22.23 and 24.22, `fetch` raises it; node:http and axios 1.21.1 always raise an error. Hurt: receivers
# that fetch the result of a job by its link: they store a part of it as the whole, and the event counts as delivered.
# Source: https://www.rfc-editor.org/rfc/rfc9112#section-8
# Usage: findings/node-fetch-cut-responses.sh. Needs Node.js 20.20, npm, Python 3.11 with pip, PyPI and npm's registry. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund undici@7.30.2 axios@1.21.1
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check gunicorn==27.0.1
# The results of a job, a line each. The second part of the body fails, as if the database were away.
cat > results.py <<'PYTHON'
def lines():
    yield b'{"row":1}\n{"row":2}\n'
    raise RuntimeError("the database is away")


def app(environ, start_response):
    headers = [("content-type", "application/x-ndjson")]
    if environ["PATH_INFO"] == "/length":
        headers.append(("content-length", "30"))
    start_response("200 OK", headers)
    return lines()
PYTHON
cat > read.mjs <<'NODE'
import http from "node:http";
import axios from "axios";
import { Agent, fetch as fetchOfUndici } from "undici";

const [, , origin] = process.argv;
const found = {
  "fetch": async (url) => (await fetch(url)).text(),
  "fetch, reader": async (url) => {
    let text = "";
    for await (const part of (await fetch(url)).body) text += Buffer.from(part);
    return text;
  },
  "undici": async (url) => (await fetchOfUndici(url)).text(),
  "undici, its Agent": async (url) => (await fetchOfUndici(url, { dispatcher: new Agent() })).text(),
  "node:http": (url) =>
    new Promise((resolve, reject) => {
      http.get(url, (response) => {
        let text = "";
        response.on("data", (part) => (text += part)).on("end", () => resolve(text)).on("error", reject);
      });
    }),
  "axios": async (url) => (await axios.get(url)).data,
};
for (const path of ["/chunked", "/length"]) {
  for (const [name, call] of Object.entries(found)) {
    const lines = (text) => `${text.trimEnd().split("\n").length} lines`;
    const seen = await call(origin + path).then(lines, (error) => `error: ${error.message}`);
    console.log(`${path}, ${name}: ${seen}`);
  }
}
NODE
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python/bin/gunicorn --bind "127.0.0.1:$port" results:app > log 2>&1 &
server=$!
until curl --silent --output /dev/null "http://127.0.0.1:$port/length" || [ $? = 18 ]; do sleep 0.2; done
curl --silent --include "http://127.0.0.1:$port/chunked" > response || echo "curl: exit status $?"
grep --ignore-case '^connection\|^transfer' response
node --version
seen=$(node read.mjs "http://127.0.0.1:$port")
echo "$seen"
[ "$seen" = '/chunked, fetch: 2 lines
/chunked, fetch, reader: 2 lines
/chunked, undici: 2 lines
/chunked, undici, its Agent: error: terminated
/chunked, node:http: error: aborted
/chunked, axios: error: stream has been aborted
/length, fetch: error: terminated
/length, fetch, reader: error: terminated
/length, undici: error: terminated
/length, undici, its Agent: error: terminated
/length, node:http: error: aborted
/length, axios: error: stream has been aborted' ]
