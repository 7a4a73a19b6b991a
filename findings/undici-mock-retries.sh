#!/bin/bash
# undici 7.30.2's MockAgent lets RetryAgent repeat a `fetch` with a body, because a mock does not read the body: a test sees a 200
# after the 503, where with a server, the program gets "fetch failed". This holds for POST and for PUT, which RetryAgent repeats by
# default. MockAgent gives a reply function this body as an object, not as a text. With `request` and a text, the test and the
# server agree. Hurt: developers who test with MockAgent that their calls of an API survive a 503 or a 429: the test passes, and
# each such call fails.
# Source: https://undici.nodejs.org/#/docs/best-practices/mocking-request
# Usage: findings/undici-mock-retries.sh. Needs Node.js 20, npm, and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit undici@7.30.2
cat > calls.mjs <<'NODE'
import { once } from "node:events";
import { createServer } from "node:http";
import { Agent, MockAgent, RetryAgent, fetch, request } from "undici";

const BODY = '{"json":{"url":"https://example.com/hook"}}';
const headers = { "content-type": "application/json" };
let bodies = [];
const answer = () => (bodies.length === 1 ? 503 : 200);
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  bodies.push(body);
  response.writeHead(answer(), { "retry-after": "1" }).end();
});
await once(server.listen(0, "127.0.0.1"), "listening");
const origin = `http://127.0.0.1:${server.address().port}`;

const found = {};
for (const method of ["POST", "PUT"]) {
  for (const [name, call] of Object.entries({ fetch, request })) {
    for (const kind of ["MockAgent", "a server"]) {
      bodies = [];
      const agent = kind === "MockAgent" ? new MockAgent() : new Agent();
      if (kind === "MockAgent") {
        agent.disableNetConnect();
        const reply = ({ body }) => {
          bodies.push(body);
          return { statusCode: answer(), responseOptions: { headers: { "retry-after": "1" } } };
        };
        agent.get(origin).intercept({ path: "/", method }).reply(reply).times(2);
      }
      const dispatcher = new RetryAgent(agent, { methods: ["POST", "PUT"] });
      let result;
      try {
        const response = await call(`${origin}/`, { method, headers, body: BODY, dispatcher });
        result = response.status ?? response.statusCode;
      } catch (error) {
        result = error.message;
      }
      await agent.close();
      found[`${name}, ${method}, ${kind}`] = `${result}, body: ${typeof bodies[0]}`;
    }
  }
}
console.log(found);
const retried = "200, body: string";
const expected = ["200, body: object", "fetch failed, body: string", retried, retried];
process.exit(JSON.stringify(Object.values(found)) === JSON.stringify([...expected, ...expected]) ? 0 : 1);
NODE
node calls.mjs
