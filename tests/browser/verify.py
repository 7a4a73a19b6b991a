"""Verifies requests with Standard Webhooks' library for Python, for clients.test.mjs."""

import json, sys

from standardwebhooks import Webhook, WebhookVerificationError


def is_valid(request):
    try:
        event = Webhook(request["secret"]).verify(request["body"].encode(), request["headers"])
    except WebhookVerificationError:
        return False
    return event["job_id"] == "job-1"


json.dump([is_valid(request) for request in json.load(sys.stdin)], sys.stdout)
