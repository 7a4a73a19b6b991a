#!/bin/bash
# A server for the Model Context Protocol that openapi-mcp-generator 4.0.1 generates reports each failed call as a success: the
# text of the result names the status, but `isError` is absent, also if the API answers 401 or 500. mcp-openapi-proxy 0.4.0 (PyPI)
# sets it to false, and leaves out the API's message. The protocol has `isError` for these. @ivotoby/openapi-mcp-server 1.16.1
# sets it to true. Hurt: programs and agents that continue after a call because it succeeded, such as one that resends an event.
# Source: https://modelcontextprotocol.io/specification/2025-06-18/server/tools#error-handling
# Usage: findings/mcp-generator-errors.sh. Needs Node.js 20, npm's registry, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts openapi-mcp-generator@4.0.1 @ivotoby/openapi-mcp-server@1.16.1 \
  @modelcontextprotocol/sdk@1.32.2 axios@1.21.1 dotenv@16.6.1 zod@3.25.76 json-schema-to-zod@2.8.1 @types/node@22.20.7 \
  typescript@5.9.3
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check mcp-openapi-proxy==0.4.0
cat > compare.mjs <<'NODE'
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

let status = 200;
const api = createServer((request, response) => {
  request.resume().on("end", () => {
    response.writeHead(status, { "content-type": "application/json" }).end(`{"status":${status}}`);
  });
});
await new Promise((listening) => api.listen(0, "127.0.0.1", listening));
const url = `http://127.0.0.1:${api.address().port}`;
const content = { "application/json": { schema: { type: "object" } } };
const responses = { 200: { description: "Resent", content }, default: { description: "Failed", content } };
const resend = { operationId: "resend", summary: "Resend a delivery", requestBody: { content }, responses };
const description = { openapi: "3.1.0", info: { title: "Jobs", version: "1" }, servers: [{ url }], paths: { "/resend": { post: resend } } };
writeFileSync("openapi.json", JSON.stringify(description));
execFileSync("node_modules/.bin/openapi-mcp-generator", ["--input", "openapi.json", "--output", "server"], { stdio: "ignore" });
execFileSync("node_modules/.bin/tsc", ["--project", "server"]);

const servers = {
  "openapi-mcp-generator": ["node", ["server/build/index.js"], { requestBody: {} }],
  "@ivotoby/openapi-mcp-server": ["node_modules/.bin/openapi-mcp-server", ["--api-base-url", url, "--openapi-spec", "openapi.json"], {}],
  "mcp-openapi-proxy": ["python/bin/mcp-openapi-proxy", [], {}, { OPENAPI_SPEC_URL: `file://${process.cwd()}/openapi.json` }],
};
const found = {};
for (const [name, [command, args, input, env]] of Object.entries(servers)) {
  const client = new Client({ name: "finding", version: "1" });
  await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }));
  found[name] = [];
  for (status of [200, 401, 500]) {
    const { isError, content } = await client.callTool({ name: env ? "post_resend" : "resend", arguments: input });
    console.log(`${name}, HTTP ${status}: isError ${isError}, ${JSON.stringify(content[0].text)}`);
    found[name].push(isError ?? false);
  }
  await client.close();
}
api.close();
const expected = {
  "openapi-mcp-generator": [false, false, false],
  "@ivotoby/openapi-mcp-server": [false, true, true],
  "mcp-openapi-proxy": [false, false, false],
};
process.exit(JSON.stringify(found) === JSON.stringify(expected) ? 0 : 1);
NODE
node compare.mjs
