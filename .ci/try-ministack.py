#!/usr/bin/env python3
"""Deploys a package to MiniStack, an emulator of AWS, and uses the deployed service: python3 .ci/try-ministack.py FOLDER

FOLDER is a package for this machine's architecture (.ci/package.py). Needs the packages in .ci/ministack.txt.

A second opinion: MiniStack shares no code with Moto, which .ci/try-deployment.py uses, or with the tables and queues of the
local runner. It deploys the template with CloudFormation, including SAM's transformation, runs the functions, serves the API,
and passes messages from queues to functions. It checks no permissions: tests/tests/service/template/permissions.rs does.
"""

import contextlib, http.client, http.server, json, pathlib, queue, re, sys, tempfile, threading, urllib.parse

import deployed
from deployed import REGION, STACK, isolate, ministack, until, verified
from service import ACCOUNT, PATIENCE

PACKAGE = pathlib.Path(sys.argv[1])
PARAMETERS = deployed.PARAMETERS | {"RetrySchedule": "2,2"}

isolate("123456789012")

import boto3, samtranslator.yaml_helper  # noqa: E402


def deploy():
    """Deploys the package, and returns the stack's outputs."""
    buckets = boto3.client("s3")
    buckets.create_bucket(Bucket="uploads", CreateBucketConfiguration={"LocationConstraint": REGION})
    for path in sorted((PACKAGE / "functions").iterdir()):
        buckets.upload_file(str(path), "uploads", f"functions/{path.name}")
    template = samtranslator.yaml_helper.yaml_parse((PACKAGE / "template.yaml").read_text())
    resources = template["Resources"]
    for resource in resources.values():
        if resource["Type"] == "AWS::Serverless::Function":
            # As `sam package` does.
            resource["Properties"]["CodeUri"] = f"s3://uploads/{resource['Properties']['CodeUri']}"
    # MiniStack supports neither expressions of metrics nor this resource.
    for name in [name for name, resource in resources.items() if "Metrics" in resource.get("Properties", {})]:
        del resources[name]
    del resources["BouncesArchive"]
    buckets.put_object(Bucket="uploads", Key="template.json", Body=json.dumps(template).encode())
    boto3.client("ses").verify_domain_identity(Domain=PARAMETERS["MailIdentity"])
    stacks = boto3.client("cloudformation")
    stacks.create_stack(
        StackName=STACK,
        TemplateURL=f"https://s3.{REGION}.amazonaws.com/uploads/template.json",
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )

    def finished():
        [stack] = stacks.describe_stacks(StackName=STACK)["Stacks"]
        return None if stack["StackStatus"].endswith("_IN_PROGRESS") else stack

    stack = until(finished, "the deployment does not end")
    if stack["StackStatus"] != "CREATE_COMPLETE":
        events = stacks.describe_stack_events(StackName=STACK)["StackEvents"]
        failures = [f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason')}" for one in events if "FAILED" in one["ResourceStatus"]]
        raise AssertionError((stack["StackStatus"], failures))
    route()
    return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}


def route():
    """Creates the API's routes. In AWS they are in the `Body` of the API, which MiniStack ignores."""
    template = boto3.client("cloudformation").get_template(StackName=STACK, TemplateStage="Processed")["TemplateBody"]
    pages = boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK)
    names = {one["LogicalResourceId"]: one["PhysicalResourceId"] for page in pages for one in page["StackResourceSummaries"]}
    arns = {one["FunctionName"]: one["FunctionArn"] for one in functions()}
    apis, api = boto3.client("apigatewayv2"), {"ApiId": names["HttpApi"]}
    integrations = {}
    for path, operations in template["Resources"]["HttpApi"]["Properties"]["Body"]["paths"].items():
        for method, operation in operations.items():
            integration = operation["x-amazon-apigateway-integration"]
            name = names[re.search(r"\${(\w+)\.Arn}", json.dumps(integration))[1]]
            if name not in integrations:
                fields = {"IntegrationType": "AWS_PROXY", "IntegrationUri": arns[name]}
                created = apis.create_integration(**api, **fields, PayloadFormatVersion=integration["payloadFormatVersion"])
                integrations[name] = f"integrations/{created['IntegrationId']}"
            method = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
            apis.create_route(**api, RouteKey=f"{method} {path}", Target=integrations[name])


def functions():
    return boto3.client("lambda").get_paginator("list_functions").paginate().build_full_result()["Functions"]


class Api:
    """The deployed API, called as a browser does, with the cookies of earlier responses."""

    def __init__(self, address, url):
        self.address, self.host, self.cookies = urllib.parse.urlsplit(address).netloc, urllib.parse.urlsplit(url).netloc, {}

    def call(self, method, path, body=None, headers={}):
        """Returns the response's content."""
        sent = {"host": self.host, "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, {**sent, **headers})
            answer = connection.getresponse()
            content = answer.read().decode()
        for cookie in answer.headers.get_all("set-cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        assert answer.status < 400, (path, answer.status, content)
        return content

    def rpc(self, path, fields, headers={}):
        headers = {"content-type": "application/json", **headers}
        return json.loads(self.call("POST", f"/v1/{path}", json.dumps({"json": fields}), headers))["json"]


class Receiver(http.server.BaseHTTPRequestHandler):
    """Fails once, and then accepts every request."""

    requests, failures = queue.Queue(), 1

    def do_POST(self):
        self.requests.put((self.headers, self.rfile.read(int(self.headers["content-length"]))))
        fails, Receiver.failures = Receiver.failures > 0, Receiver.failures - 1
        self.send_response(503 if fails else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def received(secret):
    """Waits for a request with a valid signature. Returns its id and event."""
    headers, body = Receiver.requests.get(timeout=PATIENCE)
    return verified(headers, body, secret)


def emails(address):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/_ministack/ses/messages")
        return connection.getresponse().read().decode()


def use(address, outputs):
    """Signs up, receives a delivery at its second attempt, resends it, and opens the pages about it."""
    api = Api(address, outputs["ApiUrl"])
    api.rpc("auth/signupAndCreateOrg", ACCOUNT)
    found = until(lambda: re.search(r"(https?://[^/\s\"]+)/verify-email\S*?token=([A-Za-z0-9_-]+)", emails(address)), "no email")
    origin = {"origin": found[1]}
    form = {"content-type": "application/x-www-form-urlencoded", **origin}
    api.call("POST", "/verify-email", urllib.parse.urlencode({"token": found[2]}), form)
    json_of = {"content-type": "application/json", **origin}
    key = json.loads(api.call("POST", "/api/auth/api-key/create", '{"name": "try"}', json_of))["key"]
    key = {"x-api-key": key}

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url, secret = f"http://127.0.0.1:{receiver.server_port}/hook", "correct-horse-battery-staple"
    endpoint = api.rpc("webhooks/create", {"url": url, "signing_secret": secret}, key)["webhook_endpoint_id"]
    [organization] = json.loads(api.call("GET", "/api/auth/organization/list"))
    event = {"event": "job.completed", "tenant_id": organization["id"], "job_id": "job-1", "result": {"answer": 42}}
    queues = boto3.client("sqs")
    sent = {"MessageBody": json.dumps(event), "MessageGroupId": organization["id"]}
    queues.send_message(QueueUrl=outputs["JobEventsQueueUrl"], **sent)
    (webhook, _), (again, body) = received(secret), received(secret)
    assert (again, body["job_id"], body["result"]) == (webhook, "job-1", {"answer": 42}), body

    def deliveries(status, attempts):
        listed = api.rpc("deliveries/list", {"webhook_endpoint_id": endpoint}, key)["deliveries"]
        return listed and [(one["status"], one["attempts"]) for one in listed] == [(status, attempts)] and listed

    [delivery] = until(lambda: deliveries("delivered", 2), "not delivered")
    api.rpc("deliveries/resend", {"delivery_id": delivery["delivery_id"]}, key)
    assert received(secret)[0] == webhook
    until(lambda: deliveries("delivered", 3), "not resent")
    assert Receiver.requests.empty()

    pages = {
        "": endpoint,
        f"/endpoints/{endpoint}": url,
        f"/deliveries/{delivery['delivery_id']}": "job-1",
        "/audit": "Ada Lovelace",
    }
    for path, text in pages.items():
        page = api.call("GET", f"/console{path}")
        assert "Analytical Engines" in page and text in page, (path, page)
    # Nothing waits in a queue, and nothing has failed there.
    for name, queue_url in outputs.items():
        if name.endswith("QueueUrl"):
            attributes = queues.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
            waiting = {key: count for key, count in attributes.items() if key.startswith("ApproximateNumberOfMessages")}
            assert not any(map(int, waiting.values())), (name, waiting)


def main():
    with tempfile.TemporaryDirectory() as parent:
        with ministack(pathlib.Path(parent)) as address:
            outputs = deploy()
            use(address, outputs)
            count = len(functions())
    print(f"{count} functions deployed; a user signed up, and an event arrived at its second attempt and again")


main()
