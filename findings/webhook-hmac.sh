#!/bin/bash
# Debian 12's webhook 2.8.0-4+b6 answers 500 to a wrong HMAC, also where `trigger-rule-mismatch-http-response-code` says
# 401, which it uses for every other mismatch and for a missing signature. In an `or`, a wrong HMAC also ends the
# evaluation: a request with the right token in the rule after it gets 500, and 200 without any signature. Hurt: operators whose alarms count a
# forged request as a failure of the receiver, and those who accept either of two schemes while they change from one to
# the other.
# Usage: findings/webhook-hmac.sh. Needs apt-get of Debian 12, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet webhook=2.8.0-4+b6
dpkg --extract webhook_2.8.0-4+b6_*.deb .
cat > hooks.py <<'PYTHON'
import json

hmac = {"match": {"type": "payload-hmac-sha256", "secret": "s", "parameter": {"source": "header", "name": "x-signature"}}}
token = {"match": {"type": "value", "value": "t", "parameter": {"source": "header", "name": "x-token"}}}
rules = {"hmac": hmac, "token": token, "either": {"or": [hmac, token]}}
common = {"execute-command": "/bin/true", "trigger-rule-mismatch-http-response-code": 401}
print(json.dumps([common | {"id": name, "trigger-rule": rule} for name, rule in rules.items()]))
PYTHON
python3 hooks.py > hooks.json
port=$((20000 + $$ % 12000))
usr/bin/webhook -hooks hooks.json -ip 127.0.0.1 -port "$port" > /dev/null 2>&1 &
server=$!
curl --silent --retry 50 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$port/" > /dev/null

# Prints the status of a request to a hook with these headers, and compares it.
expect() {
  local expected=$1 hook=$2 name=$3 status
  shift 3
  status=$(curl --silent --output /dev/null --write-out '%{http_code}' -H 'content-type: application/json' "$@" -d '{}' \
    "http://127.0.0.1:$port/hooks/$hook")
  echo "$hook, $name: $status"
  [ "$status" = "$expected" ]
}
wrong=(-H 'x-signature: 00')
expect 401 token "a wrong token" -H 'x-token: wrong'
expect 401 hmac "no signature"
expect 500 hmac "a wrong signature" "${wrong[@]}"
expect 200 either "the right token" -H 'x-token: t'
expect 500 either "a wrong signature and the right token" "${wrong[@]}" -H 'x-token: t'
