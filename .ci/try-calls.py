#!/usr/bin/env python3
"""Makes the service's calls to DynamoDB again in a second emulator: python3 .ci/try-calls.py LOCAL

LOCAL is the local runner. Needs the packages in .ci/ministack.txt. A story uses the service while `--record` writes the calls to
a file. MiniStack, which shares no code with the tables of the local runner, then gets the same calls in the same order. Fails
if a response has another status, type of error or content, unless KNOWN lists the difference. Takes up to half a minute.
"""

import base64, collections, concurrent.futures, hmac, http.client, http.server, itertools, json, pathlib, struct, sys, tempfile
import threading, time, urllib.parse

from deployed import REGION, isolate, ministack, until
from service import ACCOUNT, PATIENCE, call, new_organization, running, token_in_email

LOCAL = sys.argv[1]
ACCOUNT_ID = "123456789012"

isolate(ACCOUNT_ID)

import boto3  # noqa: E402

# The operations that the functions use (`action` in local/src/embedded.rs). The story must cause each of them.
OPERATIONS = {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchGetItem", "BatchWriteItem", "TransactWriteItems"}
OPERATIONS |= {"ExecuteStatement", "BatchExecuteStatement"}
START = "2026-01-01T00:00:00Z"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Accepts requests at /ok, and fails at other paths until `is_up`."""

    is_up = False

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204 if self.path == "/ok" or Receiver.is_up else 503)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Caller:
    """Calls the service with an API key, or as a browser does, with the cookies of earlier responses."""

    def __init__(self, service, **headers):
        self.service, self.headers = service, {"origin": service, **headers}

    def call(self, path, body=None, **options):
        content, cookies = call(self.service, path, body, headers=self.headers, **options)
        if cookies:
            self.headers["cookie"] = cookies
        return content.decode()

    def auth(self, path, body=None, **options):
        return json.loads(self.call(f"/api/auth/{path}", body, **options))

    def rpc(self, path, fails=False, **fields):
        return json.loads(self.call(f"/v1/{path}", {"json": fields}, fails=fails))["json"]

    def signed_in(self, email, password):
        """Another caller, with a session of this user."""
        other = Caller(self.service)
        other.auth("sign-in/email", {"email": email, "password": password})
        return other


class Story:
    """Uses the service."""

    def __init__(self, stack):
        self.stack, self.service = stack, stack["api"]
        self.queues = boto3.client("sqs", endpoint_url=stack["sqs"])
        receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.receiver = f"http://127.0.0.1:{receiver.server_port}"

    def token(self, email):
        return token_in_email(self.stack["mail"], email)

    def race(self, path, **fields):
        """Makes a call twice at once. The transaction of the second one is usually canceled."""
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            calls = [threads.submit(Caller(self.service).rpc, path, fails=None, **fields) for _ in range(2)]
        assert ["userId" in one.result() for one in calls].count(True) == 1, [one.result() for one in calls]

    def run(self):
        self.demo()
        self.organization, key = new_organization(self.service, self.stack["mail"])
        self.key = Caller(self.service, **{"x-api-key": key})
        self.owner = Caller(self.service).signed_in(ACCOUNT["email"], ACCOUNT["password"])
        for part in (self.backlog, self.endpoints, self.deliveries, self.pulled, self.pages, self.team, self.account):
            part()
        self.second_factor()
        self.owner.rpc("audit/list", limit=5)
        self.owner.rpc("audit/list", action="webhook.created", actor="system")
        self.owner.auth("delete-user", {"password": "a new password"})
        self.owner.auth("sign-out", {})

    def demo(self):
        """Opens the pages of an organization with hundreds of deliveries, and sends those again that failed."""
        _, cookies = call(self.service, "/demo")
        owner = Caller(self.service, cookie=cookies)
        endpoints = owner.rpc("webhooks/list")["webhook_endpoints"]
        for path in ("", "?state=failing", "?q=example", "/deliveries", "/deliveries?status=failed", "/recovery", "/audit"):
            owner.call(f"/console{path}")
        for endpoint in endpoints:
            owner.call(f"/console/endpoints/{endpoint['webhook_endpoint_id']}")
            owner.rpc("deliveries/stats", webhook_endpoint_id=endpoint["webhook_endpoint_id"])
        page = owner.rpc("deliveries/list", limit=100)
        while cursor := page.get("next_cursor"):
            page = owner.rpc("deliveries/list", limit=100, cursor=cursor)
        old = [one["delivery_id"] for one in page["deliveries"] if one["status"] == "delivered"][-1]
        owner.rpc("deliveries/erase", delivery_id=old)
        owner.rpc("deliveries/resend", delivery_id=old, fails=True)
        started = owner.rpc("deliveries/recover", since=START, status="both")["recovery_id"]
        owner.rpc("deliveries/recover", since=START, status="pending", outcome="status_5xx")

        def is_done():
            [recovery] = [one for one in owner.rpc("deliveries/stats")["recoveries"] if one["recovery_id"] == started]
            return recovery["done"]

        until(is_done, "the recovery does not end")

    def backlog(self):
        """Holds more deliveries than a page of a PartiQL statement has."""
        fields = {"url": f"{self.receiver}/held", "active": False}
        endpoint = self.key.rpc("webhooks/create", **fields)["webhook_endpoint_id"]
        count = 320
        self.send(*(f"held-{number}" for number in range(count)))
        until(lambda: self.key.rpc("deliveries/stats")["open"]["held"]["count"] == count, "not held")
        for path in ("", f"/endpoints/{endpoint}"):
            self.owner.call(f"/console{path}")
        self.key.rpc("webhooks/delete", id=endpoint)

    def endpoints(self):
        def create(**fields):
            return self.key.rpc("webhooks/create", **fields)["webhook_endpoint_id"]

        options = {"description": "all jobs", "headers": {"authorization": "Bearer a"}, "max_concurrent": 2}
        self.good = create(url=f"{self.receiver}/ok", signing_secret="correct-horse-battery", **options)
        self.bad = create(url=f"{self.receiver}/bad", workflows=["nightly*"], events=["job.completed", "job.failed"])
        self.pull = create(kind="pull")
        once = Caller(self.service, **self.key.headers, **{"idempotency-key": "1"})
        spare = [once.rpc("webhooks/create", url=f"{self.receiver}/spare")["webhook_endpoint_id"] for _ in range(2)]
        assert spare[0] == spare[1], spare
        self.key.rpc("webhooks/update", id=self.good, keep_payload=False, description=None, payload="thin")
        self.key.rpc("webhooks/update", id=self.good, signing_secret="correct-horse-battery-staple")
        self.key.rpc("webhooks/update", id=spare[0], active=False)
        self.settled(self.key.rpc("webhooks/test", id=self.good)["delivery_id"])
        self.key.rpc("webhooks/delete", id=spare[0])
        self.key.rpc("webhooks/delete", id=spare[0], fails=True)
        self.key.rpc("webhooks/list")

    def send(self, *jobs, **members):
        """Sends an event for each job."""
        fields = {"event": "job.completed", "tenant_id": self.organization, **members}
        bodies = [json.dumps({**fields, "job_id": job}) for job in jobs]
        entries = [{"Id": str(at), "MessageBody": body, "MessageGroupId": self.organization} for at, body in enumerate(bodies)]
        for start in range(0, len(entries), 10):
            self.queues.send_message_batch(QueueUrl=self.stack["queues"]["job-events"], Entries=entries[start : start + 10])

    def settled(self, delivery):
        """Waits until a delivery is no longer pending."""
        until(lambda: self.key.rpc("deliveries/get", delivery_id=delivery)["delivery"]["status"] != "pending", delivery)

    def listed(self, **filters):
        return self.key.rpc("deliveries/list", **filters)["deliveries"]

    def deliveries(self):
        for number in range(10):
            self.send(f"job-{number}", workflow="nightly-import" if number % 3 == 0 else "other", result={"answer": number})
        # Larger than an item can be.
        self.send("large", workflow="nightly", result=["".join(chr(65 + one * one % 58) for one in range(80_000))] * 8)
        self.send("failed", event="job.failed", workflow="nightly", error={"message": "no"}, deployment_id="7")
        self.send("callback", callback_url=f"{self.receiver}/bad", callback_secret="a secret of the job")

        def attempted(count, **filters):
            found = [one for one in self.listed(**filters) if one["attempts"]]
            return found if len(found) >= count else None

        failed = until(lambda: attempted(6, webhook_endpoint_id=self.bad), "not attempted")
        until(lambda: attempted(12, webhook_endpoint_id=self.good, status="delivered"), "not delivered")
        until(lambda: attempted(1, job_id="callback"), "no callback")
        for filters in (
            {"status": "pending", "limit": 2},
            {"job_id": "job-3"},
            {"webhook_id": failed[0]["webhook_id"]},
            {"workflow": "nightly", "event": "job.failed"},
            {"outcome": "status_5xx", "since": START},
            {"webhook_endpoint_id": self.good, "until": failed[0]["created_at"]},
        ):
            self.key.rpc("deliveries/list", **filters)
        page = self.key.rpc("deliveries/list", limit=3)
        self.key.rpc("deliveries/list", limit=3, cursor=page["next_cursor"])
        self.key.rpc("deliveries/erase", job_id="job-3", fails=True)
        Receiver.is_up = True
        resent = failed[0]["delivery_id"]
        self.key.rpc("deliveries/resend", delivery_id=resent)
        self.settled(resent)
        self.key.rpc("deliveries/recover", webhook_endpoint_id=self.bad, since=START, status="pending")
        until(lambda: not self.listed(webhook_endpoint_id=self.bad, status="pending"), "not recovered")
        self.key.rpc("deliveries/stats")
        self.key.rpc("deliveries/erase", webhook_endpoint_id=self.bad, since=START)

    def pulled(self):
        first = self.key.rpc("deliveries/receive", webhook_endpoint_id=self.pull, limit=4)["deliveries"]
        results = [{"status_code": 204}, {"status_code": 500, "response": "no"}, {"error": "timeout"}, {}]
        settle = [{"delivery_id": one["delivery_id"], "lease": one["lease"], **result} for one, result in zip(first, results)]
        self.key.rpc("deliveries/settle", settlements=settle)
        self.key.rpc("deliveries/settle", settlements=settle[:2])
        rest = self.key.rpc("deliveries/receive", webhook_endpoint_id=self.pull, limit=100)["deliveries"]
        gone = [{"delivery_id": one["delivery_id"], "lease": one["lease"], "status_code": 410} for one in rest[:1]]
        self.key.rpc("deliveries/settle", settlements=gone)

    def pages(self):
        [delivery, *_] = self.listed(webhook_endpoint_id=self.bad, limit=1)
        paths = [f"/endpoints/{self.bad}", f"/deliveries/{delivery['delivery_id']}", "/deliveries?job_id=job-2", "/keys"]
        for path in ("", *paths, "/endpoints/new", "/team", "/settings", "/account", "/audit?action=webhook.created"):
            self.owner.call(f"/console{path}")

        def form(action, **fields):
            self.owner.call(f"/console/endpoints/{self.bad}", {"action": action, **fields}, form=True)

        form("deactivate", sure="yes")
        self.send("held", workflow="nightly")
        until(lambda: self.listed(webhook_endpoint_id=self.bad, status="held"), "not held")
        form("activate")
        form("test")
        form("recover", since=START, status="held", sure="yes")
        until(lambda: not self.listed(webhook_endpoint_id=self.bad, status="held"), "still held")

    def team(self):
        owner, password = self.owner, "another long password"
        invitations = [{"email": f"{name}@example.com", "role": "member"} for name in ("bo", "cy", "di")]
        bo, cy, di = [owner.auth("organization/invite-member", one)["id"] for one in invitations]
        by_slug = {"tenantSlug": ACCOUNT["organizationSlug"]}
        self.key.rpc("auth/inviteDetails", invitationId=bo, **by_slug)
        joining = {"name": "Bo", "password": password, **by_slug}
        self.race("auth/acceptInviteAndSignup", invitationId=bo, **joining)
        Caller(self.service).rpc("auth/acceptInviteAndSignup", invitationId=bo, fails=True, **joining)
        owner.auth("organization/cancel-invitation", {"invitationId": cy})
        Caller(self.service).rpc("auth/acceptInviteAndSignup", invitationId=cy, fails=True, **joining)
        owner.auth("organization/list-invitations")
        members = owner.auth("organization/list-members")["members"]
        [member] = [one["id"] for one in members if one["user"]["email"] == "bo@example.com"]
        Caller(self.service).call("/verify-email", {"token": self.token("bo@example.com")}, form=True)
        bo = owner.signed_in("bo@example.com", password)
        for role in ("owner", "member"):
            owner.auth("organization/update-member-role", {"memberId": member, "role": role})
        bo.auth("api-key/create", {"name": "of a member"})
        # An account moves to another organization.
        other = {**ACCOUNT, "email": "di@example.com", "organizationName": "Other", "organizationSlug": "other"}
        self.race("auth/signupAndCreateOrg", **other)
        moving = owner.signed_in("di@example.com", other["password"])
        moving.call("/verify-email", {"token": self.token("di@example.com")}, form=True)
        moving.auth("organization/list-user-invitations")
        moving.rpc("auth/acceptInviteForCurrentUser", invitationId=di, deleteOrganization=True, **by_slug)
        owner.auth("organization/remove-member", {"memberIdOrEmail": "di@example.com"})
        bo.auth("organization/leave", {})
        owner.auth("organization/leave", {}, fails=True)
        owner.auth("organization/update", {"data": {"name": "Engines"}})
        owner.rpc("tenant/settings", debug_notification_email="alerts@example.com", disable_job_failure_notifications=True)
        owner.auth("api-key/create", {"name": "ci", "kind": "organization", "scopes": ["deliveries:read"]})
        owner.auth("api-key/delete", {"keyId": owner.auth("api-key/list")[-1]["id"]})

    def account(self):
        owner, service = self.owner, self.service
        Caller(service).rpc("auth/signupAndCreateOrg", **ACCOUNT, fails=True)
        Caller(service).auth("sign-in/email", {"email": ACCOUNT["email"], "password": "a guess"}, fails=True)
        Caller(service).auth("sign-in/email", {"email": "unknown@example.com", "password": "a guess"}, fails=True)
        other = owner.signed_in(ACCOUNT["email"], ACCOUNT["password"])
        login = Caller(service).rpc("auth/cliLoginCreate")
        login = {name: login[name] for name in ("requestId", "secret")}
        Caller(service).rpc("auth/cliLoginPoll", **login)
        other.rpc("auth/cliLoginApprove", **login)
        assert [Caller(service).rpc("auth/cliLoginPoll", **login)["status"] for _ in range(2)] == ["approved", "expired"]
        other.rpc("auth/status")
        owner.auth("update-user", {"name": "Ada King"})
        owner.auth("change-email", {"newEmail": "king@example.com"})
        owner.call("/verify-email", {"token": self.token("king@example.com")}, form=True)
        third = owner.signed_in("king@example.com", ACCOUNT["password"])
        owner.auth("list-sessions")
        owner.auth("revoke-session", {"token": third.auth("get-session")["session"]["id"]})
        owner.auth("revoke-other-sessions", {})
        owner.auth("change-password", {"currentPassword": ACCOUNT["password"], "newPassword": "a longer password"})
        other.auth("list-sessions", fails=True)
        owner.rpc("auth/requestPasswordReset", email="king@example.com")
        owner.auth("reset-password", {"token": (token := self.token("king@example.com")), "newPassword": "a new password"})
        owner.auth("reset-password", {"token": token, "newPassword": "a new password"}, fails=True)
        self.key.rpc("webhooks/list", fails=True)
        self.owner = owner.signed_in("king@example.com", "a new password")

    def second_factor(self):
        enabled = self.owner.auth("two-factor/enable", {"password": "a new password"})
        [secret] = urllib.parse.parse_qs(urllib.parse.urlsplit(enabled["totpURI"]).query)["secret"]
        digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30), "sha1")
        code = (struct.unpack_from(">I", digest, digest[-1] & 15)[0] & 0x7FFFFFFF) % 1_000_000
        self.owner.auth("two-factor/verify-totp", {"code": "1"}, fails=True)
        self.owner.auth("two-factor/verify-totp", {"code": f"{code:06}"})
        owner = Caller(self.service)
        owner.auth("sign-in/email", {"email": "king@example.com", "password": "a new password"})
        owner.auth("two-factor/verify-backup-code", {"code": enabled["backupCodes"][0]})
        owner.rpc("tenant/settings", require_two_factor=True)
        owner.rpc("tenant/settings", require_two_factor=False)
        owner.auth("two-factor/disable", {"password": "a new password"})
        self.owner = owner


def described(address):
    """The requests that create the service's tables."""
    tables = boto3.client("dynamodb", endpoint_url=address)
    for name in tables.list_tables()["TableNames"]:
        table = tables.describe_table(TableName=name)["Table"]
        fields = {key: table[key] for key in ("TableName", "AttributeDefinitions", "KeySchema")}
        indexes = table.get("GlobalSecondaryIndexes", [])
        indexes = [{key: index[key] for key in ("IndexName", "KeySchema", "Projection")} for index in indexes]
        yield {**fields, **({"GlobalSecondaryIndexes": indexes} if indexes else {}), "BillingMode": "PAY_PER_REQUEST"}


class Player:
    """Makes calls in MiniStack."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=PATIENCE)
        # MiniStack reads the account and the region, and does not check the signature.
        credential = f"{ACCOUNT_ID}/20260101/{REGION}/dynamodb/aws4_request"
        self.headers = {
            "content-type": "application/x-amz-json-1.0",
            "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=x",
        }

    def call(self, operation, request):
        """Returns the status and the response."""
        target = {"x-amz-target": f"DynamoDB_20120810.{operation}"}
        self.connection.request("POST", "/", json.dumps(request), {**self.headers, **target})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


def text(value):
    return json.dumps(value, sort_keys=True)


def ordered(value):
    """A value whose sets are sorted."""
    if isinstance(value, list):
        return [ordered(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: sorted(one) if name in ("SS", "NS", "BS") and isinstance(one, list) else ordered(one) for name, one in value.items()
    }


def comparable(operation, status, response):
    """A response without the parts that may differ: messages for people, consumed capacity, the text of tokens, and the order of
    a set's members and of the items of BatchGetItem."""
    result = ordered({name: value for name, value in response.items() if name not in ("message", "Message", "ConsumedCapacity")})
    if status != 200:
        result["__type"] = result.get("__type", "").split("#")[-1]
        for reason in result.get("CancellationReasons", []):
            reason.pop("Message", None)
    if "NextToken" in result:
        result["NextToken"] = "..."
    if operation == "BatchGetItem" and status == 200:
        for items in result.get("Responses", {}).values():
            items.sort(key=text)
    return {"status": status, **result}


def differs_within_partitions(operation, recorded, found):
    """Whether the pages differ only in the order of items in a partition. If a partition continues on the next page, its items on
    this page may differ."""
    if operation != "ExecuteStatement" or {**recorded, "Items": []} != {**found, "Items": []}:
        return False
    # A statement reads an index or the table.
    partition = lambda item: item.get("open", item.get("destination"))
    pages = []
    for answer in (recorded, found):
        partitions = [list(items) for _, items in itertools.groupby(answer["Items"], key=partition)]
        pages.append([(partition(items[0]), len(items), sorted(map(text, items))) for items in partitions])
    if "NextToken" in recorded:
        pages = [page[:-1] + [page[-1][:2]] for page in pages]
    return pages[0] == pages[1]


# Differences that stay, by name: their test, the reason and AWS's documentation.
KNOWN = {
    "the order within partitions": (
        differs_within_partitions,
        "A statement that orders by the partition key defines only the order of partitions. In each, the local tables return the "
        "newest item first, as their authors have seen on AWS, and MiniStack the oldest. The service accepts any order.",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.select.html",
    ),
}


ABSENT = "(absent)"


def difference(recorded, found, place=""):
    """The place of the first difference, with both values."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        pairs = [(name, recorded.get(name, ABSENT), found.get(name, ABSENT)) for name in sorted(recorded.keys() | found.keys())]
    elif isinstance(recorded, list) and isinstance(found, list):
        pairs = [(at, *pair) for at, pair in enumerate(itertools.zip_longest(recorded, found, fillvalue=ABSENT))]
    else:
        return f"{place}: recorded {text(recorded)[:500]}, MiniStack {text(found)[:500]}"
    [(name, *pair), *_] = [pair for pair in pairs if pair[1] != pair[2]]
    return difference(*pair, f"{place}/{name}")


def play(calls, player):
    """Makes the calls again. Returns the number of agreeing calls by operation and error, the number of each known difference,
    and the other differences."""
    agreed, known, unknown = collections.Counter(), collections.Counter(), []
    for number, call in enumerate(calls, 1):
        operation = call["operation"]
        recorded = comparable(operation, call["status"], call["response"])
        found = comparable(operation, *player.call(operation, call["request"]))
        if recorded == found:
            agreed[" ".join([operation, recorded.get("__type", "")]).strip()] += 1
            continue
        names = [name for name, (fits, *_) in KNOWN.items() if fits(operation, recorded, found)]
        known.update(names[:1])
        if not names:
            unknown.append(f"{operation}, call {number}: {difference(recorded, found)}\n  {text(call['request'])[:2000]}")
    return agreed, known, unknown


def main():
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent)
        file = folder / "calls"
        with running(LOCAL, "--demo-data", "--record", str(file)) as stack:
            tables = list(described(stack["dynamodb"]))
            Story(stack).run()
        calls = [json.loads(line) for line in file.read_text().splitlines()]
        if missing := OPERATIONS - {call["operation"] for call in calls}:
            sys.exit(f"the story causes no {', '.join(sorted(missing))}")
        with ministack(folder) as address:
            player = Player(address)
            for table in tables:
                status, response = player.call("CreateTable", table)
                assert status == 200, response
            agreed, known, unknown = play(calls, player)
    for operation, count in sorted(agreed.items()):
        print(f"{operation}: {count} calls agree")
    for name, count in known.items():
        _, reason, source = KNOWN[name]
        print(f"{name} differs in {count} calls. {reason} {source}")
    for one in unknown:
        print(one)
    print(f"{len(calls)} calls, {len(unknown)} unknown differences")
    if unused := KNOWN.keys() - known.keys():
        sys.exit(f"no longer differs: {', '.join(unused)}")
    sys.exit(len(unknown) > 0)


main()
