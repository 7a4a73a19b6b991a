#!/bin/bash
# pm2 7.0.4's `pm2 reload`, "0-second-downtime" in its documentation, cuts off the requests in progress: it sends a SIGINT, at
# which Node.js 20 ends, and kills a program that closes its server first after 1.6 seconds. Hurt: receivers of webhooks under
# pm2: each deployment cuts off events, which are then repeated. With a handler of SIGINT that closes the server, and
# `--kill-timeout 15000`, they are answered first.
# Source: https://pm2.keymetrics.io/docs/usage/cluster-mode/#reload
# Usage: findings/pm2-reload.sh. Needs Node.js 20, npm's registry, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
export PM2_HOME=$folder/home
trap 'node_modules/.bin/pm2 kill --silent; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts express@5.3.0 pm2@7.0.4
cat > receiver.cjs <<'NODE'
const { appendFileSync } = require("node:fs");
const express = require("express");

const app = express();
app.post("/hook", async (request, response) => {
  await new Promise((done) => setTimeout(done, 4000));
  appendFileSync("events", "{}");
  response.status(204).end();
});
const server = app.listen(Number(process.env.HOOK_PORT), "127.0.0.1");
if (process.env.HANDLER) process.on("SIGINT", () => server.close(() => process.exit()));
NODE
export HOOK_PORT=$((20000 + $$ % 12000))
changed=0

# Starts two processes with options, reloads them while one handles an event, and compares the status, or 000 for a closed
# connection, and whether the event was stored.
expect() {
  rm -f events
  HANDLER=$1 node_modules/.bin/pm2 start receiver.cjs --silent --name receiver --instances 2 "${@:3}"
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$HOOK_PORT") 2> /dev/null && break; sleep 0.1; done
  (sleep 1; exec node_modules/.bin/pm2 reload receiver --silent) &
  local seen
  seen=$(curl --silent --max-time 15 --output /dev/null --write-out '%{http_code}' --request POST \
    "http://127.0.0.1:$HOOK_PORT/hook") || true
  wait $!
  seen+=", $([ -s events ] && echo stored || echo lost)"
  echo "handler of SIGINT: ${1:-no}${3:+, ${*:3}}: $seen"
  [ "$seen" = "$2" ] || changed=1
  node_modules/.bin/pm2 delete receiver --silent
}

expect '' '000, lost'
expect yes '000, lost'
expect yes '204, stored' --kill-timeout 15000
exit $changed
