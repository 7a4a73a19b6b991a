#!/bin/bash
# PyPI's standardwebhooks 1.1.0 and svix 2.9.1 make a key of a secret that is not valid base64: they ignore every other
# character, so "a secret of some length" gives the key of "asecretofsomelength". The deliveries are signed with the bytes
# of the secret, so each one is rejected with "No matching signature found", which suggests a wrong secret or a changed
# body. npm's standardwebhooks 1.1.1 fails in its constructor instead. Passing the secret as bytes works in both. Hurt:
# receivers in Python whose secret is a passphrase.
# Usage: findings/python-secrets.sh. Needs Python 3.11 with pip, Node.js 20, npm, PyPI and npm's registry. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check standardwebhooks==1.1.0 svix==2.9.1
npm install --silent --no-audit --no-fund standardwebhooks@1.1.1
cat > verify.py <<'PYTHON'
import base64, datetime, hmac, json
import standardwebhooks, svix

SECRET, ID, BODY = "a secret of some length", "msg_1", '{"n":1}'
now = int(datetime.datetime.now().timestamp())
tag = hmac.digest(SECRET.encode(), f"{ID}.{now}.{BODY}".encode(), "sha256")
headers = {"webhook-id": ID, "webhook-timestamp": str(now), "webhook-signature": "v1," + base64.b64encode(tag).decode()}


def seen(library, secret):
    """What the constructor and then the verification of a valid delivery do."""
    webhook = library.Webhook(secret)
    try:
        webhook.verify(BODY, headers)
        return "accepts"
    except library.WebhookVerificationError as error:
        return f"rejects: {error}"


for library in standardwebhooks, svix.webhooks:
    text, raw = seen(library, SECRET), seen(library, SECRET.encode())
    print(f"{library.__name__}: the secret as text {text}; as bytes {raw}")
    assert (text, raw) == ("rejects: No matching signature found", "accepts")
PYTHON
python/bin/python verify.py
cat > construct.cjs <<'NODE'
const { Webhook } = require("standardwebhooks");
try {
  new Webhook("a secret of some length");
  process.exit(1);
} catch (error) {
  console.log(`standardwebhooks of npm: the constructor fails: ${error.message}`);
}
NODE
node construct.cjs
