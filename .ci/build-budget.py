#!/usr/bin/env python3
"""Fails if a dependency takes too large a part of a build's time.

Usage: build-budget.py SHARE REPORT, the bound for one package as a part of the time of all others, and the report of
`cargo --timings`

Seconds differ between machines by a factor of two, and so does the time of a package while others are compiled beside it. Its
part of the sum hardly does. Packages of this workspace have no bound. Nothing is checked unless a hundred dependencies are
compiled.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

SHOWN = 5
# Dependencies with bounds of their own. SQLite is a single file of C, which no second core helps to compile.
LONG = {"libsqlite3-sys": 0.2}
# The number of dependencies without which their parts say nothing.
ENOUGH = 100


def main():
    bound, report = float(sys.argv[1]), Path(sys.argv[2]).read_text()
    units = re.search(r"^const UNIT_DATA = (\[.*?^\]);$", report, re.MULTILINE | re.DOTALL)
    if not units:
        sys.exit(f"{sys.argv[2]} has no list of units: Cargo has changed its report.")
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], stdout=subprocess.PIPE, check=True)
    own = {package["name"] for package in json.loads(metadata.stdout)["packages"]}
    seconds = Counter()
    for unit in json.loads(units[1]):
        if unit["name"] not in own and unit["duration"] > 0:
            seconds[f"{unit['name']} {unit['version']}"] += unit["duration"]
    if len(seconds) < ENOUGH:
        print(f"\nOnly {len(seconds)} dependencies were compiled, so their parts of the time are not checked.")
        return
    total = sum(seconds.values())
    print(f"\nDependencies: {total:.0f} s. The longest, at most {bound:.0%} of the others each:")
    shares = [(name, spent, spent / (total - spent)) for name, spent in seconds.most_common()]
    for name, spent, share in shares[:SHOWN]:
        print(f"{spent:8.1f} s {share:5.0%}  {name}")
    over = [name for name, _, share in shares if share > LONG.get(name.partition(" ")[0], bound)]
    if over:
        sys.exit(f"Over the budget: {', '.join(over)}. Take a lighter package, or raise the bound and give the reason in the commit.")


main()
