#!/bin/bash
# Models that datamodel-code-generator 0.89.0 makes of a property `json` do not suit both Pydantic 2.14.4 and a type checker,
# in either of its forms. By default, an optional field is `Field(None)`, and mypy 2.4.1 requires an argument for it, because
# type checkers only know the keyword `default`. With `--use-annotated`, the alias stands where mypy does not see it: mypy
# requires `json_`, which Pydantic rejects, and Pydantic requires `json`, which mypy rejects. `--use-annotated
# --allow-population-by-field-name` avoids both. Hurt: users of generated models with `mypy --strict`.
# Usage: findings/datamodel-type-checks.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datamodel-code-generator==0.89.0 pydantic==2.14.4 mypy==2.4.1
cat > schema.json <<'JSON'
{
  "title": "Call",
  "type": "object",
  "required": ["json"],
  "properties": { "json": { "type": "string" }, "note": { "type": "string", "description": "An optional field." } }
}
JSON
for call in json json_; do
  printf 'from models import Call\n\nprint(Call(%s="x"))\n' "$call" > "call_$call.py"
done

# Whether mypy and Pydantic accept a call with the name of the property, and with the name of the field.
seen() {
  local name
  venv/bin/datamodel-codegen --input schema.json --input-file-type jsonschema --output models.py --disable-timestamp \
    --output-model-type pydantic_v2.BaseModel --formatters builtin "$@" > log 2>&1
  for name in json json_; do
    printf '%s: ' "$name"
    if venv/bin/mypy --strict "call_$name.py" > log 2>&1; then printf 'mypy accepts, '; else printf 'mypy rejects, '; fi
    if venv/bin/python "call_$name.py" > log 2>&1; then printf 'Pydantic accepts. '; else printf 'Pydantic rejects. '; fi
  done
}

check() {
  local result
  result=$(seen "${@:2}")
  echo "options ${*:2}: $result"
  [ "$result" = "$1 " ]
}
check 'json: mypy rejects, Pydantic accepts. json_: mypy rejects, Pydantic rejects.'
check 'json: mypy rejects, Pydantic accepts. json_: mypy accepts, Pydantic rejects.' --use-annotated
check 'json: mypy rejects, Pydantic accepts. json_: mypy accepts, Pydantic accepts.' --use-annotated \
  --allow-population-by-field-name
