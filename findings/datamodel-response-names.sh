#!/bin/bash
# datamodel-code-generator 0.89.0 names the model of an operation's error like that of its success, if the success refers to a
# component: of `getThing`, with 200 as a `$ref` and 404 as an inline schema, it makes `GetThingResponse` with the members of
# the 404. With both inline, `GetOtherResponse` is the 200. `--use-status-code-in-response-name` names it GetThingResponse404.
# Hurt: developers who import the class by its name: each valid response fails in Pydantic, and the code reads correctly.
# Usage: findings/datamodel-response-names.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datamodel-code-generator==0.89.0 pydantic==2.14.4
cat > document.py <<'PYTHON'
import json

THING = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
ERROR = {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}}


def operation(name, success):
    responses = {
        status: {"description": "A response.", "content": {"application/json": {"schema": schema}}}
        for status, schema in [("200", success), ("404", ERROR)]
    }
    return {"get": {"operationId": name, "responses": responses}}


paths = {
    "/thing": operation("getThing", {"$ref": "#/components/schemas/Thing"}),
    "/other": operation("getOther", THING),
}
info = {"title": "Things", "version": "1"}
print(json.dumps({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": {"Thing": THING}}}))
PYTHON
python3 document.py > openapi.json
seen() {
  venv/bin/datamodel-codegen --input openapi.json --input-file-type openapi --openapi-scopes schemas paths \
    --use-operation-id-as-name --output models.py --output-model-type pydantic_v2.BaseModel --formatters builtin "$@" \
    > log 2>&1
  venv/bin/python -c '
import models
names = sorted(name for name in vars(models) if "Response" in name)
print(*(f"{name}: {next(iter(vars(models)[name].model_fields))}" for name in names), sep=", ")'
}
default=$(seen)
by_status=$(seen --use-status-code-in-response-name)
echo "by default: $default"
echo "with the status: $by_status"
[ "$default" = 'GetOtherResponse: name, GetOtherResponse1: code, GetThingResponse: code' ]
[ "$by_status" = 'GetOtherResponse200: name, GetOtherResponse404: code, GetThingResponse404: code' ]
