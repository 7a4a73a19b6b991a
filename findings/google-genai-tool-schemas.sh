#!/bin/bash
# google-genai 3.6.1 (Python) fails with an AttributeError at every tool of the Model Context Protocol whose schema has
# `additionalProperties: false`, which generators of schemas write for inputs that reject unknown arguments. It sends the
# model no values for a `oneOf` of constants, and no description beside an `anyOf`, without a warning. Hurt: those who serve
# tools: their server works with other clients, and with this one, no call reaches the model, or the model guesses values.
# Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool. The error is open as
# https://github.com/googleapis/python-genai/issues/2393; the two others are silent.
# Usage: findings/google-genai-tool-schemas.sh. Needs Python 3 and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check google-genai==3.6.1 mcp==2.3.0
cat > tools.py <<'PYTHON'
import asyncio, json, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from google import genai
from mcp.types import Tool

requests = []


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "18")
        self.end_headers()
        self.wfile.write(b'{"candidates": []}')

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = genai.Client(api_key="none", http_options={"base_url": f"http://127.0.0.1:{server.server_port}"})


def sent(status, **more):
    """The schema of an argument that the model gets, or the error before the request."""
    schema = {"type": "object", "properties": {"status": status}, **more}
    config = {"tools": [Tool(name="list", description="Lists deliveries.", inputSchema=schema)]}
    try:
        asyncio.run(client.aio.models.generate_content(model="gemini-2.5-flash", contents="Hello", config=config))
    except AttributeError as error:
        return f"AttributeError: {error}"
    return requests.pop()["tools"][0]["functionDeclarations"][0]["parameters"]["properties"]["status"]


names = {"type": "string", "enum": ["failed", "held"], "description": "One of two."}
constants = {"oneOf": [{"const": "failed"}, {"const": "held"}], "description": "One of two."}
optional = {"anyOf": [{"type": "string", "enum": ["failed", "held"]}, {"type": "null"}], "description": "One of two."}
results = {
    "names": sent(names),
    "closed": sent(names, additionalProperties=False),
    "constants": sent(constants),
    "optional": sent(optional),
}
for name, result in results.items():
    print(f"{name}: {result}")
assert results == {
    "names": {"type": "STRING", "enum": ["failed", "held"], "description": "One of two."},
    "closed": "AttributeError: 'bool' object has no attribute 'items'",
    "constants": {"description": "One of two."},
    "optional": {"type": "STRING", "enum": ["failed", "held"], "nullable": True},
}
PYTHON
python/bin/python tools.py
