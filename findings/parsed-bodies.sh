#!/bin/bash
# Hubot 14.1.0 (npm) and Jupyter Kernel Gateway 3.0.1 (PyPI, mode notebook-http) give a webhook's handler the parsed JSON only:
# Hubot parses each request before its scripts see it, so `req.rawBody` is undefined and the stream is empty, and no setting
# changes the parser but for its limit; the gateway puts a parsed object into `REQUEST`. Neither documents a way to the bytes.
# Hurt: developers who lead a webhook to a chat bot or to a cell of a notebook: written again, `1.50` and `\u00e9` differ, so no
# signature matches, and they verify nothing or reject every event.
# Source: https://hubotio.github.io/hubot/scripting.html#http-listener and
# https://jupyter-kernel-gateway.readthedocs.io/en/latest/http-mode.html
# Usage: findings/parsed-bodies.sh. Needs Node.js 20, npm, Python 3 with pip, and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${hubot:-}" "${gateway:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit hubot@14.1.0
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check jupyter-kernel-gateway==3.0.1 ipykernel==7.4.0
cat > hubot.mjs <<'JS'
import { Adapter, Robot } from "hubot";

class Silent extends Adapter {
  async run() {
    this.emit("connected");
  }
}
const robot = new Robot({ use: (robot) => new Silent(robot) }, true, "bot");
await robot.loadAdapter();
await robot.run();
// As in a script of Hubot.
robot.router.post("/hook", async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { body, rawBody } = request;
  response.send(`rawBody ${rawBody}, ${Buffer.concat(chunks).length} bytes in the stream, body ${JSON.stringify(body)}`);
});
JS
cat > hook.ipynb <<'JSON'
{"cells": [{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source":
  ["# POST /hook\n", "import json\n", "request = json.loads(REQUEST)\n",
   "print(sorted(request), json.dumps(request['body'], separators=(',', ':')))"]}],
 "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 4}
JSON
port=$((20000 + $$ % 12000))
PORT=$port BIND_ADDRESS=127.0.0.1 node hubot.mjs > hubot.log 2>&1 &
hubot=$!
HOME=$folder PATH=$folder/python/bin:$PATH python/bin/jupyter kernelgateway \
  --KernelGatewayApp.api=kernel_gateway.notebook_http --KernelGatewayApp.seed_uri="$folder/hook.ipynb" \
  --KernelGatewayApp.ip=127.0.0.1 --KernelGatewayApp.port=$((port - 10000)) > gateway.log 2>&1 &
gateway=$!
for one in "$port" $((port - 10000)); do
  for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$one") 2> /dev/null && break; sleep 0.1; done
done
seen=$(
  for one in "$port" $((port - 10000)); do
    curl --silent --max-time 20 --header 'content-type: application/json' --data '{"rate":1.50,"name":"\u00e9"}' \
      "http://127.0.0.1:$one/hook"
    echo
  done | grep .
)
echo "$seen"
[ "$seen" = 'rawBody undefined, 0 bytes in the stream, body {"rate":1.5,"name":"é"}
['"'args', 'body', 'headers', 'path'"'] {"rate":1.5,"name":"\u00e9"}' ]
