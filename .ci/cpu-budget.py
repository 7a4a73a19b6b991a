#!/usr/bin/env python3
"""Runs tests, and fails if they take too much CPU time, in total or in one thread.

Usage: cpu-budget.py TOTAL THREAD COMMAND..., the bounds in CPU seconds, in user and kernel mode

Wall-clock time would depend on the number of cores and on other processes. The test harness runs each test in its own
thread, with the test's name, so /proc shows the CPU time of single tests. The threads of their runtimes have one name, are
printed and count only toward the total. Without /proc, only the total is bounded.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

# A thread that ends loses less than this time.
INTERVAL = 0.5
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = int(os.environ.get("CPU_THREADS", 5))
# The test binaries that consist of a few long tests, with their bounds for threads.
LONG = {"simulation": 100}
# The threads of a runtime, which may belong to any test.
RUNTIME = "tokio-rt-worker"


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
    running, used = subprocess.Popen(command), {}
    while running.poll() is None:
        sample(running.pid, used)
        try:
            running.wait(INTERVAL)
        except subprocess.TimeoutExpired:
            pass
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = children.ru_utime + children.ru_stime
    longest = sorted(used.values(), reverse=True)
    over = [name for seconds, name, binary in longest if name != RUNTIME and seconds > LONG.get(binary, thread)]
    print(f"\nCPU time: {spent:.0f} s, at most {total:.0f} s. The threads with the most, at most {thread:.0f} s each:")
    for seconds, name, binary in longest[:SHOWN]:
        print(f"{seconds:8.1f} s  {name} ({binary})")
    sys.stdout.flush()
    if running.returncode == 0 and (spent > total or over):
        sys.exit(f"Over the budget{': ' if over else ''}{', '.join(over)}. Make the tests cheaper, or raise the bound "
                 "and give the reason in the commit.")
    sys.exit(running.returncode)


main()
