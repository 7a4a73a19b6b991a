"""Runs the local service and signs up, for the other programs in this folder."""

import contextlib, http.client, json, re, subprocess, urllib.parse

# Seconds to wait for a response, also in slow emulators.
PATIENCE = 120
ACCOUNT = {
    "name": "Ada Lovelace",
    "email": "ada@example.com",
    "password": "a long password",
    "organizationName": "Analytical Engines",
    "organizationSlug": "analytical-engines",
    "debugNotificationEmail": "debug@example.com",
}


@contextlib.contextmanager
def running(local, *options):
    """Runs the service with the local runner `local`, in memory. Yields the addresses that it prints."""
    ports = [word for name in ("api", "dynamodb", "sqs", "mail", "inbox") for word in (f"--{name}", "0")]
    command = [local, "--memory", "--json", *ports, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(PATIENCE)


def call(service, path, body=None, form=False, headers={}, fails=False):
    """Posts to the service, or opens a page if there is no body. Returns the response and its cookies. `fails`: whether the
    service must reject the call, or `None` if it may."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(service).netloc, timeout=PATIENCE)
    if body is None:
        connection.request("GET", path, headers=headers)
    else:
        body = urllib.parse.urlencode(body) if form else json.dumps(body)
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        connection.request("POST", path, body, {"content-type": kind, **headers})
    answer = connection.getresponse()
    content = answer.read()
    assert fails in (None, answer.status >= 400), (path, answer.status, content)
    cookies = "; ".join(cookie.split(";")[0] for cookie in answer.headers.get_all("set-cookie") or [])
    return content, cookies


def token_in_email(mail, address):
    """Returns the token of the link in the newest email to an address."""
    messages, _ = call(mail, "/messages")
    [newest, *_] = [message for message in json.loads(messages) if message["to"] == [address]]
    return re.search("token=([A-Za-z0-9_-]+)", newest["text"])[1]


def new_organization(service, mail):
    """Signs up. Returns the id of the organization and an API key."""
    created, cookies = call(service, "/v1/auth/signupAndCreateOrg", {"json": ACCOUNT})
    call(service, "/verify-email", {"token": token_in_email(mail, ACCOUNT["email"])}, form=True)
    answer, _ = call(service, "/api/auth/api-key/create", {"name": "try"}, headers={"cookie": cookies, "origin": service})
    return json.loads(created)["json"]["organizationId"], json.loads(answer)["key"]
