#!/bin/bash
# An error of the network that a mock makes does not reach the client's retries: with a server that closes the connection without
# a response, requests 2.34.2 with urllib3 2.8.0's `Retry`, axios-retry 4.5.0, got 14.6.6 and superagent 10.4.2 send a POST three
# times, but once in a test with PyPI's responses 0.26.3, requests-mock 1.12.1 and pook 2.1.6, npm's axios-mock-adapter 2.1.0
# (`networkError()`), msw 2.11.6 (`HttpResponse.error()`) and nock 14.0.17 (`replyWithError` with a text), because the mock
# replaces the part that repeats, or its error has no code. With requests-mock and pook, this also holds for a 503. nock with
# the code ECONNRESET, and respx 0.23.1 with httpx-retries 0.6.0, count three. Hurt: developers who test that a call of an API
# without an idempotency key is sent once if the connection breaks, or that a 503 is repeated: the test passes with one call,
# and in an outage the program issues three keys or sends three invitations.
# Source: https://github.com/ctimmerm/axios-mock-adapter#example and https://mswjs.io/docs/http/mocking-responses/error-responses
# Usage: findings/mocked-network-errors.sh. Needs Node.js 20, npm, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit axios@1.21.1 axios-mock-adapter@2.1.0 axios-retry@4.5.0 got@14.6.6 msw@2.11.6 nock@14.0.17 \
  superagent@10.4.2
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check httpx==0.28.1 httpx-retries==0.6.0 pook==2.1.6 requests==2.34.2 \
  requests-mock==1.12.1 responses==0.26.3 respx==0.23.1 urllib3==2.8.0
cat > server.py <<'PYTHON'
import http.server, sys


class Server(http.server.BaseHTTPRequestHandler):
    """Answers 503 for /503, the number of requests since the last GET for a GET, and otherwise closes without a response."""

    requests = 0

    def do_GET(self):
        self.answer(200, str(Server.requests).encode())
        Server.requests = 0

    def do_POST(self):
        Server.requests += 1
        self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/503":
            self.answer(503, b"")
        self.close_connection = True

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
PYTHON
cat > calls.py <<'PYTHON'
import sys, urllib.request
import httpx, httpx_retries, pook, requests, requests_mock, responses, respx, urllib3

REAL, MOCKED = sys.argv[1], "http://api.test"
BODY = {"name": "ci"}


def call_requests(url):
    session = requests.Session()
    retry = urllib3.Retry(2, allowed_methods=None, status_forcelist=[503], backoff_factor=0.01)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
    session.post(url, json=BODY)


def call_httpx(url):
    retry = httpx_retries.Retry(2, allowed_methods=["POST"], backoff_factor=0.01)
    with httpx.Client(transport=httpx_retries.RetryTransport(retry=retry)) as client:
        client.post(url, json=BODY)


def with_server(call, path):
    attempt(call, REAL + path)
    return int(urllib.request.urlopen(REAL).read())


def attempt(call, url):
    try:
        call(url)
    except (requests.RequestException, httpx.HTTPError):
        pass


def with_responses(path):
    with responses.RequestsMock() as mock:
        mock.post(MOCKED + path, **({"status": 503} if path == "/503" else {"body": requests.ConnectionError("closed")}))
        attempt(call_requests, MOCKED + path)
        return len(mock.calls)


def with_requests_mock(path):
    with requests_mock.Mocker() as mock:
        mock.post(MOCKED + path, **({"status_code": 503} if path == "/503" else {"exc": requests.ConnectionError}))
        attempt(call_requests, MOCKED + path)
        return mock.call_count


def with_pook(path):
    with pook.use():
        mock = pook.post(MOCKED + path, times=9)
        mock.reply(503) if path == "/503" else mock.error(ConnectionResetError("closed"))
        attempt(call_requests, MOCKED + path)
        return mock.calls


def with_respx(path):
    with respx.mock() as mock:
        route = mock.post(MOCKED + path)
        route.respond(503) if path == "/503" else route.mock(side_effect=httpx.RemoteProtocolError)
        attempt(call_httpx, MOCKED + path)
        return route.call_count


for path in "/close", "/503":
    print(f"{path}: requests, a server: {with_server(call_requests, path)}")
    print(f"{path}: requests, responses: {with_responses(path)}")
    print(f"{path}: requests, requests-mock: {with_requests_mock(path)}")
    print(f"{path}: requests, pook: {with_pook(path)}")
    print(f"{path}: httpx-retries, a server: {with_server(call_httpx, path)}")
    print(f"{path}: httpx-retries, respx: {with_respx(path)}")
PYTHON
cat > calls.mjs <<'NODE'
import axios from "axios";
import MockAdapter from "axios-mock-adapter";
import axiosRetry from "axios-retry";
import got from "got";
import { HttpResponse, http } from "msw";
import { setupServer } from "msw/node";
import nock from "nock";
import superagent from "superagent";

const [real, mocked] = [process.argv[2], "http://api.test"];
const json = { name: "ci" };
const client = axios.create();
axiosRetry(client, { retries: 2, retryDelay: () => 10 });
const calls = {
  "axios-retry": (url) => client.post(url, json),
  got: (url) => got.post(url, { json, retry: { limit: 2, methods: ["POST"], backoffLimit: 10 } }),
  superagent: (url) => superagent.post(url).send(json).retry(2),
};
const attempt = (call, url) => call(url).catch(() => {});

for (const [name, call] of Object.entries(calls)) {
  await attempt(call, `${real}/close`);
  console.log(`/close: ${name}, a server: ${await (await fetch(real)).text()}`);
}
let count = 0;
const closed = () => Object.assign(new Error("closed"), { code: "ECONNRESET" });
for (const [kind, error] of Object.entries({ "a text": "closed", ECONNRESET: closed() })) {
  for (const [name, call] of Object.entries(calls)) {
    count = 0;
    const scope = nock(mocked).persist();
    scope.post("/close").replyWithError(error);
    scope.on("request", () => count++);
    await attempt(call, `${mocked}/close`);
    nock.cleanAll();
    console.log(`/close: ${name}, nock, ${kind}: ${count}`);
  }
}
nock.restore();
const server = setupServer(
  http.post(`${mocked}/close`, () => {
    count++;
    return HttpResponse.error();
  }),
);
server.listen();
for (const [name, call] of Object.entries(calls)) {
  count = 0;
  await attempt(call, `${mocked}/close`);
  console.log(`/close: ${name}, msw: ${count}`);
}
server.close();
const mock = new MockAdapter(client);
mock.onPost().networkError();
await attempt(calls["axios-retry"], `${mocked}/close`);
console.log(`/close: axios-retry, axios-mock-adapter: ${mock.history.post.length}`);
NODE
port=$((20000 + $$ % 12000))
python3 server.py "$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
python/bin/python calls.py "http://127.0.0.1:$port" > seen
node calls.mjs "http://127.0.0.1:$port" >> seen
sed 's/$/ requests for one call/' seen
diff seen - <<'EXPECTED'
/close: requests, a server: 3
/close: requests, responses: 1
/close: requests, requests-mock: 1
/close: requests, pook: 1
/close: httpx-retries, a server: 3
/close: httpx-retries, respx: 3
/503: requests, a server: 3
/503: requests, responses: 3
/503: requests, requests-mock: 1
/503: requests, pook: 1
/503: httpx-retries, a server: 3
/503: httpx-retries, respx: 3
/close: axios-retry, a server: 3
/close: got, a server: 3
/close: superagent, a server: 3
/close: axios-retry, nock, a text: 1
/close: got, nock, a text: 1
/close: superagent, nock, a text: 1
/close: axios-retry, nock, ECONNRESET: 3
/close: got, nock, ECONNRESET: 3
/close: superagent, nock, ECONNRESET: 3
/close: axios-retry, msw: 1
/close: got, msw: 1
/close: superagent, msw: 1
/close: axios-retry, axios-mock-adapter: 1
EXPECTED
