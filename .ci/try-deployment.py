#!/usr/bin/env python3
"""Deploys a package to an emulator of AWS, and uses the deployed service: python3 .ci/try-deployment.py FOLDER

FOLDER is a package for this machine's architecture (.ci/package.py). Needs the packages in .ci/tools.txt.

Moto emulates AWS's APIs. It creates the stack's tables, queues and functions, but neither runs functions nor has an API
Gateway or SQS triggers. So this program starts each function under Lambda's runtime interface emulator, a part of SAM,
with the zip and the variables that it has in the stack, and passes HTTP calls and messages on by the stack's routes and
mappings. It does not check permissions: tests/tests/service/template/permissions.rs does.
"""

import base64, contextlib, email.policy, hashlib, http.client, http.server, json, logging, os, pathlib, platform, queue, re
import shutil, socket, subprocess, sys, tempfile, threading, time, urllib.parse, warnings, zipfile

from deployed import PARAMETERS, REGION, STACK, free_port, isolate, verified
from service import ACCOUNT

PACKAGE = pathlib.Path(sys.argv[1])
DOMAIN = "api.example.com"
# Seconds to wait for a process, a response or a delivery.
PATIENCE = 60

isolate("x")

import boto3, samcli, samtranslator.yaml_helper  # noqa: E402
from moto.core.config import default_user_config  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from moto.ses.models import ses_backends  # noqa: E402
from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader  # noqa: E402
from samtranslator.translator.transform import transform  # noqa: E402


def post(url, body):
    """Posts to this machine. Returns the content of the response."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("POST", address.path, body)
        return connection.getresponse().read()


def deploy(folder):
    """Deploys the package, and returns its template in the form that SAM gives to CloudFormation."""
    boto3.client("s3").create_bucket(Bucket="uploads", CreateBucketConfiguration={"LocationConstraint": REGION})
    packaged = folder / "packaged.yaml"
    files = ["--template-file", PACKAGE / "template.yaml", "--output-template-file", packaged]
    sam = pathlib.Path(sys.executable).parent / "sam"
    environment = {**os.environ, "SAM_CLI_TELEMETRY": "0"}
    package = [sam, "package", *files, "--s3-bucket", "uploads"]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    packed = subprocess.run(package, env=environment, timeout=PATIENCE, **output)
    assert packed.returncode == 0, packed.stdout.decode()
    # CloudFormation does this itself.
    source = samtranslator.yaml_helper.yaml_parse(packaged.read_text())
    template = transform(source, PARAMETERS, ManagedPolicyLoader(boto3.client("iam")))
    # Moto's CloudFormation supports neither the API of this output nor these resources.
    del template["Outputs"]["ApiUrl"], template["Resources"]["MailConfigurationSet"], template["Resources"]["BouncesArchive"]
    template["Parameters"]["MailConfigurationSet"] = {"Type": "String", "Default": "mail"}
    boto3.client("sesv2").create_configuration_set(ConfigurationSetName="mail")
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()]
    stacks = boto3.client("cloudformation")
    stacks.create_stack(StackName=STACK, TemplateBody=json.dumps(template), Parameters=parameters)
    status = stacks.describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"]
    assert status == "CREATE_COMPLETE", status
    boto3.client("sesv2").create_email_identity(EmailIdentity=PARAMETERS["MailIdentity"])
    return template


class Functions:
    """The stack's functions. A function's process starts with its first invocation."""

    def __init__(self, emulator, folder):
        self.emulator, self.folder, self.ports, self.processes = emulator, folder, {}, []
        self.zips = {
            base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode(): path
            for path in (PACKAGE / "functions").iterdir()
        }
        pages = boto3.client("lambda").get_paginator("list_functions").paginate()
        self.configurations = {one["FunctionName"]: one for page in pages for one in page["Functions"]}
        deployed = {one["CodeSha256"] for one in self.configurations.values()}
        assert deployed == set(self.zips), "the deployed code is not the packaged code"

    def invoke(self, name, event):
        if name not in self.ports:
            self.start(name)
        url = f"http://127.0.0.1:{self.ports[name]}/2015-03-31/functions/function/invocations"
        answer = json.loads(post(url, json.dumps(event)))
        assert not (isinstance(answer, dict) and "errorType" in answer), (name, answer)
        return answer

    def start(self, name):
        configuration, folder = self.configurations[name], self.folder / name
        folder.mkdir()
        with zipfile.ZipFile(self.zips[configuration["CodeSha256"]]) as archive:
            archive.extract("bootstrap", folder)
        (folder / "bootstrap").chmod(0o755)
        environment = {
            **{key: str(value) for key, value in configuration["Environment"]["Variables"].items()},
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_ENDPOINT_URL": self.emulator,
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(configuration["MemorySize"]),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(configuration["Timeout"]),
        }
        machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
        program = pathlib.Path(samcli.__file__).parent / "local" / "rapid" / f"aws-lambda-rie-{machine}"
        port = self.ports[name] = free_port()
        addresses = ["interface-emulator", f"127.0.0.1:{port}"], ["api", f"127.0.0.1:{free_port()}"]
        arguments = [word for kind, address in addresses for word in (f"--runtime-{kind}-address", address)]
        with open(self.folder / f"{name}.log", "w") as log:
            output = {"stdout": log, "stderr": log}
            command = [program, *arguments, folder / "bootstrap"]
            self.processes.append(subprocess.Popen(command, env=environment, start_new_session=True, **output))
        deadline = time.monotonic() + PATIENCE
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            assert time.monotonic() < deadline, f"{name} does not start"
            time.sleep(0.01)

    def logs(self):
        return "".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def end(self):
        for process in self.processes:
            os.killpg(process.pid, 15)
            process.wait(PATIENCE)


class Api:
    """The routes of the template's HTTP API."""

    def __init__(self, template, functions):
        resources = boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK)
        names = {
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for page in resources
            for one in page["StackResourceSummaries"]
        }
        self.functions, self.cookies = functions, {}
        # Each route's path, its method or an empty text for any method, and its function.
        self.routes = []
        for path, operations in template["Resources"]["HttpApi"]["Properties"]["Body"]["paths"].items():
            for method, operation in operations.items():
                integration = json.dumps(operation["x-amazon-apigateway-integration"])
                function = re.search(r"\${(\w+)\.Arn}", integration)[1]
                method = "" if method == "x-amazon-apigateway-any-method" else method.upper()
                self.routes.append((path, method, names[function]))

    def route(self, method, path):
        """The most specific route, as API Gateway chooses it, with its function."""

        def fits(route):
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.sub(r"\\{\w+\\\+\\}", ".+", re.escape(route[0])))
            return re.fullmatch(pattern, path) and route[1] in ("", method)

        return max(filter(fits, self.routes), key=lambda route: (len(route[0].split("{")[0]), route[1]))

    def call(self, method, path, body=None, headers={}):
        """Calls the API as a browser does, with the cookies of earlier responses. Returns the response's content."""
        route, any_method, function = self.route(method, path)
        headers = {"host": DOMAIN, "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.7", **headers}
        at = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "try"}
        context = {"accountId": "123456789012", "apiId": "api", "domainName": DOMAIN, "domainPrefix": "api", "http": at}
        route = f"{any_method or 'ANY'} {route}"
        context |= {"requestId": "id", "routeKey": route, "stage": "$default", "timeEpoch": int(time.time() * 1000)}
        event = {
            "version": "2.0",
            "routeKey": route,
            "rawPath": path,
            "rawQueryString": "",
            "headers": headers,
            "cookies": [f"{name}={value}" for name, value in self.cookies.items()],
            "requestContext": {**context, "time": "31/Jan/2026:12:00:00 +0000"},
            "body": body,
            "isBase64Encoded": False,
        }
        answer = self.functions.invoke(function, event)
        for cookie in answer.get("cookies", []):
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        content = answer.get("body") or ""
        if answer.get("isBase64Encoded"):
            content = base64.b64decode(content).decode()
        assert answer["statusCode"] < 400, (path, answer)
        return content

    def rpc(self, path, fields, headers={}):
        headers = {"content-type": "application/json", **headers}
        return json.loads(self.call("POST", f"/v1/{path}", json.dumps({"json": fields}), headers))["json"]


class Triggers:
    """The mappings from queues to functions."""

    def __init__(self, template, functions):
        self.functions, self.mappings = functions, []
        calls, self.sqs = boto3.client("lambda"), boto3.client("sqs")
        for mapping in calls.list_event_source_mappings()["EventSourceMappings"]:
            arn, function = mapping["EventSourceArn"], mapping["FunctionArn"].split(":")[6]
            self.mappings.append((arn, self.url(arn.split(":")[-1]), function, mapping["BatchSize"]))
            assert mapping["State"] == "Enabled", mapping
            # Moto would delete the messages without a run of the function.
            calls.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        types = [resource["Type"] for resource in template["Resources"].values()]
        assert len(self.mappings) == types.count("AWS::Lambda::EventSourceMapping"), self.mappings

    def url(self, name):
        return self.sqs.get_queue_url(QueueName=name)["QueueUrl"]

    def run(self):
        """Passes the visible messages on, and deletes those that the functions have handled."""
        for arn, url, function, batch in self.mappings:
            limits = {"MaxNumberOfMessages": min(batch, 10), "AttributeNames": ["All"]}
            messages = self.sqs.receive_message(QueueUrl=url, **limits).get("Messages", [])
            if not messages:
                continue
            records = [
                {
                    "messageId": message["MessageId"],
                    "receiptHandle": message["ReceiptHandle"],
                    "body": message["Body"],
                    "attributes": message["Attributes"],
                    "messageAttributes": {},
                    "md5OfBody": message["MD5OfBody"],
                    "eventSource": "aws:sqs",
                    "eventSourceARN": arn,
                    "awsRegion": REGION,
                }
                for message in messages
            ]
            answer = self.functions.invoke(function, {"Records": records})
            failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
            for message in messages:
                if message["MessageId"] not in failed:
                    self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


class Receiver(http.server.BaseHTTPRequestHandler):
    requests = queue.Queue()

    def do_POST(self):
        self.requests.put((self.headers, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def received(triggers, secret):
    """Waits for a request with a valid signature. Returns its id and event."""
    deadline = time.monotonic() + PATIENCE
    while Receiver.requests.empty():
        assert time.monotonic() < deadline, "no request has arrived"
        triggers.run()
        time.sleep(0.05)
    headers, body = Receiver.requests.get()
    return verified(headers, body, secret)


def use(api, triggers):
    """Signs up, receives and resends a delivery, and opens its page."""
    origin = {"origin": f"https://{DOMAIN}"}
    api.rpc("auth/signupAndCreateOrg", ACCOUNT, origin)
    [sent] = ses_backends["123456789012"][REGION].sent_messages
    mail = email.message_from_string(sent.raw_data, policy=email.policy.default).get_body(("plain",)).get_content()
    token = re.search(rf"https://{DOMAIN}/verify-email\S*token=([A-Za-z0-9_-]+)", mail)[1]
    form = {"content-type": "application/x-www-form-urlencoded", **origin}
    api.call("POST", "/verify-email", urllib.parse.urlencode({"token": token}), form)
    json_of = {"content-type": "application/json", **origin}
    key = json.loads(api.call("POST", "/api/auth/api-key/create", '{"name": "try"}', json_of))["key"]
    [listed] = json.loads(api.call("GET", "/api/auth/api-key/list", headers=origin))
    assert key.startswith(listed["start"]), listed
    key = {"x-api-key": key}

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url, secret = f"http://127.0.0.1:{receiver.server_port}/hook", "correct-horse-battery-staple"
    endpoint = api.rpc("webhooks/create", {"url": url, "signing_secret": secret}, key)["webhook_endpoint_id"]
    [organization] = json.loads(api.call("GET", "/api/auth/organization/list", headers=origin))
    event = {"event": "job.completed", "tenant_id": organization["id"], "job_id": "job-1", "result": {"answer": 42}}
    outputs = boto3.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
    [job_events] = [one["OutputValue"] for one in outputs if one["OutputKey"] == "JobEventsQueueUrl"]
    triggers.sqs.send_message(QueueUrl=job_events, MessageBody=json.dumps(event), MessageGroupId=organization["id"])
    webhook, body = received(triggers, secret)
    assert (body["job_id"], body["result"]) == ("job-1", {"answer": 42}), body

    [delivery] = api.rpc("deliveries/list", {"webhook_endpoint_id": endpoint}, key)["deliveries"]
    assert (delivery["status"], delivery["attempts"]) == ("delivered", 1), delivery
    api.rpc("deliveries/resend", {"delivery_id": delivery["delivery_id"]}, key)
    again, body = received(triggers, secret)
    assert (again, body["job_id"]) == (webhook, "job-1"), (webhook, again, body)
    delivery = api.rpc("deliveries/get", {"delivery_id": delivery["delivery_id"]}, key)["delivery"]
    assert (delivery["status"], delivery["attempts"]) == ("delivered", 2), delivery

    # The delivery's page, because Moto cannot run the first page's PartiQL query, which reads an index.
    page = api.call("GET", f"/console/deliveries/{delivery['delivery_id']}")
    assert "Analytical Engines" in page and url in page and "job-1" in page, page


def main():
    # Functions run under the runtime interface emulator instead of Docker.
    default_user_config["lambda"]["use_docker"] = False
    # Moto would print every request and every resource that it does not support.
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", category=UserWarning, module="moto")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    emulator = "http://{}:{}".format(*server.get_host_and_port())
    os.environ["AWS_ENDPOINT_URL"] = emulator
    folder = pathlib.Path(tempfile.mkdtemp())
    functions = None
    try:
        template = deploy(folder)
        functions = Functions(emulator, folder)
        use(Api(template, functions), Triggers(template, functions))
    except Exception:
        print(functions and functions.logs(), file=sys.stderr)
        raise
    finally:
        if functions:
            functions.end()
        server.stop()
        shutil.rmtree(folder)
    print(f"{len(functions.configurations)} functions deployed; a user signed up, and an event arrived twice")


main()
