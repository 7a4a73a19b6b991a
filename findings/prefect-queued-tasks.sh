#!/bin/bash
# The server of Prefect 3.9.1 hands the tasks of `task.delay()` to workers from a queue in its memory, and does not fill it
# again when it starts. After a restart of the server, tasks that waited for a worker remain "Scheduled" in its database and are
# never run, while later ones are, and no log has a line about it. Hurt: receivers of webhooks that answer 204 after `delay()`:
# all events that wait when the server restarts or is updated are lost, although the server lists them. Before a restart of the
# server, stop the receiver and let the workers finish, or queue the events elsewhere.
# Source: prefect/server/task_queue.py ("an in-memory task queue")
# Usage: findings/prefect-queued-tasks.sh. Needs curl, Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${worker:-}" "${server:-}" 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check prefect==3.9.1
port=$((20000 + $$ % 12000))
export PREFECT_HOME=$folder/home PREFECT_API_URL=http://127.0.0.1:$port/api PREFECT_SERVER_ANALYTICS_ENABLED=false \
  PREFECT_SERVER_UI_ENABLED=false DO_NOT_TRACK=1
cat > tasks.py <<'PYTHON'
import sys
from prefect import task
from prefect.task_worker import serve


@task(retries=2)
def process(event):
    with open("runs", "a") as file:
        print(event, file=file)


if __name__ == "__main__":
    if sys.argv[1:]:
        for event in sys.argv[1:]:
            process.delay(event)
    else:
        serve(process)
PYTHON
start_server() {
  python/bin/prefect server start --host 127.0.0.1 --port "$port" >> server.log 2>&1 &
  server=$!
  for _ in {1..300}; do curl --silent --fail --output health "$PREFECT_API_URL/health" && break; sleep 0.2; done
}
start_server
python/bin/python tasks.py 1 2 > output 2>&1
kill "$server"
wait "$server" || true
start_server
python/bin/python tasks.py 3 > output 2>&1
touch runs
python/bin/python tasks.py > worker.log 2>&1 &
worker=$!
for _ in {1..300}; do [ -s runs ] && break; sleep 0.2; done
sleep 10
seen=$(
  echo "run: $(tr '\n' ' ' < runs)"
  curl --silent --json '{}' "$PREFECT_API_URL/task_runs/filter" | python3 -c "
import collections, json, sys
print(dict(sorted(collections.Counter(run['state_name'] for run in json.load(sys.stdin)).items())))"
)
echo "$seen"
[ "$seen" = "run: 3 
{'Completed': 1, 'Scheduled': 2}" ]
