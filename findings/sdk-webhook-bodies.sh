#!/bin/bash
# The Python helpers for Standard Webhooks of resend 2.52.0 and replicate 1.0.7 reject each valid event whose body is bytes, such
# as Flask's `request.get_data()` or FastAPI's `await request.body()`: they put the bytes into the signed text as Python prints
# them, with `b'...'`, and report a wrong signature instead of a wrong type. They accept `body.decode()`, and replicate's checks
# no timestamp. openai 3.57.0 and standardwebhooks 1.1.0 take both, and liveblocks 3.23.0 names the type, and refuses event
# types that are not its own. Hurt: developers of receivers who use the helper of an SDK that they have installed already: each
# delivery fails, and the error sends them to the secret.
# Source: https://resend.com/docs/webhooks/verify-webhooks-requests
# Usage: findings/sdk-webhook-bodies.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check liveblocks==3.23.0 openai==3.57.0 replicate==1.0.7 resend==2.52.0 \
  standardwebhooks==1.1.0
cat > verify.py <<'PYTHON'
import base64, hmac, sys, time
import liveblocks, openai, replicate.webhook, resend, standardwebhooks

KEY, ID = b"k" * 24, "msg_1854d20f452c5b4c1e350d7c7a00518b"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = b'{"event":"job.completed","job_id":"job-1","result":{"answer":42}}'


def headers(age):
    sent = str(int(time.time()) - age)
    tag = hmac.digest(KEY, f"{ID}.{sent}.".encode() + BODY, "sha256")
    return {"webhook-id": ID, "webhook-timestamp": sent, "webhook-signature": "v1," + base64.b64encode(tag).decode()}


def with_resend(body, headers):
    options = {
        "payload": body,
        "headers": {name.removeprefix("webhook-"): value for name, value in headers.items()},
        "webhook_secret": SECRET,
    }
    resend.Webhooks.verify(options)


def with_replicate(body, headers):
    key = replicate.webhook.WebhookSigningSecret(key=SECRET)
    replicate.webhook.Webhooks.validate(headers=headers, body=body, secret=key)


HELPERS = {
    "openai": lambda body, headers: openai.OpenAI(api_key="-", webhook_secret=SECRET).webhooks.verify_signature(body, headers),
    "standardwebhooks": standardwebhooks.Webhook(SECRET).verify,
    "resend": with_resend,
    "replicate": with_replicate,
    "liveblocks": lambda body, headers: liveblocks.WebhookHandler(SECRET).verify_request(headers=headers, raw_body=body),
}


def seen(verify, body, age=0):
    try:
        verify(body, headers(age))
        return "accepted"
    except Exception as error:
        return str(error) or type(error).__name__


found = {name: [seen(verify, BODY), seen(verify, BODY.decode()), seen(verify, BODY, 3600)] for name, verify in HELPERS.items()}
found["replicate"][2] = seen(with_replicate, BODY.decode(), 3600)
for name, (bytes_, text, old) in found.items():
    print(f"{name}: bytes: {bytes_}; text: {text}; an hour old: {old}")
accepted = {name: [result == "accepted" for result in results] for name, results in found.items()}
assert accepted == {
    "openai": [True, True, False],
    "standardwebhooks": [True, True, False],
    "resend": [False, True, False],
    "replicate": [False, True, True],
    "liveblocks": [False, False, False],
}
assert "signature" in found["resend"][0] and "signature" in found["replicate"][0]
PYTHON
python/bin/python verify.py
