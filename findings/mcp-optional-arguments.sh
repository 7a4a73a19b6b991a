#!/bin/bash
# smolagents 1.26.0 (Python) tells the model that every argument of a tool of the Model Context Protocol is required, also one
# that the server declares optional, or that may be null. openai-agents 0.24.0 does the same with `convert_schemas_to_strict`,
# and does not add null to the values. Each calls the tool if an argument is missing, so a test without a model finds
# nothing. Hurt: those who serve tools with optional filters: the model invents a value for each, and finds too little.
# Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool. A fix for smolagents is open as
# https://github.com/grll/mcpadapt/pull/90.
# Usage: findings/mcp-optional-arguments.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --quiet --disable-pip-version-check smolagents==1.26.0 mcpadapt==0.1.19 mcp==1.30.0 openai-agents==0.24.0
cat > serve.py <<'PYTHON'
import asyncio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import TextContent, Tool

text = {"type": "string", "description": "Only deliveries with this status."}
nullable = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Only deliveries of this job."}
schema = {"type": "object", "properties": {"status": text, "job": nullable}}
server = Server("deliveries")


@server.list_tools()
async def tools():
    return [Tool(name="count", description="Counts deliveries.", inputSchema=schema)]


@server.call_tool()
async def call(name, arguments):
    return [TextContent(type="text", text=f"counted {arguments}")]


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
PYTHON
cat > seen.py <<'PYTHON'
import asyncio, sys
from agents.mcp import MCPServerStdio, MCPUtil
from mcp import StdioServerParameters
from smolagents import ToolCollection
from smolagents.models import get_tool_json_schema

SERVER = {"command": sys.executable, "args": ["serve.py"]}


async def openai_agents(strict):
    async with MCPServerStdio(params=SERVER) as server:
        [tool] = await server.list_tools()
        return MCPUtil.to_function_tool(tool, server, strict).params_json_schema


def summary(schema):
    status = schema["properties"]["status"]
    null = "null" in str(status.get("type")) or status.get("nullable") or "anyOf" in status
    return {"required": sorted(schema.get("required", [])), "status may be null": bool(null)}


with ToolCollection.from_mcp(StdioServerParameters(**SERVER), trust_remote_code=True, structured_output=False) as collection:
    [tool] = collection.tools
    smolagents = get_tool_json_schema(tool)["function"]["parameters"]
    print(f"smolagents without arguments: {tool()}")
results = {
    "smolagents": summary(smolagents),
    "openai-agents": summary(asyncio.run(openai_agents(False))),
    "openai-agents, strict": summary(asyncio.run(openai_agents(True))),
}
for name, result in results.items():
    print(f"{name}: {result}")
both = {"required": ["job", "status"], "status may be null": False}
assert results == {
    "smolagents": both,
    "openai-agents": {"required": [], "status may be null": False},
    "openai-agents, strict": both,
}
PYTHON
venv/bin/python seen.py 2> log || { cat log; exit 1; }
