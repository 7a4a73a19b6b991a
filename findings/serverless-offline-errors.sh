#!/bin/bash
# serverless-offline 13.10.1 answers 200, with the stack trace as the body, if the handler of an HTTP API (`httpApi`) raises an
# error. API Gateway answers 500. For a REST API (`http`), it answers 502, as API Gateway does. Hurt: developers of a receiver
# of webhooks who try out a failure on their own machine: the sender counts the event as delivered and does not repeat it, so
# a test of the retry passes without one, or an event that failed is lost.
# Source: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-troubleshooting-lambda.html
# Usage: findings/serverless-offline-errors.sh. Needs Node.js 20, npm's registry and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund serverless@3.40.0 serverless-offline@13.10.1
port=$((20000 + $$ % 12000))
cat > serverless.yml <<YAML
service: receiver
provider: {name: aws, runtime: nodejs20.x}
plugins: [serverless-offline]
functions:
  http: {handler: receiver.hook, events: [{httpApi: {path: /http-api, method: post}}]}
  rest: {handler: receiver.hook, events: [{http: {path: rest-api, method: post}}]}
custom:
  serverless-offline: {host: 127.0.0.1, httpPort: $port, lambdaPort: $((port + 1)), noPrependStageInUrl: true}
YAML
cat > receiver.js <<'NODE'
exports.hook = async () => {
  throw new Error("The database is away");
};
NODE
export SLS_TELEMETRY_DISABLED=1 SLS_NOTIFICATIONS_MODE=off
node node_modules/serverless/bin/serverless.js offline > log 2>&1 &
server=$!
for _ in {1..200}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
seen=()
for api in http-api rest-api; do
  seen+=("$(curl --silent --output body --write-out '%{http_code}' --data '{}' "http://127.0.0.1:$port/$api")")
  echo "$api: ${seen[-1]} $(head --bytes=70 body)"
done
[ "${seen[*]}" = '200 502' ]
