#!/usr/bin/env python3
"""Uses the client like a person, against the local service: python3 .ci/use-client.py LOCAL COMMAND...

LOCAL is the local runner. COMMAND starts the client, possibly in an emulator. Fails unless an event reaches a program through
`listen`.
"""

import http.server, json, os, queue, signal, subprocess, sys, tempfile, threading

from service import PATIENCE, new_organization, running

LOCAL, *COMMAND = sys.argv[1:]


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
    _, key = new_organization(service, stack["mail"])
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
        # As a supervisor does, which sends the signal to the started process only.
        listen.send_signal(signal.SIGTERM if COMMAND[0] == "wine" else signal.SIGINT)
        listen.wait(PATIENCE)
    fanfare("logout")


def main():
    with tempfile.TemporaryDirectory() as home, running(LOCAL) as stack:
        os.environ["XDG_CONFIG_HOME"] = home
        use(stack)
    print(f"{COMMAND[-1]}: signed in, sent an event and received it")


main()
