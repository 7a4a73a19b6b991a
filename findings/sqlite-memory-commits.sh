#!/bin/bash
# SQLite 3.54.1: a commit of one row with a random key takes 9 us of CPU time in an in-memory database of 1,000 pages, and
# 350 us in one of 60,000 pages (240 MB); with ascending keys, 3 us in both. A random key may split a page, which SQLite
# renumbers for a moment as page 262,145; the commit then looks at every page in memory, to drop those above the last one.
# With rows in one transaction instead of many, or with larger pages, there are fewer such looks. Hurt: programs that
# embed an emulator on SQLite in memory, such as dynoxide 3.2 for DynamoDB, where each item of a batch is a transaction,
# and then wonder why tests or demos with much data are slow.
# Usage: findings/sqlite-memory-commits.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0
cat > "$folder/commits.py" <<'PYTHON'
import os, time
import apsw

COMMITS = 2000


def microseconds(pages, is_random):
    """The CPU time of a commit of one row, in a database with this many pages."""
    rows = apsw.Connection(":memory:").cursor()
    rows.execute("CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
    count = iter(range(1_000_000))

    def row():
        number = next(count)
        return (os.urandom(16) if is_random else number.to_bytes(16, "big"), b"x" * 700)

    rows.execute("BEGIN")
    while rows.execute("PRAGMA page_count").fetchone()[0] < pages:
        rows.executemany("INSERT INTO rows VALUES (?, ?)", (row() for _ in range(500)))
    rows.execute("COMMIT")
    start = time.process_time()
    for _ in range(COMMITS):
        rows.execute("INSERT INTO rows VALUES (?, ?)", row())
    return (time.process_time() - start) / COMMITS * 1e6


print("SQLite", apsw.sqlite_lib_version())
growth = {}
for kind in ["random", "ascending"]:
    small, large = [microseconds(pages, kind == "random") for pages in (1_000, 60_000)]
    growth[kind] = large / small
    print(f"{kind} keys: {small:.1f} us a commit with 1,000 pages, {large:.1f} us with 60,000")
assert growth["random"] > 8 and growth["ascending"] < 3, growth
PYTHON
"$folder/python/bin/python" "$folder/commits.py"
