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
def running(local):
    """Runs the service with the local runner `local`, in memory. Yields the addresses that it prints."""
    ports = [word for name in ("api", "dynamodb", "sqs", "mail", "inbox") for word in (f"--{name}", "0")]
    command = [local, "--memory", "--json", *ports]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(PATIENCE)


def call(service, path, body, form=False, headers={}):
    """Posts to the service. Returns the response and its cookies."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(service).netloc, timeout=PATIENCE)
    body = urllib.parse.urlencode(body) if form else json.dumps(body)
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    connection.request("POST", path, body, {"content-type": kind, **headers})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status < 400, (path, answer.status, content)
    cookies = "; ".join(cookie.split(";")[0] for cookie in answer.headers.get_all("set-cookie") or [])
    return content, cookies


def new_organization(service, mail):
    """Signs up. Returns the id of the organization and an API key."""
    created, cookies = call(service, "/v1/auth/signupAndCreateOrg", {"json": ACCOUNT})
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(mail).netloc)
    connection.request("GET", "/messages")
    [message] = json.load(connection.getresponse())
    token = re.search("token=([A-Za-z0-9_-]+)", message["text"])[1]
    call(service, "/verify-email", {"token": token}, form=True)
    answer, _ = call(service, "/api/auth/api-key/create", {"name": "try"}, headers={"cookie": cookies, "origin": service})
    return json.loads(created)["json"]["organizationId"], json.loads(answer)["key"]
