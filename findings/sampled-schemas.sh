#!/bin/bash
# Readers of stored JSON take the types and members from the first events, and change later ones without an error.
# Polars 2.1.0 looks at the first 100: `read_ndjson` and `scan_ndjson` drop a member that comes later, also within
# `result`, and the items of a list that was empty before; `from_dicts` and `DataFrame` drop it, too, and cut 1.5 to 1.
# DataFusion 55.0.0 (1,000), DuckDB 2.0.1 (20,480), ClickHouse (chdb-core 26.9.0, 25,000) and Daft 0.7.26 drop it as
# well, and but for ClickHouse, which raises an error, 1.5 becomes 1, or 2 in DuckDB; there, a member that was null
# before stays NULL. PyArrow 25.0.1's `Table.from_pylist`, used for Parquet files, takes the members of the first event
# only. A few events more or less decide, so a test with a small file passes. A larger sample, as below, and a schema
# keep everything. Hurt: receivers of webhooks that store events in files and evaluate or repeat them: a report says
# that no job failed, and results are wrong.
# Source: https://github.com/pola-rs/polars/issues/29330
# Usage: findings/sampled-schemas.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check --no-compile chdb-core==26.9.0 \
  daft==0.7.26 datafusion==55.0.0 duckdb==2.0.1 polars==2.1.0 pyarrow==25.0.1
cat > read.py <<'PYTHON'
import json, pathlib, sys
import chdb, daft, datafusion, duckdb, polars, pyarrow

FIRST = {"event": "job.completed", "result": {"cost": 1, "warnings": []}, "error": None}
LAST = {"event": "job.completed", "result": {"cost": 1, "warnings": ["hot"], "reason": "cogs"}, "error": None}
LATE = {"event": "job.failed", "result": {"cost": 1, "warnings": [], "reason": "cogs"}, "error": None}
COSTS = {"event": "job.completed", "result": {"cost": 1.5, "warnings": [], "reason": "cogs"}, "error": None}
FAILED = {"event": "job.failed", "result": {"cost": 1.5, "warnings": []}, "error": "out of cogs", "attempts": 3}
NOTICE = {"event": "endpoint.failing", "result": None, "error": None, "reason": "status_5xx"}


def stored(count, last):
    """The path and the objects of some events and the last one."""
    events = [FIRST] * count + [last]
    path = pathlib.Path("events.jsonl")
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path), events


def in_file(count, **options):
    path, _ = stored(count, LAST)
    [event] = polars.read_ndjson(path, **options).tail(1).to_dicts()
    [scanned] = polars.scan_ndjson(path, **options).tail(1).collect().to_dicts()
    assert event == scanned
    return event


def in_memory(count, **options):
    _, events = stored(count, COSTS)
    [event] = polars.from_dicts(events, **options).tail(1).to_dicts()
    [framed] = polars.DataFrame(events, **options).tail(1).to_dicts()
    assert event == framed
    return event


def in_duckdb(count, **options):
    path, _ = stored(count, FAILED)
    relation = duckdb.read_json(path, **options).filter("event = 'job.failed'")
    [row] = relation.fetchall()
    return dict(zip(relation.columns, row))


def in_daft(count, last, **options):
    path, _ = stored(count, last)
    return daft.read_json(path, **options).to_pylist()[-1]["result"]


def in_datafusion(count, last, **options):
    path, _ = stored(count, last)
    context = datafusion.SessionContext()
    context.register_json("events", path, file_extension=".jsonl", **options)
    return context.sql("SELECT result FROM events WHERE event = 'job.failed'").to_pylist()[0]["result"]


def in_clickhouse(count, settings=""):
    path, _ = stored(count, LATE)
    query = f"SELECT result FROM file('{path}', JSONEachRow) WHERE event = 'job.failed' {settings}"
    return json.loads(str(chdb.query(query, "JSONEachRow")))["result"]


def in_arrow(count, schema=None):
    _, events = stored(count, NOTICE)
    return pyarrow.Table.from_pylist(events, schema=schema).to_pylist()[-1]


limits = ", ".join(f"input_format_max_{what}_to_read_for_schema_inference=1000000000" for what in ["rows", "bytes"])
text, number = daft.DataType.string(), daft.DataType.float64()
RESULT = daft.DataType.struct({"cost": number, "warnings": daft.DataType.list(text), "reason": text})
CHEAP = {"cost": 1, "warnings": []}
SCHEMA = pyarrow.schema({"event": pyarrow.string(), "error": pyarrow.string(), "reason": pyarrow.string()})
failed = False
for name, found, expected in [
    ("polars.read_ndjson after 99 events", in_file(99), LAST),
    ("... after 100", in_file(100), LAST | {"result": {"cost": 1, "warnings": [None]}}),
    ("... with infer_schema_length=None", in_file(100, infer_schema_length=None), LAST),
    ("polars.from_dicts after 99 events", in_memory(99), COSTS),
    ("... after 100", in_memory(100), COSTS | {"result": {"cost": 1, "warnings": []}}),
    ("... with infer_schema_length=None", in_memory(100, infer_schema_length=None), COSTS),
    ("duckdb.read_json after 20479 events", in_duckdb(20479), FAILED),
    ("... after 20480", in_duckdb(20480), {"event": "job.failed", "result": {"cost": 2, "warnings": []}, "error": None}),
    ("... with sample_size=-1", in_duckdb(20480, sample_size=-1), FAILED),
    ("daft.read_json after 40000 events", in_daft(40000, LATE), {"cost": 1, "warnings": None}),
    ("... with a cost of 1.5", in_daft(40000, FAILED), {"cost": 1, "warnings": None}),
    ("... with a schema", in_daft(40000, COSTS, schema={"result": RESULT}), COSTS["result"]),
    ("DataFusion after 1000 events", in_datafusion(1000, LATE), CHEAP),
    ("... with a cost of 1.5", in_datafusion(1000, FAILED), CHEAP),
    ("... with schema_infer_max_records", in_datafusion(1000, LATE, schema_infer_max_records=1001), LATE["result"]),
    ("ClickHouse after 25000 events", in_clickhouse(25000), CHEAP),
    ("... with larger limits", in_clickhouse(25000, f"SETTINGS {limits}"), LATE["result"]),
    ("pyarrow.Table.from_pylist", in_arrow(1), {"event": "endpoint.failing", "result": None, "error": None}),
    ("... with a schema", in_arrow(1, SCHEMA), {"event": "endpoint.failing", "error": None, "reason": "status_5xx"}),
]:
    print(f"{name}: {found}")
    failed |= json.dumps(found, sort_keys=True) != json.dumps(expected, sort_keys=True)
sys.exit(failed)
PYTHON
python/bin/python read.py
