#!/bin/bash
# llama-index-tools-mcp 0.6.0 marks a failed call of a tool as a success: a server of the Model Context Protocol reports it with
# `isError`, and the output of LlamaIndex's tool has `is_error` false. LlamaIndex's own tools have it true after an error.
# The model gets the result as Python prints it, `meta=None content=[TextContent(...)]`, with escaped line breaks and
# `is_error=True` at its end. It also starts the server anew for each call. Hurt: workflows that continue after a tool
# because it succeeded, such as one that resends an event.
# Source: https://modelcontextprotocol.io/specification/2025-06-18/server/tools#error-handling
# Usage: findings/llama-index-tool-errors.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check llama-index-tools-mcp==0.6.0 llama-index-core==0.14.25 mcp==2.3.0
cat > server.py <<'PYTHON'
import json, sys

with open("starts", "a") as file:
    file.write("1")
tool = {"name": "resend", "description": "Resend an event", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params = message.get("params", {})
    if message["method"] == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "events", "version": "1"}
    elif message["method"] == "tools/list":
        result = {"tools": [tool]}
    elif message["method"] == "tools/call":
        known = params["arguments"]["id"] == "event-1"
        text = "The event was resent." if known else "The event was not found.\nIt was not resent."
        result = {"content": [{"type": "text", "text": text}], "isError": not known}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
PYTHON
cat > call.py <<'PYTHON'
import asyncio, sys
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.calling import acall_tool
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


def resend(id: str) -> str:
    """Resend an event"""
    raise ValueError("The event was not found.")


async def main():
    client = BasicMCPClient(sys.executable, args=["server.py"])
    [tool] = await McpToolSpec(client=client).to_tool_list_async()
    starts = len(open("starts").read())
    found = []
    for name, used, id in [("MCP", tool, "event-1"), ("MCP", tool, "event-2"), ("own", FunctionTool.from_defaults(resend), "event-2")]:
        output = await acall_tool(used, {"id": id})
        print(f"{name} tool, {id}: is_error {output.is_error}, the model gets {output.content!r}")
        found.append(output.is_error)
    direct = await client.call_tool("resend", {"id": "event-2"})
    print(f"the client itself, event-2: is_error {direct.is_error}")
    found.append(direct.is_error)
    starts = len(open("starts").read()) - starts
    print(f"starts of the server for three calls: {starts}")
    sys.exit(found != [False, False, True, True] or starts != 3)


asyncio.run(main())
PYTHON
venv/bin/python call.py
