#!/bin/bash
# A flow of Node-RED 4.1.13 that passes a request on to an API (`http in`, `http request`, `http response`) answers 200 if the
# API refuses the connection: `http request` sets `msg.statusCode` to the text ECONNREFUSED, and `http response` sends its
# default for a status that is no number. Its help says that the default is for messages without a status. If the API answers
# 410, Node-RED does, too, so a test with an error of the API passes; the option "Only send non-2xx responses to Catch node"
# sends only a refused connection there, and a 410 to the `http response`. A Switch node for a status from 200 to 299, whose
# other output leads to an `http response` with 503, is right. Hurt: receivers of webhooks whose flow calls an API of their own:
# each event of a restart or an outage of the API counts as delivered, and is lost.
# Source: `statusCode` in the help of both nodes, @node-red/nodes/locales/en-US/network/21-httprequest.html and 21-httpin.html
# Usage: findings/node-red-refused-requests.sh. Needs Node.js 20, npm's registry and curl. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill -KILL ${red:-} ${api:-} 2> /dev/null || true; wait 2> /dev/null; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts node-red@4.1.13
port=$((20000 + $$ % 12000))
url=http://127.0.0.1:$((port + 1))/events
cat > flows.json <<JSON
[{"id": "tab", "type": "tab", "label": "webhooks"},
 {"id": "in", "type": "http in", "z": "tab", "url": "/hook", "method": "post", "wires": [["call"]]},
 {"id": "call", "type": "http request", "z": "tab", "method": "POST", "ret": "txt", "url": "$url", "wires": [["out"]]},
 {"id": "out", "type": "http response", "z": "tab", "statusCode": "", "wires": []},
 {"id": "in2", "type": "http in", "z": "tab", "url": "/caught", "method": "post", "wires": [["call2"]]},
 {"id": "call2", "type": "http request", "z": "tab", "method": "POST", "ret": "txt", "url": "$url", "senderr": true,
  "wires": [["out"]]},
 {"id": "catch", "type": "catch", "z": "tab", "x": 1, "y": 1, "scope": ["call2"], "wires": [["out503"]]},
 {"id": "out503", "type": "http response", "z": "tab", "statusCode": "503", "wires": []},
 {"id": "in3", "type": "http in", "z": "tab", "x": 1, "y": 1, "url": "/switch", "method": "post", "wires": [["call3"]]},
 {"id": "call3", "type": "http request", "z": "tab", "x": 1, "y": 1, "method": "POST", "ret": "txt", "url": "$url",
  "wires": [["switch"]]},
 {"id": "switch", "type": "switch", "z": "tab", "x": 1, "y": 1, "property": "statusCode", "propertyType": "msg",
  "rules": [{"t": "btwn", "v": "200", "vt": "num", "v2": "299", "v2t": "num"}, {"t": "else"}], "checkall": "false",
  "wires": [["out"], ["out503"]]}]
JSON
echo "module.exports = { flowFile: 'flows.json', uiPort: $port, uiHost: '127.0.0.1', disableEditor: true };" > settings.js
cat > api.js <<'JS'
require("http").createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(Number(process.argv[3])).end("answer"));
}).listen(process.argv[2], "127.0.0.1");
JS
wait_for() { for _ in {1..300}; do (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null && break; sleep 0.1; done; }
post() {
  for path in hook caught switch; do
    curl --silent --max-time 15 --output body --write-out "$1, /$path: %{http_code}, " --header 'content-type: application/json' \
      --data '{"event":"job.completed"}' "http://127.0.0.1:$port/$path"
    sed 's/127.0.0.1:[0-9]*/API/g' body
    echo
  done
}
node node_modules/node-red/red.js --settings settings.js --userDir "$folder" > log 2>&1 &
red=$!
wait_for "$port"
for _ in {1..100}; do grep --quiet 'Started flows' log && break; sleep 0.1; done
seen=$(post 'the API is away')
for status in 410 200; do
  node api.js $((port + 1)) $status &
  api=$!
  wait_for $((port + 1))
  seen+=$'\n'$(post "the API answers $status")
  kill $api
  wait $api || true
done
echo "$seen"
[ "$seen" = 'the API is away, /hook: 200, RequestError: connect ECONNREFUSED API : http://API/events
the API is away, /caught: 503, {"event":"job.completed"}
the API is away, /switch: 503, RequestError: connect ECONNREFUSED API : http://API/events
the API answers 410, /hook: 410, answer
the API answers 410, /caught: 410, answer
the API answers 410, /switch: 503, answer
the API answers 200, /hook: 200, answer
the API answers 200, /caught: 200, answer
the API answers 200, /switch: 200, answer' ]
