#!/bin/bash
# Zappa 0.63.0 finds the function for a queue in a list that `zappa deploy` and `zappa update` put into the package. If the queue is
# not in it, the handler logs "Cannot find a function to process the triggered event." and returns, so Lambda counts the messages as
# processed and deletes them. This is the case after `zappa schedule`, which its README gives as the one step after a new event
# source and which connects the queue without a new package, and after a `zappa rollback` to a version before the queue. An
# error of a function is raised, so its message is repeated. Hurt: receivers of webhooks that process their queue with Zappa: all
# events of this time are lost, without an error or a retry.
# Sources: https://github.com/zappa/Zappa#executing-in-response-to-aws-events, zappa/handler.py and `schedule` in zappa/cli.py
# Usage: findings/zappa-unknown-queues.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check zappa==0.63.0 flask==3.1.3
cat > receiver.py <<'PYTHON'
import flask

app = flask.Flask(__name__)


def process(event, context):
    raise OSError("The database is away")
PYTHON
# Settings as `zappa deploy` writes them, apart from the list of queues.
cat > invoke.py <<'PYTHON'
import sys, types

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:events"
settings = types.ModuleType("zappa_settings")
vars(settings).update(
    API_STAGE="production", APP_FUNCTION="app", APP_MODULE="receiver", BINARY_SUPPORT=True, CONTEXT_HEADER_MAPPINGS={}, DEBUG=False,
    DJANGO_SETTINGS=None, DOMAIN=None, ENVIRONMENT_VARIABLES={}, EXCEPTION_HANDLER=None, LOG_LEVEL="INFO", PROJECT_NAME="receiver",
    AWS_BOT_EVENT_MAPPING={}, AWS_EVENT_MAPPING={}, COGNITO_TRIGGER_MAPPING={}, AUTHORIZER_FUNCTION=None,
)
sys.modules["zappa_settings"] = settings
from zappa.handler import lambda_handler

record = {"messageId": "1", "body": '{"event":"job.completed"}', "eventSource": "aws:sqs", "eventSourceARN": QUEUE}
found = []
for mapping in {}, {QUEUE: ["receiver.process"]}:
    settings.AWS_EVENT_MAPPING = mapping
    try:
        result = lambda_handler({"Records": [record]}, None)
        found.append("deleted")
    except OSError as error:
        result = repr(error)
        found.append("kept for a retry")
    print(f"{mapping.get(QUEUE, 'a queue that is not in the package')}: {result}, so the message is {found[-1]}")
sys.exit(found != ["deleted", "kept for a retry"])
PYTHON
AWS_DEFAULT_REGION=eu-central-1 venv/bin/python invoke.py 2> log || { cat log; exit 1; }
grep "Cannot find a function" log
