#!/bin/bash
# Debian 12's AWS CLI 2.9.19 and boto3 1.26.27, and npm's aws-sdk 2.1693.0, the last of version 2, ignore
# `AWS_ENDPOINT_URL` and the variables of single services without a warning, and call the real service, Debian's also
# for a `QueueUrl` of an emulator. The CLI and the SDKs got the variables in 2023, and version 2 for JavaScript never
# did. boto3 1.43.106 obeys them, and the others obey an endpoint in the call or the code (`--endpoint-url`,
# `endpoint_url`, `endpoint`). Hurt: producers and operators who try a script out against an emulator: with credentials
# at hand, it sends its events to the real queue, whose receivers get them, and changes the real tables.
# Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
# Usage: findings/aws-endpoint-variables.sh. Needs apt-get of Debian 12, Python 3.11 with pip, Node.js 20, and the
# registries of PyPI and npm. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet awscli=2.9.19-1 python3-awscrt=0.16.8+dfsg-1 \
  python3-boto3=1.26.27+dfsg-1 python3-botocore=1.29.27+repack-1 python3-certifi=2022.9.24-1 \
  python3-cffi-backend=1.15.1-5+b1 python3-chardet=5.1.0+dfsg-2 python3-charset-normalizer=3.0.1-2 \
  python3-colorama=0.4.6-2 python3-cryptography=38.0.4-3+deb12u1 python3-dateutil=2.8.2-2 python3-distro=1.8.0-1 \
  python3-docutils=0.19+dfsg-6 python3-idna=3.3-1+deb12u1 python3-jmespath=1.0.1-1 \
  python3-pkg-resources=66.1.1-1+deb12u2 \
  python3-prompt-toolkit=3.0.36-2 python3-pyasn1=0.4.8-3+deb12u3 python3-requests=2.28.1+dfsg-1 python3-roman=3.3-3 \
  python3-ruamel.yaml=0.17.21-1 python3-ruamel.yaml.clib=0.2.7-1+b2 python3-s3transfer=0.6.0-1 python3-six=1.16.0-4 \
  python3-urllib3=1.26.12-1+deb12u4 python3-wcwidth=0.2.5+dfsg1-1.1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check boto3==1.43.106
npm install --silent --no-audit --no-fund aws-sdk@2.1693.0

# Each program lists the tables. The first argument is an endpoint, or empty.
cat > tables.py <<'PYTHON'
import sys
import boto3

boto3.client("dynamodb", endpoint_url=sys.argv[1] or None).list_tables()
PYTHON
cat > message.py <<'PYTHON'
import os
import boto3

boto3.client("sqs").send_message(QueueUrl=os.environ["AWS_ENDPOINT_URL"] + "/123456789012/events", MessageBody="{}")
PYTHON
# Node.js asks for no address outside this machine: the host is printed instead.
cat > hosts.cjs <<'NODE'
const dns = require("node:dns");
dns.lookup = (host, options, callback = options) => {
  console.log(host);
  callback(Object.assign(new Error(host), { code: "ENOTFOUND" }));
};
NODE
cat > tables2.cjs <<'NODE'
const { DynamoDB } = require("aws-sdk");
const [endpoint] = process.argv.slice(2);
new DynamoDB({ maxRetries: 0, ...(endpoint && { endpoint }) }).listTables({}).promise().catch(() => {});
NODE
cat > check.py <<'PYTHON'
import os, socket, subprocess, sys, threading

# The emulator, which is the proxy for HTTPS, too: a call of the real service begins with CONNECT, and is not passed on.
server = socket.create_server(("127.0.0.1", 0))
address = f"http://127.0.0.1:{server.getsockname()[1]}"
asked = []


def accept():
    while True:
        connection, _ = server.accept()
        method, target = (connection.recv(65536).decode("latin1").split() + ["", ""])[:2]
        asked.append(target.split(":")[0] if method == "CONNECT" else "the emulator")
        connection.close()


threading.Thread(target=accept, daemon=True).start()
variables = {
    "AWS_ENDPOINT_URL": address, "AWS_ENDPOINT_URL_DYNAMODB": address, "AWS_ENDPOINT_URL_SQS": address,
    "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "eu-central-1",
    "AWS_DEFAULT_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
    "HTTPS_PROXY": address, "NO_PROXY": "127.0.0.1", "PATH": os.environ["PATH"], "HOME": os.getcwd(),
}
of_debian = {"PYTHONPATH": "usr/lib/python3/dist-packages"}
list_tables = "python3 -S usr/bin/aws dynamodb list-tables"
send = f"python3 -S usr/bin/aws sqs send-message --queue-url {address}/123456789012/events --message-body {{}}"
dynamodb, sqs = "dynamodb.eu-central-1.amazonaws.com", "sqs.eu-central-1.amazonaws.com"
changed = False
for name, command, environment, expected, expected_with in [
    ("Debian's AWS CLI", list_tables, of_debian, dynamodb, " --endpoint-url "),
    ("Debian's AWS CLI, local QueueUrl", send, of_debian, sqs, " --endpoint-url "),
    ("Debian's boto3", "python3 -S tables.py", of_debian, dynamodb, " "),
    ("Debian's boto3, local QueueUrl", "python3 -S message.py", of_debian, sqs, None),
    ("aws-sdk 2", "node --require ./hosts.cjs tables2.cjs", {}, dynamodb, " "),
    ("boto3 1.43", "venv/bin/python tables.py", {}, "the emulator", " "),
    ("boto3 1.43, local QueueUrl", "venv/bin/python message.py", {}, "the emulator", None),
]:
    for option in [None, expected_with][: 1 + (expected_with is not None)]:
        asked.clear()
        words = command.split() + ((option + address).split() if option else [""])
        if not option and "aws " in command:
            words.pop()
        output = subprocess.run(words, env=variables | environment, capture_output=True, text=True, timeout=100).stdout
        hosts = sorted({*asked, *(output.split() if "hosts.cjs" in command else [])})
        print(f"{name}, {'with an endpoint' if option else 'with the variables'}: calls {', '.join(hosts)}")
        changed |= hosts != ["the emulator" if option else expected]
sys.exit(changed)
PYTHON
venv/bin/python check.py
