#!/usr/bin/env python3
"""Uses the client like a person, against the local service: python3 .ci/use-client.py LOCAL COMMAND...

LOCAL is the local runner. COMMAND starts the client, possibly in an emulator. Fails unless an event reaches a program through
`listen`.
"""

import http.client, http.server, json, os, queue, re, shutil, subprocess, sys, tempfile, threading, urllib.parse

LOCAL, *COMMAND = sys.argv[1:]
# The time limit, which allows for slow emulators.
PATIENCE = 120


class Program(http.server.BaseHTTPRequestHandler):
    """The program that `listen` posts to."""

    events = queue.Queue()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.events.put((self.headers["webhook-signature"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


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
    account = {
        "name": "Ada Lovelace",
        "email": "ada@example.com",
        "password": "a long password",
        "organizationName": "Analytical Engines",
        "organizationSlug": "analytical-engines",
        "debugNotificationEmail": "debug@example.com",
    }
    created, cookies = call(service, "/v1/auth/signupAndCreateOrg", {"json": account})
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(mail).netloc)
    connection.request("GET", "/messages")
    [message] = json.load(connection.getresponse())
    token = re.search("token=([A-Za-z0-9_-]+)", message["text"])[1]
    call(service, "/verify-email", {"token": token}, form=True)
    answer, _ = call(service, "/api/auth/api-key/create", {"name": "try"}, headers={"cookie": cookies, "origin": service})
    return json.loads(created)["json"]["organizationId"], json.loads(answer)["key"]


def key_of_a_new_organization(service, mail):
    return new_organization(service, mail)[1]


def fanfare(*arguments, input=""):
    command = [*COMMAND, *arguments]
    done = subprocess.run(command, input=input, stdout=subprocess.PIPE, text=True, encoding="utf-8", timeout=PATIENCE)
    if done.returncode != 0:
        sys.exit(f"{arguments} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def expect(text, *words):
    for word in words:
        if word not in text:
            sys.exit(f"{word!r} is missing in: {text}")


def use(stack):
    service = stack["api"].rstrip("/")
    os.environ |= {"FANFARE_API": service, "FANFARE_QUEUE_URL": stack["queues"]["job-events"], "HOSTNAME": "laptop"}
    os.environ.pop("FANFARE_API_KEY", None)
    expect(fanfare("--help"), "Forward events to a local program", "Exit codes")
    expect(fanfare("completions", "powershell"), "Register-ArgumentCompleter")
    key = key_of_a_new_organization(service, stack["mail"])
    expect(fanfare("login", "--key", input=key), "ada@example.com, owner of Analytical Engines")
    # Uses the key that `login` has stored.
    assert json.loads(fanfare("--json", "whoami"))["user"]["email"] == "ada@example.com"

    fanfare("endpoints", "create", "--pull", "--description", "fanfare listen: try")
    fanfare("send", "--job", "job-1", "--result", '{"answer": 42}')
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Program)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listen = subprocess.Popen([*COMMAND, "listen", "--to", f"http://127.0.0.1:{server.server_port}/hook", "--name", "try"])
    try:
        signature, body = Program.events.get(timeout=PATIENCE)
        assert signature.startswith("v1,") and body["result"] == {"answer": 42}, (signature, body)
        # `listen` settles the delivery after the program's response.
        for _ in range(PATIENCE):
            deliveries = json.loads(fanfare("--json", "deliveries", "list", "--status", "delivered"))["deliveries"]
            if deliveries or listen.poll() is not None:
                break
        assert [delivery["job_id"] for delivery in deliveries] == ["job-1"], deliveries
        assert listen.poll() is None, listen.returncode
    finally:
        listen.terminate()
        listen.wait(PATIENCE)
    fanfare("logout")


def main():
    ports = [word for name in ("api", "dynamodb", "sqs", "mail", "inbox") for word in (f"--{name}", "0")]
    local = subprocess.Popen([LOCAL, "--memory", "--json", *ports], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    home = tempfile.mkdtemp()
    os.environ["XDG_CONFIG_HOME"] = home
    try:
        use(json.loads(local.stdout.readline()))
    finally:
        local.terminate()
        local.wait(PATIENCE)
        shutil.rmtree(home)
    print(f"{COMMAND[-1]}: signed in, sent an event and received it")


if __name__ == "__main__":
    main()
