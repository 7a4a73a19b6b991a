#!/bin/bash
# Three clients of the Model Context Protocol wait 5 seconds for a tool by default, and then report an error:
# openai-agents 0.24.0, autogen-ext 0.7.5 and google-adk 2.13.0, whose `timeout` is, by its description, for the
# connection. The protocol has no limit, and langchain-mcp-adapters 0.3.2 waits. The tool has done its work by then,
# and its result is dropped. Hurt: those who let a model test a webhook endpoint: a receiver may take 15 seconds for an
# event, so the model finds one that takes 6 seconds broken, without its status, and sends another test. A limit of 30
# seconds helps: `client_session_timeout_seconds`, `read_timeout_seconds` and `timeout`, in this order.
# Source: https://github.com/google/adk-python/blob/main/src/google/adk/tools/mcp_tool/mcp_session_manager.py
# Usage: findings/mcp-client-timeouts.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for name in first second; do python3 -m venv "$name"; done
first/bin/pip install --quiet --no-compile --disable-pip-version-check autogen-core==0.7.5 autogen-ext==0.7.5 \
  langchain-mcp-adapters==0.3.2 mcp==1.30.0 openai-agents==0.24.0
second/bin/pip install --quiet --no-compile --disable-pip-version-check google-adk==2.13.0 mcp==2.3.0
cat > server.py <<'PYTHON'
import json, sys, time

tool = {"name": "test", "description": "Send a test event", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "events", "version": "1"}
    elif message["method"] == "tools/list":
        result = {"tools": [tool]}
    elif message["method"] == "tools/call":
        with open(sys.argv[1], "a") as sent:
            sent.write("sent")
        time.sleep(13)
        result = {"content": [{"type": "text", "text": "The receiver answered 204"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
PYTHON
cat > client.py <<'PYTHON'
import asyncio, contextlib, os, sys
from unittest.mock import MagicMock

name, limit = sys.argv[1], float(sys.argv[2])
file = f"{name}-{limit}"
server = {"command": sys.executable, "args": ["server.py", file]}


def own(option):
    return {option: limit} if limit else {}


async def openai_agents():
    from agents.mcp import MCPServerStdio

    async with MCPServerStdio(server, **own("client_session_timeout_seconds")) as client:
        return await client.call_tool("test", {})


async def autogen():
    from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

    async with McpWorkbench(StdioServerParams(**server, **own("read_timeout_seconds"))) as client:
        return await client.call_tool("test", {})


async def langchain():
    from langchain_mcp_adapters.client import MultiServerMCPClient

    tools = await MultiServerMCPClient({"events": {**server, "transport": "stdio"}}).get_tools()
    return await tools[0].ainvoke({})


async def google_adk():
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from mcp import StdioServerParameters

    params = StdioConnectionParams(server_params=StdioServerParameters(**server), **own("timeout"))
    client = McpToolset(connection_params=params)
    tools = await client.get_tools()
    try:
        return await tools[0].run_async(args={}, tool_context=MagicMock())
    finally:
        await client.close()


try:
    with open(os.devnull, "w") as log, contextlib.redirect_stderr(log):
        result = str(asyncio.run(globals()[name]()))
except Exception as error:
    result = str(error)
limit = f"a limit of {limit:.0f} s" if limit else "default"
outcome = "the result" if "answered 204" in result else "timed out" if "timed out" in result.lower() else result
with open(file) as sent:
    print(f"{name}, {limit}: {sent.read()}, {outcome}")
PYTHON
for limit in 0 30; do
  for name in openai_agents autogen langchain; do first/bin/python client.py "$name" "$limit" 2> errors & done
  second/bin/python client.py google_adk "$limit" 2> errors &
done > seen
wait
grep " sent, " seen | sort
for name in openai_agents autogen google_adk; do
  grep --quiet --line-regexp "$name, default: sent, timed out" seen
  grep --quiet --line-regexp "$name, a limit of 30 s: sent, the result" seen
done
grep --quiet --line-regexp "langchain, default: sent, the result" seen
