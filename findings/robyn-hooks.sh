#!/bin/bash
# Robyn 0.88.0 runs `before_request("/hook")` and `after_request("/hook")` for GET only, although it calls them hooks of a path:
# for a POST, the handler runs at once, without a warning. `before_request()` without a path runs for each method. On a
# SIGTERM, Robyn does not end but keeps its port, so each later event waits for a response that never comes. Hurt: receivers
# of webhooks that answer 503 in a hook while they are in maintenance, or skip duplicates in it: the event is processed, and
# after a stop, events run into the sender's timeout until a SIGKILL.
# Source: https://robyn.tech/documentation/api_reference/middlewares, https://github.com/sparckles/Robyn/pull/1420
# Usage: findings/robyn-hooks.sh. Needs Python 3.11 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -9 "${receiver:-}" 2> /dev/null && wait 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check robyn==0.88.0
cat > receiver.py <<'PYTHON'
import sys
from robyn import Request, Response, Robyn

app = Robyn(__file__)


def maintenance(request: Request):
    return Response(status_code=503, headers={"retry-after": "30"}, description="maintenance")


def hook(request: Request):
    return Response(status_code=204, headers={}, description="")


app.get("/hook")(hook)
app.post("/hook")(hook)
app.before_request(*sys.argv[2:])(maintenance)
app.start(host="127.0.0.1", port=int(sys.argv[1]))
PYTHON
port=$((20000 + $$ % 12000))
start() {
  env/bin/python receiver.py "$@" > log 2>&1 &
  receiver=$!
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null && break; sleep 0.1; done
}
# Prints the status of the response, or 000.
status() {
  curl --silent --output /dev/null --max-time 15 --write-out '%{http_code}' --request "$1" --data '{}' "http://127.0.0.1:$2/hook" || true
}
start "$port" /hook
found="with a path: GET $(status GET "$port"), POST $(status POST "$port"); "
kill "$receiver"
sleep 2
found+="after a SIGTERM: POST $(status POST "$port"), $(kill -0 "$receiver" && echo running); "
kill -9 "$receiver"
wait "$receiver" 2> /dev/null || true
start $((port + 1))
found+="without a path: GET $(status GET $((port + 1))), POST $(status POST $((port + 1)))"
echo "$found"
[ "$found" = "with a path: GET 503, POST 204; after a SIGTERM: POST 000, running; without a path: GET 503, POST 503" ]
