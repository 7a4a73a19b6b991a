"""Shared parts of the programs that use an emulator of AWS."""

import base64, contextlib, hmac, json, os, socket, subprocess, sys, time

from service import PATIENCE

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


def until(result, about):
    """Calls `result` until it is true, and returns it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := result()):
        assert time.monotonic() < deadline, about
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def ministack(folder):
    """Runs MiniStack, and yields its address."""
    port = free_port()
    address = os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
    variables = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "MINISTACK_REGION": REGION, "TMPDIR": str(folder)}
    # Otherwise, calls of the API without AWS credentials would belong to another account.
    variables["MINISTACK_ACCOUNT_ID"] = os.environ["AWS_ACCESS_KEY_ID"]
    # In this folder it finds no state of other runs, and the log shows the functions' output if something fails.
    with open(folder / "ministack.log", "w") as log:
        output = {"stdout": log, "stderr": log}
        command = [sys.executable, "-m", "ministack"]
        process = subprocess.Popen(command, cwd=folder, env=os.environ | variables, **output)
        try:
            until(lambda: process.poll() is not None or not socket.socket().connect_ex(("127.0.0.1", port)), "no start")
            assert process.poll() is None, "MiniStack has ended"
            yield address
        except Exception:
            print((folder / "ministack.log").read_text(), file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(PATIENCE)
