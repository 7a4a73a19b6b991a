"""Receivers in Python that verify wrongly, each with real libraries. A receiver answers with what its code saw."""

import base64, datetime, hashlib, hmac, http.server, json, os, threading, time

import django.conf, django.core.wsgi, django.http, django.urls
import flask, fastapi, orjson, pydantic, uvicorn
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from slack_sdk.signature import SignatureVerifier
from standardwebhooks import Webhook
from werkzeug.serving import make_server

SECRET = os.environ["SECRET"]
PORT = int(os.environ["PORT"])


def refused(headers, body: bytes, verify=None, **more):
    """Runs a library's verification, which must fail, and answers with what it got."""
    try:
        (verify or (lambda: Webhook(SECRET).verify(body, dict(headers))))()
        return {"error": None}
    except Exception as error:
        return {"error": repr(error), "headers": dict(headers), "body": base64.b64encode(body).decode(), **more}


def compared(headers, body: bytes, computed: str):
    error = "not equal" if computed not in headers["webhook-signature"].split(" ") else None
    return {"error": error, "headers": dict(headers), "body": base64.b64encode(body).decode(), "computed": computed}


app = flask.Flask("receiver")


@app.post("/flask/dumps")
def dumps():
    return refused(flask.request.headers, json.dumps(flask.request.json).encode())


@app.post("/flask/consumed")
def consumed():
    flask.request.stream.read()
    return refused(flask.request.headers, flask.request.get_data())


@app.post("/flask/file")
def file():
    """A queue between the receiver and its worker writes lines."""
    with open("queue.txt", "w") as queue:
        print(flask.request.get_data(as_text=True), file=queue)
    with open("queue.txt", "rb") as queue:
        return refused(flask.request.headers, queue.read())


@app.post("/flask/secret-file")
def secret_file():
    """The secret is read from a mounted file, which ends with a line feed."""
    with open("secret.txt", "w") as secret:
        print(SECRET, file=secret)
    body, headers = flask.request.get_data(), flask.request.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    with open("secret.txt", "rb") as secret:
        tag = hmac.digest(secret.read(), content, "sha256")
    return compared(headers, body, "v1," + base64.b64encode(tag).decode())


@app.post("/flask/slack")
def slack():
    body, headers = flask.request.get_data(), flask.request.headers
    verifier = SignatureVerifier(SECRET)
    return compared(headers, body, verifier.generate_signature(timestamp=headers["webhook-timestamp"], body=body))


@app.post("/flask/local-time")
def local_time():
    """`utcnow` has no time zone, so `timestamp` takes it for local time. The machine is in Berlin."""
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    body, headers = flask.request.get_data(), flask.request.headers
    sent = int(headers["webhook-timestamp"])
    # The time at which the request was sent stands for the present.
    now = datetime.datetime.utcfromtimestamp(sent).timestamp()
    is_current = lambda: 1 / (abs(now - sent) <= 300)
    at = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return refused(headers, body, is_current, received_at=at)


@app.post("/flask/stopped-clock")
def stopped_clock():
    """The clock of a virtual machine that was suspended."""
    body, headers = flask.request.get_data(), flask.request.headers
    now = int(headers["webhook-timestamp"]) - 2000
    is_current = lambda: 1 / (abs(now - int(headers["webhook-timestamp"])) <= 300)
    at = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return refused(headers, body, is_current, received_at=at)


class Event(pydantic.BaseModel):
    """A model with the members in another order."""

    job_id: str
    event: str
    status: str | None
    workflow: str | None
    result: dict | None
    error: dict | None
    nonce: str | None
    deployment_id: str | None
    mapped_stack: str | None


fast = fastapi.FastAPI()


@fast.post("/fastapi/model")
def model(event: Event, request: fastapi.Request):
    return refused(request.headers, event.model_dump_json().encode())


@fast.post("/fastapi/orjson")
async def orjson_line(request: fastapi.Request):
    body = orjson.dumps(orjson.loads(await request.body()), option=orjson.OPT_APPEND_NEWLINE)
    return refused(request.headers, body)


@fast.post("/fastapi/f-string")
async def f_string(request: fastapi.Request):
    body, headers = await request.body(), request.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}"
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    tag = hmac.digest(key, content.encode(), "sha256")
    return compared(headers, body, "v1," + base64.b64encode(tag).decode())


@fast.post("/fastapi/lambda")
async def behind_api_gateway(request: fastapi.Request):
    """The event of API Gateway has the body in base64."""
    body = base64.b64encode(await request.body()).decode()
    event = APIGatewayProxyEventV2({"body": body, "isBase64Encoded": True, "headers": dict(request.headers)})
    return refused(event.headers, event.body.encode())


django.conf.settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x")


def meta(request):
    """The environment of WSGI instead of the headers."""
    environment = {name: value for name, value in request.META.items() if name.startswith("HTTP_")}
    return django.http.JsonResponse(refused(environment, request.body))


urlpatterns = [django.urls.path("django/meta", meta)]


class Part(http.server.BaseHTTPRequestHandler):
    """Reads no more than what arrives at once in a small buffer."""

    def do_POST(self):
        body = self.rfile.read(128)
        answer = json.dumps(refused(self.headers, body)).encode()
        self.rfile.read(int(self.headers["content-length"]) - 128)
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    servers = [
        make_server("127.0.0.1", PORT, app).serve_forever,
        make_server("127.0.0.1", PORT + 1, django.core.wsgi.get_wsgi_application()).serve_forever,
        http.server.HTTPServer(("127.0.0.1", PORT + 2), Part).serve_forever,
    ]
    for server in servers:
        threading.Thread(target=server, daemon=True).start()
    uvicorn.run(fast, host="127.0.0.1", port=PORT + 3, log_level="warning")
