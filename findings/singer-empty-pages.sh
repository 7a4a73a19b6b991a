#!/bin/bash
# A tap built with Meltano's Singer SDK (singer-sdk 0.54.9) ends a list at its first empty page, although the page
# names the next one. It logs "Pagination stopped" as information, and the job succeeds. With dlt 1.31.0, the list is
# whole. Hurt: those who copy lists from an API with cursors into a warehouse: an API that filters while it reads, such
# as DynamoDB or a log of webhooks, answers with empty pages in the middle, so all that follows is missing, for example
# most failed deliveries. A paginator whose `continue_if_empty` returns True helps.
# Source: https://sdk.meltano.com/en/latest/classes/singer_sdk.pagination.BaseAPIPaginator.html
# Usage: findings/singer-empty-pages.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check dlt==1.31.0 requests==2.34.2 singer-sdk==0.54.9
cat > lists.py <<'PYTHON'
import http.server, json, threading
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator
from singer_sdk import RESTStream, Tap, typing
from singer_sdk.pagination import JSONPathPaginator

PAGES = {
    None: {"deliveries": [{"id": "a"}], "next_cursor": "second"},
    "second": {"deliveries": [], "next_cursor": "third"},
    "third": {"deliveries": [{"id": "b"}]},
}


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(PAGES[request.get("cursor")]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"


class Deliveries(RESTStream):
    name, path, rest_method = "deliveries", "/list", "POST"
    url_base = address
    records_jsonpath, next_page_token_jsonpath = "$.deliveries[*]", "$.next_cursor"
    schema = typing.PropertiesList(typing.Property("id", typing.StringType)).to_dict()

    def prepare_request_payload(self, context, next_page_token):
        return {"cursor": next_page_token} if next_page_token else {}


class Patient(JSONPathPaginator):
    def continue_if_empty(self, response):
        return True


class Whole(Deliveries):
    def get_new_paginator(self):
        return Patient(self.next_page_token_jsonpath)


class DeliveriesTap(Tap):
    name, config_jsonschema = "tap-deliveries", typing.PropertiesList().to_dict()

    def discover_streams(self):
        return [Deliveries(self), Whole(self)]


first, whole = DeliveriesTap(config={}).discover_streams()
print("singer-sdk:", *(record["id"] for record in first.request_records(None)))
print("singer-sdk with continue_if_empty:", *(record["id"] for record in whole.request_records(None)))
cursors = JSONResponseCursorPaginator(cursor_path="next_cursor", cursor_body_path="cursor")
client = RESTClient(address, paginator=cursors, data_selector="deliveries")
print("dlt:", *(record["id"] for page in client.paginate("/list", method="POST", json={}) for record in page))
PYTHON
python/bin/python lists.py 2> log | tee seen
grep "Pagination stopped" log
grep --quiet --line-regexp "singer-sdk: a" seen
grep --quiet --line-regexp "singer-sdk with continue_if_empty: a b" seen
grep --quiet --line-regexp "dlt: a b" seen
