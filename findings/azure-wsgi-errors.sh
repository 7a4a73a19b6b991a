#!/bin/bash
# azure-functions 1.26.0's `WsgiMiddleware`, with Flask 3.1.3, raises an error, so that the function answers 500, once the
# application has written to `wsgi.errors`: for this event, which has been processed, and for each later one until the worker
# restarts, because the text is never removed. Flask's documentation sets up logging this way, so one line of
# `app.logger.info` is enough. It also raises one for each response of 500 or more, so a 503 becomes a 500 without its
# `Retry-After`. Hurt: receivers of webhooks on Azure Functions: each event is processed, counts as failed and is sent again,
# up to the sender's last attempt.
# Sources: https://flask.palletsprojects.com/en/stable/logging/ and `_handle_errors` in `azure/functions/_http_wsgi.py`
# Usage: findings/azure-wsgi-errors.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check azure-functions==1.26.0 flask==3.1.3
cat > receiver.py <<'PYTHON'
import logging.config, sys
import azure.functions, flask

logging.config.dictConfig({
    "version": 1,
    "handlers": {"wsgi": {"class": "logging.StreamHandler", "stream": "ext://flask.logging.wsgi_errors_stream"}},
    "root": {"level": "INFO", "handlers": ["wsgi"]},
})
app = flask.Flask("receiver")
processed = []


@app.post("/hook")
def hook():
    processed.append(flask.request.get_data())
    if len(processed) == 2:
        app.logger.info("The second event is here")
    return "", 204


@app.post("/busy")
def busy():
    return "", 503, {"retry-after": "60"}


def post(middleware, path):
    request = azure.functions.HttpRequest(
        method="POST", url=f"https://example.com{path}", headers={"content-type": "application/json"}, body=b"{}"
    )
    try:
        return middleware.handle(request).status_code
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", "")


middleware = azure.functions.WsgiMiddleware(app.wsgi_app)
found = [post(middleware, "/hook") for _ in range(4)]
busy_found = post(azure.functions.WsgiMiddleware(app.wsgi_app), "/busy")
print(f"four events, of which the second one writes a line to the log: {found}; processed: {len(processed)}")
print(f"503 with Retry-After: {busy_found}")
error = "Exception: The second event is here"
sys.exit((found, len(processed), busy_found) != ([204, error, error, error], 4, "Exception: b''"))
PYTHON
python/bin/python receiver.py
