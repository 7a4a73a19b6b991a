#!/bin/bash
# Express 5.3.0 answers 200 to `response.send(500)`, `response.send(500, "text")` and `response.json(500, {})`, with the number
# as the body, and without a warning. Express 4.21.2 takes the number as the status, with a warning. Hurt: receivers of
# webhooks that were written for Express 4 and refuse an event in this way: after the update, the sender counts events that
# failed, or whose signature was wrong, as delivered, and does not repeat them.
# Usage: findings/express-send-status.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund express4@npm:express@4.21.2 express5@npm:express@5.3.0
cat > receiver.cjs <<'NODE'
const seen = async (express) => {
  const app = express();
  app.post("/send", (request, response) => response.send(500));
  app.post("/send-text", (request, response) => response.send(500, "The database is away"));
  app.post("/json", (request, response) => response.json(500, { error: "The database is away" }));
  app.post("/send-status", (request, response) => response.sendStatus(500));
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const found = [];
  for (const path of ["send", "send-text", "json", "send-status"]) {
    const response = await fetch(`http://127.0.0.1:${server.address().port}/${path}`, { method: "POST", body: "{}" });
    found.push(`${path}: ${response.status} ${await response.text()}`);
  }
  server.close();
  return found.join(", ");
};

(async () => {
  const four = await seen(require("express4"));
  const five = await seen(require("express5"));
  console.log(`Express 4: ${four}\nExpress 5: ${five}`);
  const expected = [
    "send: 500 Internal Server Error, send-text: 500 The database is away, " +
      'json: 500 {"error":"The database is away"}, send-status: 500 Internal Server Error',
    "send: 200 500, send-text: 200 500, json: 200 500, send-status: 500 Internal Server Error",
  ];
  process.exit(four === expected[0] && five === expected[1] ? 0 : 1);
})();
NODE
NO_DEPRECATION=express node receiver.cjs
