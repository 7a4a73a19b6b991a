#!/usr/bin/env python3
"""Generates clients from the OpenAPI description, and uses them: python3 .ci/try-generators.py LOCAL

LOCAL is the local runner. Needs the packages in .ci/generators: those from PyPI in this Python's environment, and those from
npm in its folder. For each generator, the result must compile, and a program in .ci/generators that uses it must get valid
responses from the service. Takes up to a minute.
"""

import http.server, os, pathlib, resource, shutil, subprocess, sys, tempfile, threading, time

from service import new_organization, running

LOCAL = sys.argv[1]
HERE = pathlib.Path(__file__).parent
PACKAGES = pathlib.Path(sys.prefix)
NODE_MODULES = PACKAGES / "node_modules"
# Seconds for a command.
PATIENCE = 120

PYTHON = PACKAGES / "bin"
# Without the first two options, the models' names would be numbers in the order of the description. Without the others,
# Pydantic and type checkers would disagree about the name of the field `json`, or about the fields that are optional.
OPTIONS = ["--use-operation-id-as-name", "--naming-strategy", "full-path", "--use-annotated", "--allow-population-by-field-name"]
MODELS = ["--output-model-type", "pydantic_v2.BaseModel", "--openapi-scopes", "schemas", "paths", "webhooks"]
GENERATORS = {
    "openapi-typescript": [NODE_MODULES / ".bin/openapi-typescript", "openapi.json", "--output", "generated/openapi-typescript.d.ts"],
    "@hey-api/openapi-ts": [NODE_MODULES / ".bin/openapi-ts", "--file", "hey-api.config.mjs"],
    "openapi-python-client": [
        *(PYTHON / "openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "generated/attrs"),
        *("--meta", "none", "--config", "openapi-python-client.yaml", "--fail-on-warning"),
    ],
    "datamodel-code-generator": [
        *(PYTHON / "datamodel-codegen", "--input", "openapi.json", "--input-file-type", "openapi"),
        *("--output", "generated/models.py", *MODELS, *OPTIONS, "--target-python-version", "3.11"),
        *("--formatters", "builtin", "--disable-warnings"),
    ],
}
COMPILERS = {
    # Ten times as fast as the version that openapi-typescript requires.
    "tsc": ["node", NODE_MODULES / "typescript-7/bin/tsc"],
    "mypy": [PYTHON / "mypy"],
}
CLIENTS = {
    "openapi-typescript": ["node", "js/openapi-fetch.js"],
    "@hey-api/openapi-ts": ["node", "js/hey-api.js"],
    "openapi-python-client": [sys.executable, "attrs_client.py"],
    "datamodel-code-generator": [sys.executable, "pydantic_models.py"],
}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Receives events. A GET returns the latest one."""

    event = b""

    def do_POST(self):
        Receiver.event = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(len(Receiver.event)))
        self.end_headers()
        self.wfile.write(Receiver.event)

    def log_message(self, *_):
        pass


def run(name, command, folder, **variables):
    environment = os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"} | variables
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, timeout=PATIENCE, **output)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{name}: {pathlib.Path(command[0]).name} fails:\n{done.stdout}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {pathlib.Path(command[0]).name}, {time.monotonic() - started:.1f} s, {cpu:.1f} s of CPU time", flush=True)


def use(folder):
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with running(LOCAL) as stack:
        _, key = new_organization(stack["api"], stack["mail"])
        variables = {"SERVICE": stack["api"], "KEY": key, "RECEIVER": f"http://127.0.0.1:{receiver.server_port}/hook"}
        for name, command in CLIENTS.items():
            run(name, command, folder, **variables)


def main():
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent, "generators")
        shutil.copytree(HERE / "generators", folder)
        (folder / "generated").mkdir()
        # Where Node.js and the compiler look for imports.
        (folder / "node_modules").symlink_to(NODE_MODULES)
        shutil.copy(HERE.parent / "docs/openapi.json", folder)
        for name, command in GENERATORS.items():
            run(name, command, folder)
        for name, command in COMPILERS.items():
            run(name, command, folder)
        use(folder)


main()
