#!/bin/bash
# Semantic Kernel 1.44.0 for Python makes functions of a description of OpenAPI, and builds the body of a call itself: each
# member that is an object is sent, as `{}`, also if it is optional and was not given. A map, such as one of headers, has a
# parameter, but is sent as `{}` even if it was given. With `enable_dynamic_payload=False`, the model gives the body as JSON,
# which is sent. A description with `"type": ["string", "null"]`, as OpenAPI 3.1 has it, is refused with an error. Hurt: users
# of an API whose update leaves absent members as they are: each call resets those.
# Source: https://spec.openapis.org/oas/v3.1.1.html#media-type-object
# Usage: findings/semantic-kernel-objects.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check semantic-kernel==1.44.0 httpx==0.28.1
cat > call.py <<'PYTHON'
import asyncio, http.server, json, logging, sys, threading, uuid
from semantic_kernel import Kernel
from semantic_kernel.connectors.openapi_plugin import OpenAPIFunctionExecutionParameters

logging.disable()
bodies = []


class Api(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def describe(url, description):
    members = {
        "id": {"type": "string"},
        "description": description,
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "schedule": {"type": "object", "properties": {"zone": {"type": "string"}}},
    }
    schema = {"type": "object", "required": ["id"], "properties": members}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    update = {"operationId": "update", "summary": "Update", "requestBody": body, "responses": {"204": {"description": "Done"}}}
    info = {"title": "Endpoints", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": url}], "paths": {"/update": {"post": update}}}


async def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    local = {"allow_private_network_access": True, "server_url_validation_allowed_base_urls": [url]}

    def load(description, **settings):
        # A new name each time, because files are cached.
        name = f"{uuid.uuid4()}.json"
        with open(name, "w") as file:
            json.dump(describe(url, description), file)
        settings = OpenAPIFunctionExecutionParameters(**local, **settings)
        return Kernel().add_plugin_from_openapi("endpoints", name, execution_settings=settings)["update"]

    kernel, text = Kernel(), {"type": "string"}
    update = load(text)
    print("parameters:", [parameter.name for parameter in update.parameters])
    await kernel.invoke(update, id="e1", description="Staging")
    await kernel.invoke(update, id="e1", headers={"authorization": "Bearer a"})
    await kernel.invoke(load(text, enable_dynamic_payload=False), payload='{"id":"e1","headers":{"x-team":"jobs"}}')
    for body in bodies:
        print("sent:", body)
    try:
        refused = load({"type": ["string", "null"]}) is None
    except Exception as error:
        print("with null:", str(error).splitlines()[0])
        refused = True
    expected = [
        {"id": "e1", "description": "Staging", "headers": {}, "schedule": {}},
        {"id": "e1", "headers": {}, "schedule": {}},
        {"id": "e1", "headers": {"x-team": "jobs"}},
    ]
    sys.exit(bodies != expected or not refused)


asyncio.run(main())
PYTHON
venv/bin/python call.py
