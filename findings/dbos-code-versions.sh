#!/bin/bash
# DBOS 3.4.0 for Python runs a queued or interrupted workflow only in a process with the version of the code that queued it.
# Unless `application_version` is set, this version is a hash of the source of all workflows and of DBOS's own version, so after
# a deployment that changes one line of a workflow, or updates DBOS, the events in the queue stay ENQUEUED, and interrupted ones
# PENDING, without an error: the log says "No workflows to recover". They run once the old code does again. With a fixed
# `application_version`, the new code runs them. DBOS's SDK for TypeScript 5.3.0 behaves the same. Hurt: receivers of webhooks
# that queue a workflow for each event and answer 204: each such deployment strands the events that have not been processed.
# Source: `compute_app_version` in dbos/_dbos.py, and https://docs.dbos.dev/python/tutorials/upgrading-workflows
# Usage: findings/dbos-code-versions.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check dbos==3.4.0
cat > receiver.py <<'PYTHON'
import sys, time
from dbos import DBOS

name, action, *version = sys.argv[1:]
settings = {"name": "receiver", "system_database_url": f"sqlite:///{name}.sqlite"}
if version:
    settings["application_version"] = version[0]
DBOS(config=settings)


@DBOS.workflow()
def process(event):
    print("begun", event, flush=True)
    time.sleep(2)


DBOS.launch()
DBOS.register_queue("events", global_concurrency=1)
if action == "receive":
    for event in range(3):
        DBOS.enqueue_workflow("events", process, event)
    time.sleep(60)
time.sleep(15)
workflows = DBOS.list_workflows()
print(", ".join(workflow.status for workflow in workflows))
DBOS.destroy()
PYTHON
sed 's/time.sleep(2)/time.sleep(1)/' receiver.py > changed.py

# The states of three events whose receiver ended during the first one, in the program that was started then.
show() {
  local name=$1 program=$2 version=("${@:3}") receiver
  python/bin/python receiver.py "$name" receive "${version[@]}" > "$name.first" 2> "$name.log" &
  receiver=$!
  for _ in {1..300}; do grep --quiet begun "$name.first" && break; sleep 0.1; done
  kill "$receiver"
  wait "$receiver" || true
  python/bin/python "$program" "$name" work "${version[@]}" > "$name.second" 2>> "$name.log"
  echo "$name: $(tail -1 "$name.second")"
}
show "the same code" receiver.py > 1 &
show "another line" changed.py > 2 &
show "another line and a fixed version" changed.py 1 > 3 &
wait
seen=$(cat 1 2 3)
echo "$seen"
[ "$seen" = "the same code: SUCCESS, SUCCESS, SUCCESS
another line: PENDING, ENQUEUED, ENQUEUED
another line and a fixed version: SUCCESS, SUCCESS, SUCCESS" ]
