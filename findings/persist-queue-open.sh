#!/bin/bash
# persist-queue 1.1.0's SQLiteAckQueue hands out an item that another process is processing, as soon as any process opens the
# queue: `auto_resume`, which is on by default, makes all items ready again that were taken and not acknowledged. Two workers
# then process one event at the same time, also if the process that opened the queue only adds events. With
# `auto_resume=False`, an item stays with its worker, and nothing makes it ready again if that worker is killed, until a process
# calls `resume_unack_tasks()`. Hurt: receivers of webhooks that use it as a queue: each restart of the receiver, or of one of
# its workers, repeats the events in progress.
# Source: persistqueue/sqlackqueue.py (`__init__`, `resume_unack_tasks`)
# Usage: findings/persist-queue-open.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check persist-queue==1.1.0
cat > queue_of_events.py <<'PYTHON'
import subprocess, sys
from persistqueue import SQLiteAckQueue

PROGRAM = """
import sys
from persistqueue import Empty, SQLiteAckQueue
queue = SQLiteAckQueue(sys.argv[1], multithreading=True, auto_resume=sys.argv[2] == "True")
for line in sys.stdin:
    try:
        print(queue.get(block=False) if line == "get\\n" else "nothing", flush=True)
    except Empty:
        print("nothing", flush=True)
"""


class Process:
    """Another process, which has opened the queue once it has answered."""

    def __init__(self, folder, resumes):
        command = [sys.executable, "-c", PROGRAM, folder, str(resumes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("open")

    def ask(self, command):
        print(command, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


found = {}
for resumes in [True, False]:
    folder = f"queue {resumes}"
    SQLiteAckQueue(folder).put("msg_1")
    workers = [Process(folder, resumes), Process(folder, resumes)]
    taken = [workers[0].ask("get"), workers[1].ask("get")]
    receiver = Process(folder, resumes)
    taken.append(workers[1].ask("get"))
    for process in [*workers, receiver]:
        process.end()
    restarted = Process(folder, resumes)
    taken.append(restarted.ask("get"))
    restarted.end()
    found[resumes] = taken
    print(f"auto_resume={resumes}: the first worker gets {taken[0]}, the second {taken[1]};")
    print(f"  once the receiver has opened the queue, the second gets {taken[2]}; after a restart of all, {taken[3]}")
assert found == {True: ["msg_1", "nothing", "msg_1", "msg_1"], False: ["msg_1", "nothing", "nothing", "nothing"]}
PYTHON
python/bin/python queue_of_events.py
