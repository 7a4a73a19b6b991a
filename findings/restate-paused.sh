#!/bin/bash
# Restate 1.7.12 stops retrying an invocation after 70 failed attempts, about an hour with its default policy (from 0.5 seconds
# to a minute), and pauses it: it stays paused when the cause is gone, after a restart of the server and of the service, and when
# the event is sent again, which is answered 202 with PreviouslyAccepted because the idempotency key is known. Only a call of the
# admin API resumes it. `RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS=unlimited` removes the limit. To be quick, the service here
# has a policy of 5 attempts. Hurt: receivers of webhooks that give each event to Restate with its `webhook-id` as the key and
# answer 204: after an outage of more than an hour of what the handler calls, the events of its beginning are not processed.
# Source: `retry_policy` of the service in the answer of the admin API, printed below
# Usage: findings/restate-paused.sh. Needs Node.js 20, npm's registry and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill ${server:-} ${service:-} 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' > package.json
npm install --silent --no-audit --no-fund @restatedev/restate-server@1.7.12 @restatedev/restate-sdk@1.17.2
cat > service.mjs <<'NODE'
import { appendFileSync, existsSync } from "node:fs";
// The SDK needs this function of Node.js 22.
Promise.withResolvers ??= () => {
  let settle;
  const promise = new Promise((resolve, reject) => (settle = { resolve, reject }));
  return { promise, ...settle };
};
const { serve, service } = await import("@restatedev/restate-sdk");

async function process_(context, event) {
  appendFileSync("runs", `${event}\n`);
  if (!existsSync("database")) throw new Error("The database is away");
}

const quick = { initialInterval: 100, maxInterval: 100, maxAttempts: 5 };
serve({
  services: [
    service({ name: "receiver", handlers: { process: process_ } }),
    service({ name: "quick", handlers: { process: process_ }, options: { retryPolicy: quick } }),
  ],
  port: Number(process.argv[2]),
});
NODE
port=$((20000 + $$ % 12000))
export RESTATE_INGRESS__BIND_ADDRESS=127.0.0.1:$port RESTATE_ADMIN__BIND_ADDRESS=127.0.0.1:$((port + 1)) RUST_LOG=warn
export RESTATE_BIND_ADDRESS=127.0.0.1:$((port + 2)) RESTATE_ADVERTISED_ADDRESS=http://127.0.0.1:$((port + 2))
export RESTATE_DISABLE_TELEMETRY=true NO_PROXY=127.0.0.1
admin=http://127.0.0.1:$((port + 1))

start() {
  node_modules/@restatedev/restate-server-linux-x64/bin/restate-server --base-dir data >> log 2>&1 &
  server=$!
  node service.mjs $((port + 3)) >> service.log 2>&1 &
  service=$!
  for _ in {1..150}; do curl --silent --fail --output /dev/null $admin/health && break; sleep 0.2; done
  for _ in {1..150}; do (: < "/dev/tcp/127.0.0.1/$((port + 3))") 2> /dev/null && break; sleep 0.2; done
}
send() {
  curl --silent --write-out ' %{http_code}' --header 'content-type: application/json' --header 'idempotency-key: msg_1' \
    --data '"msg_1"' "http://127.0.0.1:$port/quick/process/send"
}
state() {
  curl --silent --header 'content-type: application/json' --header 'accept: application/json' \
    --data '{"query": "select status from sys_invocation"}' $admin/query | grep --only-matching '"status":"[a-z-]*"'
  echo "attempts: $(wc --lines < runs)"
}
start
deployment='{"uri": "http://127.0.0.1:'$((port + 3))'"}'
curl --silent --fail --header 'content-type: application/json' --data "$deployment" $admin/deployments > deployment
policy=$(curl --silent $admin/services/receiver | grep --only-matching '"retry_policy":{[^}]*"on_max_attempts[^}]*}')
echo "the default: $policy"
first=$(send)
sleep 4
paused=$(state)
touch database
again=$(send)
sleep 2
kill $server $service
wait $server $service || true
start
sleep 4
restarted=$(state)
echo "$first"
echo "during the outage:" $paused
echo "after it: $again"
echo "after a restart:" $restarted
invocation=$(grep --only-matching 'inv_[0-9A-Za-z]*' <<< "$first")
curl --silent --request PATCH "$admin/invocations/$invocation/resume" > resumed
sleep 2
resumed=$(state)
echo "once it is resumed:" $resumed
[ "$paused" = $'"status":"paused"\nattempts: 5' ]
[ "$restarted" = "$paused" ]
[ "$resumed" = $'"status":"completed"\nattempts: 6' ]
[[ $again = *PreviouslyAccepted*202 ]]
[[ $policy = *'"max_attempts":70,"max_interval":"1m","on_max_attempts":"Pause"'* ]]
