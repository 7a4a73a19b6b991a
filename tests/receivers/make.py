"""Writes `cases.json`: what receivers see that verify wrongly, and the cause that the service must name for each.

Each case is a request to a receiver in this folder: a framework or library of a registry, used as people misuse it. The
receivers refuse the request, so a case cannot be one that is right. A case without `headers` or a body has those that
were sent. The secrets exist only here.

    apt-get install golang-go php-cli ruby ruby-rack    # Debian 12: Go 1.19, PHP 8.2, Ruby 3.1, Rack 2.2
    python3 tests/receivers/make.py                     # with Node.js 20 and Python 3.11; installs into target/receivers
"""

import base64, hashlib, hmac, json, os, pathlib, shutil, subprocess, sys, time, urllib.request

FOLDER = pathlib.Path(__file__).parent
WORK = FOLDER.parent.parent / "target" / "receivers"


def secret(name: str) -> str:
    return "whsec_" + base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()


SECRET, PREVIOUS, OTHER = secret("current"), secret("previous"), secret("other endpoint")
# Digits, escapes and an order of members that programs change when they write the body again.
RESULT = '{"zeta":1.0,"id":12345678901234567890,"name":"\\u00e9\\u2028","url":"https://example.com/<é>","alpha":[1,2]}'


def event(job: str, result: str) -> str:
    return (
        f'{{"event":"job.completed","job_id":"{job}","nonce":null,"workflow":"w","deployment_id":null,'
        f'"status":"completed","result":{result},"error":null,"mapped_stack":null}}'
    )


class Delivery:
    def __init__(self, number: int, body: str, times: list[int]):
        self.id = f"msg_{hashlib.sha256(str(number).encode()).hexdigest()[:32]}"
        self.body, self.times = body, times

    def headers(self, at: int) -> dict:
        body, standard = self.body.encode(), f"{self.id}.{at}.{self.body}".encode()
        keys = SECRET.encode(), base64.b64decode(SECRET.removeprefix("whsec_"))
        tags = [base64.b64encode(hmac.digest(key, standard, "sha256")).decode() for key in keys]
        return {
            "content-type": "application/json",
            "webhook-id": self.id,
            "webhook-timestamp": str(at),
            "webhook-signature": " ".join(f"v1,{tag}" for tag in tags),
            "x-webhook-signature": hmac.digest(SECRET.encode(), body, "sha256").hex(),
        }


DELIVERY = Delivery(1, event("job-1", RESULT), [1735689600, 1735690205])
NEXT = Delivery(2, event("job-2", "[]"), [1735689650])

# The paths of the receivers, each with the cause.
CASES = {
    "node": {
        0: {
            "/express/stringify": "body_reserialized",
            "/express/stringify-pretty": "body_reserialized",
            "/latin1/text": "body_encoded",
            "/raw/object": "body_reserialized",
            "/raw/first-entry": "signature_entries",
            "/raw/no-prefix": "signature_prefix",
            "/raw/hex": "signature_encoding",
            "/raw/prefix-decoded": "secret_decoded",
            "/raw/key-to-string": "secret_decoded",
            "/raw/atob": "secret_decoded",
            "/raw/sliced-text": "secret_as_text",
            "/raw/title-case": "header_names",
            "/raw/milliseconds": "signed_content",
            "/raw/sha1": "algorithm",
            "/raw/hash": "algorithm",
            "/raw/previous": "previous_secret",
            "/raw/other-endpoint": "other_endpoint",
            "/raw/unset-secret": "secret_altered",
            "/raw/github": "signed_content",
            "/raw/stripe": "signed_content",
            "/raw/shared-variable": "body_of_another",
            "/raw/stored-timestamp": "timestamp_of_another",
            "/raw/stored-id": "id_of_another",
            "/raw/stored-signature": "signature_of_another",
            "/raw/split-at-commas": "signature_entries",
            "/raw/through-a-query": "signature_encoding",
        },
        1: {"/fastify/stringify": "body_reserialized"},
        2: {"/koa": "body_reserialized"},
        3: {"/hono/headers": "headers_missing"},
    },
    "python": {
        0: {
            "/flask/dumps": "body_reserialized",
            "/flask/consumed": "body_missing",
            "/flask/file": "white_space_added",
            "/flask/secret-file": "secret_altered",
            "/flask/slack": "signed_content",
            "/flask/local-time": "timestamp_tolerance",
            "/flask/stopped-clock": "timestamp_tolerance",
        },
        1: {"/django/meta": "header_names"},
        2: {"/http.server/part": "body_cut_off"},
        3: {
            "/fastapi/model": "body_reserialized",
            "/fastapi/orjson": "body_reserialized",
            "/fastapi/f-string": "body_encoded",
            "/fastapi/lambda": "body_encoded",
        },
    },
    "go": {
        0: {
            "/go/marshal": "body_reserialized",
            "/go/encoder": "white_space_added",
            "/go/header-map": "header_names",
            "/go/limit": "body_cut_off",
            "/go/url-base64": "signature_encoding",
            "/go/order": "signed_content",
        },
    },
    "php": {
        0: {
            "/php/encode": "body_reserialized",
            "/php/prefix-decoded": "secret_decoded",
            "/php/hex-in-base64": "signature_encoding",
            "/php/server": "header_names",
            "/php/hash": "algorithm",
            "/php/latin1": "body_encoded",
        },
    },
    "ruby": {
        0: {
            "/ruby/to-json": "body_reserialized",
            "/ruby/pretty": "body_reserialized",
            "/ruby/prefix-decoded": "secret_decoded",
            "/ruby/encode64": "signature_encoding",
            "/ruby/environment": "header_names",
            "/ruby/read-twice": "body_missing",
        },
    },
}


def installed() -> dict:
    """Installs the packages, and returns the command of each receiver."""
    WORK.mkdir(parents=True, exist_ok=True)
    for file in FOLDER.iterdir():
        if file.is_file():
            shutil.copy(file, WORK)
    subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=WORK, check=True, stdout=2)
    subprocess.run([sys.executable, "-m", "venv", "python"], cwd=WORK, check=True)
    subprocess.run(["python/bin/pip", "install", "-q", "-r", "requirements.txt"], cwd=WORK, check=True, stdout=2)
    subprocess.run(["go", "build", "-o", "receiver-go", "receiver.go"], cwd=WORK, check=True)
    return {
        "node": ["node", "receiver.mjs"],
        "python": ["python/bin/python", "receiver.py"],
        "go": ["./receiver-go"],
        "php": ["php", "-S", "127.0.0.1:{port}", "receiver.php"],
        "ruby": ["ruby", "-rrack", "-rwebrick", "-e", RACKUP],
    }


RACKUP = """
app = Rack::Builder.new_from_string(File.read("receiver.rb"), "receiver.rb")
Rack::Handler::WEBrick.run(app, Host: "127.0.0.1", Port: ENV["PORT"].to_i, AccessLog: [], Logger: WEBrick::Log.new(File::NULL))
"""


def post(port: int, path: str, delivery: Delivery, at: int) -> dict:
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, delivery.body.encode(), delivery.headers(at))
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except ConnectionRefusedError:
            time.sleep(0.1)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise SystemExit(f"{url} does not respond")


def seen(port: int, path: str) -> dict:
    first, second = DELIVERY.times
    if path == "/raw/shared-variable":
        post(port, path, NEXT, NEXT.times[0])
    if path == "/raw/stored-timestamp":
        post(port, path, DELIVERY, first)
    return post(port, path, DELIVERY, second)


def body(seen: bytes) -> dict:
    """The body as text, if it is text and differs from the one that was sent."""
    try:
        return {} if seen.decode() == DELIVERY.body else {"body": seen.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(seen).decode()}


def main():
    commands, cases = installed(), []
    as_sent = {name: value for name, value in DELIVERY.headers(DELIVERY.times[1]).items() if "webhook" in name}
    environment = {
        "SECRET": SECRET, "PREVIOUS_SECRET": PREVIOUS, "OTHER_SECRET": OTHER, "OTHER_ID": NEXT.id,
        "OTHER_SIGNATURE": NEXT.headers(NEXT.times[0])["webhook-signature"],
    }
    for number, (language, ports) in enumerate(CASES.items()):
        port = 18400 + 10 * number
        command = [part.replace("{port}", str(port)) for part in commands[language]]
        receiver = subprocess.Popen(command, cwd=WORK, env={**os.environ, **environment, "PORT": str(port)})
        try:
            for offset, paths in ports.items():
                for path, cause in paths.items():
                    answer = seen(port + offset, path)
                    if not answer.get("error"):
                        raise SystemExit(f"{language} {path} verifies")
                    wanted = ("webhook", "http_webhook", "http_x_webhook", "x-webhook")
                    headers = answer["headers"]
                    headers = {name: value for name, value in headers.items() if name.lower().startswith(wanted)}
                    case = {"name": f"{language} {path}", "cause": cause}
                    if headers != as_sent:
                        case["headers"] = headers
                    case |= body(base64.b64decode(answer["body"]))
                    case |= {name: answer[name] for name in ("computed", "received_at") if answer.get(name)}
                    cases.append(case)
        finally:
            receiver.terminate()
            receiver.wait()
    deliveries = [{"id": one.id, "body": one.body, "times": one.times} for one in (DELIVERY, NEXT)]
    secrets = {"current": SECRET, "previous": PREVIOUS, "other": OTHER}
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    shown = json.dumps(as_sent)
    text = f'{{\n  "secrets": {json.dumps(secrets)},\n  "deliveries": {json.dumps(deliveries)},\n  "headers": {shown},\n  "cases": [\n    {lines}\n  ]\n}}\n'
    (FOLDER / "cases.json").write_text(text)
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
