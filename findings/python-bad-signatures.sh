#!/bin/bash
# PyPI's standardwebhooks 1.1.0 and svix 2.9.1 raise binascii.Error or ValueError, not their WebhookVerificationError, if
# `webhook-signature` has an entry that is not `version,base64`: cut off, without a comma, with a second comma or a space
# after it. This holds as well if another entry of the list is valid. npm's standardwebhooks 1.1.1 skips such an entry,
# and accepts the valid one. Hurt: receivers that catch WebhookVerificationError to
# answer 400: for these requests they answer 500, which senders retry and alarms count as an outage of the receiver.
# Usage: findings/python-bad-signatures.sh. Needs Python 3.11 with pip, Node.js 20, npm, PyPI and npm's registry. Fails if
# the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check standardwebhooks==1.1.0 svix==2.9.1
npm install --silent --no-audit --no-fund standardwebhooks@1.1.1
cat > verify.py <<'PYTHON'
import base64, datetime, hmac, json, subprocess, sys
import standardwebhooks, svix

KEY, ID, BODY = b"k" * 24, "msg_1", "{}"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
now = str(int(datetime.datetime.now().timestamp()))
valid = "v1," + base64.b64encode(hmac.digest(KEY, f"{ID}.{now}.{BODY}".encode(), "sha256")).decode()
# The header, what Python's libraries do, and what npm's does.
CASES = {
    "valid": (valid, "accepts", "accepts"),
    "of another key": ("v1," + base64.b64encode(b"k" * 32).decode(), "WebhookVerificationError", "WebhookVerificationError"),
    "cut off": (valid[:-1], "Error", "WebhookVerificationError"),
    "without a comma": ("v1", "ValueError", "WebhookVerificationError"),
    "with a space": (valid.replace(",", ", "), "ValueError", "WebhookVerificationError"),
    "an unknown entry, then valid": (f"unknown {valid}", "ValueError", "accepts"),
}


def seen(verify, headers):
    try:
        verify(BODY, headers)
        return "accepts"
    except Exception as error:
        return type(error).__name__


for name, (signature, python, npm) in CASES.items():
    headers = {"webhook-id": ID, "webhook-timestamp": now, "webhook-signature": signature}
    found = {library.__name__: seen(library.Webhook(SECRET).verify, headers) for library in [standardwebhooks, svix.webhooks]}
    found["npm"] = subprocess.run(
        ["node", "verify.cjs", SECRET, BODY, json.dumps(headers)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    print(f"{name}: {found}")
    assert list(found.values()) == [python, python, npm]
PYTHON
cat > verify.cjs <<'NODE'
const { Webhook } = require("standardwebhooks");
const [secret, body, headers] = process.argv.slice(2);
try {
  new Webhook(secret).verify(body, JSON.parse(headers));
  console.log("accepts");
} catch (error) {
  console.log(error.constructor.name);
}
NODE
python/bin/python verify.py
