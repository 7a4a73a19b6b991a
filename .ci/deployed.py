"""Shared parts of the programs that deploy a package to an emulator of AWS."""

import base64, hmac, json, os, socket

REGION = "eu-central-1"
STACK = "webhooks"
PARAMETERS = {
    "MailFrom": "mail@example.com",
    "MailIdentity": "example.com",
    # The receiver runs on this machine.
    "AllowHttpDestinations": "true",
    "AllowedDestinations": "127.0.0.0/8",
}


def isolate(key):
    """Sets credentials with this access key, so that the caller's settings lead neither to AWS nor to a proxy. SDKs read them
    when they are imported."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {"AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "x"}
    os.environ |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def verified(headers, body, secret):
    """Checks the signature of a delivery. Returns its id and event."""
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    tag = base64.b64encode(hmac.digest(secret.encode(), signed, "sha256")).decode()
    assert f"v1,{tag}" in headers["webhook-signature"].split(" "), headers
    return headers["webhook-id"], json.loads(body)
