#!/bin/bash
# cargo-lambda 1.9.2's emulator gives each invocation the deadline 600000: the function's timeout in milliseconds, where the
# Lambda Runtime API has the time since 1970 at which the function is stopped. Each deadline is ten minutes past 1970. Hurt:
# functions that work until shortly before their deadline, as consumers of queues do: the remaining time is negative, and
# they return at once or leave all their work undone, while the invocation succeeds.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
# Usage: findings/cargo-lambda-deadline.sh. Needs Cargo, which compiles nothing, Python 3 and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${emulator:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check cargo-lambda==1.9.2
printf '[package]\nname = "function"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
mkdir src
echo 'fn main() {}' > src/main.rs
port=$((20000 + $$ % 12000))
python/bin/cargo-lambda lambda watch --only-lambda-apis --invoke-address 127.0.0.1 --invoke-port "$port" > /dev/null 2>&1 &
emulator=$!
cat > runtime.py <<'PYTHON'
import http.client, sys, threading, time

port = int(sys.argv[1])


def request(method, path, body=None):
    """The headers of a response, once the emulator listens."""
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(method, path, body)
            return connection.getresponse().headers
        except ConnectionRefusedError:
            time.sleep(0.2)


invocation = ("POST", "/2015-03-31/functions/function/invocations", "{}")
threading.Thread(target=request, args=invocation, daemon=True).start()
deadline = int(request("GET", "/.rt/function/2018-06-01/runtime/invocation/next")["lambda-runtime-deadline-ms"])
print(f"deadline {deadline}, now {int(time.time() * 1000)}: {deadline / 1000 - time.time():.0f} s remain")
assert deadline == 600_000
PYTHON
python3 runtime.py "$port"
