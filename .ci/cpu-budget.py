#!/usr/bin/env python3
"""Runs tests, and fails if they take too much CPU time, in total or in one thread.

Usage: cpu-budget.py TOTAL THREAD COMMAND..., the bounds in CPU seconds, in user and kernel mode

Wall-clock time would depend on the number of cores and on other processes. CPU time still differs between machines by more than
a factor of two, so the bounds are for a machine that takes REFERENCE for some fixed work. The work is repeated during the
tests, and the bounds are multiplied by how much longer it takes. The test harness runs each test in its own thread, with the
test's name, so /proc shows the CPU time of single tests. The threads of their runtimes have one name, are printed and count
only toward the total. Without /proc, only the total is bounded.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

# A thread that ends loses less than this time.
INTERVAL = 0.5
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = int(os.environ.get("CPU_THREADS", 5))
# The test binaries that consist of a few long tests, with their bounds for threads.
LONG = {"simulation": 150}
# The CPU seconds of `work` for which the bounds are given, and the samples between two repetitions.
REFERENCE = 0.01
REPEATED = 10
# The threads of a runtime, which may belong to any test.
RUNTIME = "tokio-rt-worker"


def work():
    """Allocates, hashes, copies and parses like the tests, and returns its CPU time in seconds."""
    start = time.thread_time()
    for size in range(60):
        rows = [{"id": f"row {number}", "values": list(range(number % 20))} for number in range(size)]
        json.loads(json.dumps(sorted(rows, key=lambda row: row["id"])))
    return time.thread_time() - start


def tree(root):
    """The ids of a process and its descendants."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may contain spaces.
            parent = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def sample(root, used):
    """Records the CPU time of each thread of the test binaries, with its name and its binary."""
    for process in tree(root):
        folder = Path(f"/proc/{process}")
        try:
            binary = (folder / "exe").readlink()
            stats = list(folder.glob("task/*/stat")) if binary.parent.name == "deps" else []
        except OSError:
            continue
        for stat in stats:
            try:
                before, _, after = stat.read_text().rpartition(") ")
            except OSError:
                continue
            fields = after.split()
            user, kernel, start = int(fields[11]), int(fields[12]), fields[19]
            name = before.partition("(")[2]
            used[stat.parent.name, start] = (user + kernel) / TICKS, name, binary.name.partition("-")[0]


def main():
    total, thread, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    running, used, references, samples = subprocess.Popen(command), {}, [work()], 0
    while running.poll() is None:
        sample(running.pid, used)
        samples += 1
        if samples % REPEATED == 0:
            references.append(work())
        try:
            running.wait(INTERVAL)
        except subprocess.TimeoutExpired:
            pass
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = children.ru_utime + children.ru_stime
    slowness = statistics.median(references) / REFERENCE
    total, thread = total * slowness, thread * slowness
    longest = sorted(used.values(), reverse=True)
    over = [name for seconds, name, binary in longest
            if name != RUNTIME and seconds > (LONG[binary] * slowness if binary in LONG else thread)]
    print(f"\nThis machine takes x {slowness:.2f} of the time for which the bounds are given.")
    print(f"CPU time: {spent:.0f} s, at most {total:.0f} s. The threads with the most, at most {thread:.0f} s each:")
    for seconds, name, binary in longest[:SHOWN]:
        print(f"{seconds:8.1f} s  {name} ({binary})")
    sys.stdout.flush()
    if running.returncode == 0 and (spent > total or over):
        sys.exit(f"Over the budget{': ' if over else ''}{', '.join(over)}. Make the tests cheaper, or raise the bound "
                 "and give the reason in the commit.")
    sys.exit(running.returncode)


main()
