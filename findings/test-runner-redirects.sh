#!/bin/bash
# newman 6.2.2 (Postman), Bruno 4.1.0, httpYac 6.16.7 and Playwright 1.65.1 follow redirects by default, so a test of a receiver
# passes although every webhook to it fails: senders of webhooks do not follow redirects. After a 301, as for a missing slash or
# for http instead of https, newman, Bruno and Playwright send a GET without the body and pass if the other address answers it
# with 2xx, so the receiver has not seen the event; httpYac sends the POST. SuperTest 7.3.2 shows the redirect, as do pactum and
# HTTPie. Hurt: developers of receivers: the test of the endpoint's URL is green, and each delivery fails.
# Source: https://learning.postman.com/docs/sending-requests/create-requests/request-settings/
# Usage: findings/test-runner-redirects.sh. Needs Node.js 20, npm, and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @playwright/test@1.65.1 @usebruno/cli@4.1.0 httpyac@6.16.7 newman@6.2.2 supertest@7.3.2
# Logs the requests. It answers 301 and 307 with a redirect to /hook, and 204 there.
cat > server.mjs <<'NODE'
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";

const server = createServer(async (request, response) => {
  let length = 0;
  for await (const chunk of request) length += chunk.length;
  const status = Number(request.url.slice(1)) || 204;
  console.log(`${request.headers["x-runner"]} ${request.method} ${request.url} ${length > 0 ? "with" : "without"} body`);
  response.writeHead(status, status === 204 ? {} : { location: "/hook" }).end();
});
server.listen(0, "127.0.0.1", () => writeFileSync("port", String(server.address().port)));
NODE
node server.mjs > requests &
server=$!
until [ -s port ]; do sleep 0.1; done
bin=$folder/node_modules/.bin
for status in 301 307; do
  url=http://127.0.0.1:$(cat port)/$status
  cat > collection.json <<JSON
{"info": {"name": "receiver", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}, "item": [{"name": "event",
  "request": {"method": "POST", "url": "$url", "header": [{"key": "x-runner", "value": "newman"}], "body": {"mode": "raw", "raw": "{}"}},
  "event": [{"listen": "test", "script": {"exec": ["pm.test('204', () => pm.response.to.have.status(204))"]}}]}]}
JSON
  mkdir -p bruno
  echo '{"version": "1", "name": "receiver", "type": "collection"}' > bruno/bruno.json
  printf '%s\n' 'meta {' '  name: event' '  type: http' '}' 'post {' "  url: $url" '  body: json' '}' 'headers {' '  x-runner: Bruno' '}' \
    'body:json {' '  {"answer": 42}' '}' 'assert {' '  res.status: eq 204' '}' > bruno/event.bru
  printf '%s\n' "POST $url" 'content-type: application/json' 'x-runner: httpYac' '' '{"answer": 42}' '' '?? status == 204' > event.http
  cat > calls.cjs <<NODE
const playwright = require("@playwright/test");
const supertest = require("supertest");
(async () => {
  const context = await playwright.request.newContext({ extraHTTPHeaders: { "x-runner": "Playwright" } });
  const response = await context.post("$url", { data: { answer: 42 } });
  await context.dispose();
  const { origin, pathname } = new URL("$url");
  const { status } = await supertest(origin).post(pathname).set("x-runner", "SuperTest").send({ answer: 42 });
  console.log(response.status(), status);
})();
NODE
  "$bin/newman" run collection.json > log || { cat log; exit 1; }
  (cd bruno && "$bin/bru" run) > log || { cat log; exit 1; }
  "$bin/httpyac" send event.http --all > log || { cat log; exit 1; }
  calls=$(node calls.cjs)
  echo "Playwright and SuperTest: $calls"
  [ "$calls" = "204 $status" ]
done
echo "newman, Bruno and httpYac: passed after $(grep -c /hook requests) followed redirects"
grep /hook requests | tee followed
[ "$(cat followed)" = "newman GET /hook without body
Bruno GET /hook without body
httpYac POST /hook with body
Playwright GET /hook without body
newman POST /hook with body
Bruno POST /hook with body
httpYac POST /hook with body
Playwright POST /hook with body" ]
