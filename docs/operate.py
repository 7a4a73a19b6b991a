#!/usr/bin/env python3
"""Operators' tasks that need more than a line of shell. docs/operating.md says when and how to use them.

It needs Python 3 and the AWS CLI, and works on the stack named by the variable STACK.
"""

import base64
import csv
import functools
import json
import os
import re
import secrets
import subprocess
import sys
import time
import uuid
from datetime import date, datetime, timedelta, timezone

# A version manager for Python may change the PATH.
AWS = os.environ.get("AWS", "aws")
# Added to epochs: more than the number of times that users ended their sessions or keys since the restored time.
MANY = 1000
# The limit of a batched write.
BATCH = 25
DAY = 24 * 60 * 60
# The tables, and their keys if these are not `pk`.
USERS, ORGANIZATIONS, INVITATIONS, TOKENS = "Users", "Organizations", "Invitations", "Tokens"
KEYS, ENDPOINTS, AUDIT, DELIVERIES = "ApiKeys", "WebhookEndpoints", "Audit", "Deliveries"
KEY = {INVITATIONS: ["invitation_id"], KEYS: ["key_hash"], ENDPOINTS: ["tenant_id", "webhook_endpoint_id"],
       DELIVERIES: ["destination", "delivery"]}
# The kinds of tokens that stay: bounces, and recipients' answers, with the links in emails that change them.
KEPT = ["suppression", "passing_bounces", "consent", "consent_link"]
# The user has been a member since before the restored time. If the users were not restored, a member who left may be back.
IS_EARLIER = "organization_id = :o AND (attribute_not_exists(joined_at) OR joined_at < :since)"
END_FACTOR = "REMOVE totp_secret, two_factor_since, totp_step, backup_codes"


@functools.cache
def name_of(table):
    query = f"Stacks[0].Outputs[?OutputKey=='{table}TableName'].OutputValue"
    command = [AWS, "cloudformation", "describe-stacks", "--stack-name", os.environ.get("STACK", "webhooks")]
    command += ["--output", "text", "--query", query]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def dynamodb(operation, **options):
    """Returns DynamoDB's response, or None if a condition is not met."""
    command = [AWS, "dynamodb", operation, "--output", "json"]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), value if isinstance(value, str) else json.dumps(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "ConditionalCheckFailed" in done.stderr:
        return None
    if done.returncode:
        sys.exit(f"{operation}: {done.stderr}")
    return json.loads(done.stdout or "{}")


def attribute(value):
    kinds = {bool: "BOOL", list: "SS", str: "S"}
    kind = kinds.get(type(value), "N")
    return {kind: str(value) if kind == "N" else value}


def item(names, values):
    return {name: attribute(value) for name, value in zip(names, values, strict=True)}


def get(table, *key):
    """Returns the strings in an item; none if there is no such item."""
    found = dynamodb("get-item", table_name=name_of(table), key=item(KEY.get(table, ["pk"]), key)) or {}
    return {name: value.get("S") for name, value in found.get("Item", {}).items()}


def write(kind, table, key, expression="", condition="", **values):
    """A write in a transaction. In its expressions, `#role` is an attribute and `:role` a value."""
    details = {"TableName": name_of(table), "Key": item(KEY.get(table, ["pk"]), key)}
    names = {f"#{name}": name for name in re.findall(r"#(\w+)", expression + condition)}
    details |= {"ExpressionAttributeNames": names} if names else {}
    details |= {"UpdateExpression": expression} if expression else {}
    details |= {"ConditionExpression": condition} if condition else {}
    details |= {"ExpressionAttributeValues": item([f":{name}" for name in values], values.values())} if values else {}
    return {kind: details}


def commit(*writes):
    """Commits a transaction. Returns whether its conditions were met."""
    return dynamodb("transact-write-items", transact_items=list(writes)) is not None


def revoke(organization, key):
    """Deletes an API key."""
    found = get(KEYS, f"id#{key}").get("hash")
    return bool(found) and commit(
        write("Delete", KEYS, [found], condition="organization_id = :o", o=organization),
        write("Delete", KEYS, [f"id#{key}"]),
        write("Update", KEYS, [f"count#{organization}"], "ADD #keys :one_less", one_less=-1))


def move(old, new, only=None):
    """Gives the account with the address `old` the address `new`, and ends its sessions, keys and links."""
    old, new = old.lower(), new.lower()
    user = get(USERS, f"email#{old}").get("user_id")
    organization = get(USERS, f"user#{user}").get("organization_id")
    notified = get(ORGANIZATIONS, f"org#{organization}").get("debug_notification_email")
    # The organization's notifications follow, too: someone else may read the mailbox.
    redirected = [write("Update", ORGANIZATIONS, [f"org#{organization}"],
                        "SET debug_notification_email = :new, asks_recipient = :true", "debug_notification_email = :old",
                        old=old, new=new, true=True)] if notified == old else []
    return bool(user) and old != new and only in (None, user) and commit(
        *redirected,
        # After a change, the earlier address is reserved for its account until the change can no longer be undone.
        write("Update", USERS, [f"email#{new}"], "SET user_id = :u REMOVE reserved_for, reserved_until",
              "attribute_not_exists(pk) OR reserved_for = :u OR reserved_until <= :now", u=user, now=int(time.time())),
        write("Delete", USERS, [f"email#{old}"], condition="user_id = :u", u=user),
        write("Update", USERS, [f"user#{user}"],
              "SET email = :new, email_verified = :false REMOVE pending_email, email_undos "
              "ADD session_epoch :many, key_epoch :many",
              "email = :old", old=old, new=new, false=False, many=MANY))


def remove_second_factor(email):
    """Ends the second factor and the sessions of a user."""
    email = email.lower()
    user = get(USERS, f"email#{email}").get("user_id")
    return bool(user) and commit(write("Update", USERS, [f"user#{user}"], f"{END_FACTOR} ADD session_epoch :one",
                                       "email = :email", email=email, one=1))


def remove_user(organization, user, since):
    email = get(USERS, f"user#{user}").get("email")
    return bool(email) and commit(
        write("Delete", USERS, [f"user#{user}"], condition=IS_EARLIER, o=organization, since=since),
        write("Delete", USERS, [f"email#{email}"]),
        write("Update", ORGANIZATIONS, [f"org#{organization}"], "DELETE joined :users", users=[user]))


def remove_member(organization, user, email, since):
    """Deletes an account. Its invitation may have been accepted since, and is then pending again."""
    return any([remove_user(organization, user, since), end_invitations(organization, email, "accepted", since)])


def change_role(organization, user, role, since):
    return commit(write("Update", USERS, [f"user#{user}"], "SET #role = :role", IS_EARLIER,
                        role=role, o=organization, since=since))


def lock(organization, user, keys=0, end=""):
    """Replaces the password with one that does not exist. The user can only reset it by email."""
    salt, nothing = (base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32))
    return commit(write(
        "Update", USERS, [f"user#{user}"],
        f"SET password_hash = :nothing {end} ADD session_epoch :many, key_epoch :keys", "organization_id = :o",
        nothing=f"$argon2id$v=19$m=19456,t=2,p=1${salt}${nothing}", many=MANY, keys=keys, o=organization))


def restore_email(organization, user, old, new):
    """Gives the account its earlier address `new`, which the user may already have had again, and locks it."""
    return (old == new or move(old, new, only=user)) and lock(organization, user, keys=MANY)


def end_organization(organization, last, since):
    """Deletes an organization, and the account of its last member. `accounts-purge` deletes the rest."""
    slug = get(ORGANIZATIONS, f"org#{organization}").get("slug")
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    remove_user(organization, last, since)
    ended = [write("Update", ORGANIZATIONS, ["deleted"], "ADD organizations :one", one=[organization]),
             write("Delete", KEYS, [f"count#{organization}"])]
    if slug:
        return commit(
            write("Update", ORGANIZATIONS, [f"org#{organization}"], "SET deleted_at = :now",
                  "attribute_exists(slug) AND attribute_not_exists(deleted_at)", now=now),
            write("Delete", ORGANIZATIONS, [f"slug#{slug}"]), *ended)
    # The organization was purged, and its table was not restored. Other tables may contain its data again.
    return commit(
        write("Update", ORGANIZATIONS, [f"org#{organization}"], "SET organization_id = :o, deleted_at = :now",
              "attribute_not_exists(pk)", o=organization, now=now), *ended)


def end_invitations(organization, email, status, since):
    """Ends the pending invitations to an address from before the restored time. The audit log does not contain their ids."""
    found = dynamodb("scan", table_name=name_of(INVITATIONS),
                     filter_expression="organization_id = :o AND email = :email AND created_at < :since",
                     expression_attribute_values=item([":o", ":email", ":since"], [organization, email, since]),
                     ).get("Items", [])
    ended = [commit(write("Update", INVITATIONS, [invitation["invitation_id"]["S"]], "SET #status = :status",
                          "#status = :pending", status=status, pending="pending")) for invitation in found]
    return any(ended)


def delete_endpoint(organization, endpoint):
    is_pull = get(ENDPOINTS, organization, endpoint).get("kind") == "pull"
    now = int(time.time())
    return commit(
        write("Delete", ENDPOINTS, [organization, endpoint], condition="attribute_exists(tenant_id)"),
        write("Update", ENDPOINTS, [organization, f"#deleted#{endpoint}"], "SET delete_at = :later",
              later=now + 365 * DAY),
        write("Update", ENDPOINTS, [organization, "#count"], "ADD endpoints :one_less", one_less=-1),
        # The sweep ends the deliveries that wait.
        write("Update", DELIVERIES, [f"ending/{organization}", endpoint],
              "SET #open = :open, pull = :pull, noted_at = :now, look_at = :now, expires_at = :later",
              open="ending", pull=is_pull, now=now * 1000, later=now + 7 * DAY))


def end_sessions():
    """Deletes all sessions and links. Keeps the addresses that bounced, and the answers of recipients who stopped emails."""
    found = dynamodb("scan", table_name=name_of(TOKENS), projection_expression="token_hash, kind").get("Items", [])
    ended = [{"token_hash": item["token_hash"]} for item in found if item.get("kind", {}).get("S") not in KEPT]
    for start in range(0, len(ended), BATCH):
        left = {name_of(TOKENS): [{"DeleteRequest": {"Key": key}} for key in ended[start : start + BATCH]]}
        while left:
            left = dynamodb("batch-write-item", request_items=left).get("UnprocessedItems")


# The changes that end access. For each, the effect of repeating it, and the function that does so for an entry of the
# audit log, with the organization and the id of the object.
REPEATED = {
    "organization.deleted": ("it is deleted, with its last account",
                             lambda entry, o, id: end_organization(o, entry["actor"]["id"], entry["since"])),
    "member.removed": ("the account is deleted",
                       lambda entry, o, id: remove_member(o, id, entry["target"]["name"], entry["since"])),
    "member.left": ("the account is deleted",
                    lambda entry, o, id: remove_member(o, id, entry["target"]["name"], entry["since"])),
    "member.role_changed": ("the member has the later role",
                            lambda entry, o, id: change_role(o, id, changed(entry, "role")["new"], entry["since"])),
    "invitation.canceled": ("it cannot be accepted",
                            lambda entry, o, id: end_invitations(o, id, "cancelled", entry["since"])),
    "invitation.rejected": ("it cannot be accepted",
                            lambda entry, o, id: end_invitations(o, id, "rejected", entry["since"])),
    "key.deleted": ("the key does not work", lambda entry, o, id: revoke(o, id)),
    "webhook.deleted": ("the endpoint is deleted", lambda entry, o, id: delete_endpoint(o, id)),
    "email.changed": ("the account has the later address, no keys, and the old password",
                      lambda entry, o, id: move(*changed_email(entry), only=id)),
    "email.verified": ("if it replaced an unverified address, the account has the later address, no keys, and the old "
                       "password",
                       lambda entry, o, id: move(*changed_email(entry), only=id) if entry["changes"] else None),
    "email.restored": ("the account has the earlier address and no keys, and has to reset the password",
                       lambda entry, o, id: restore_email(o, id, *changed_email(entry))),
    "password.changed": ("the user has to reset the password", lambda entry, o, id: lock(o, id)),
    "password.reset": ("the user has to reset the password, and has no personal keys",
                       lambda entry, o, id: lock(o, id, keys=MANY, end="REMOVE pending_email")),
    "two_factor.enabled": ("the user has to reset the password and set up a new second factor",
                           lambda entry, o, id: lock(o, id, end=END_FACTOR)),
    "two_factor.disabled": ("the user has to reset the password and has no second factor",
                            lambda entry, o, id: lock(o, id, end=END_FACTOR)),
    "two_factor.codes_generated": ("the user has to reset the password and set up a new second factor",
                                   lambda entry, o, id: lock(o, id, end=END_FACTOR)),
}


def changed(entry, field):
    return next(change for change in entry["changes"] if change["field"] == field)


def changed_email(entry):
    """The old address and the new one. Since then, another account may have got the old one."""
    email = changed(entry, "email")
    return email["old"], email["new"]


def after_restore(since):
    """Ends all sessions, and repeats the changes since then, in Unix seconds, that ended access. Prints each change."""
    end_sessions()
    restored = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(int(since)))
    found = dynamodb("scan", table_name=name_of(AUDIT), filter_expression="entry >= :since",
                     expression_attribute_values={":since": attribute(f"{int(since):010}000")})
    for stored in sorted(found.get("Items", []), key=lambda stored: stored["entry"]["S"]):
        organization, entry = stored["tenant_id"]["S"], json.loads(stored["details"]["S"]) | {"since": restored}
        action, target = entry["action"], entry["target"]["id"]
        if action.startswith("session"):
            continue
        _, repeat = REPEATED.get(action, (None, lambda entry, organization, target: None))
        result = {None: "undone", True: "repeated", False: "absent"}[repeat(entry, organization, target)]
        print(entry["at"], organization, action, target, result, sep="\t")
    return True


def recover(organization, endpoint, since, until):
    """Lets `deliveries-wake` resend the failed and held deliveries from a period, in Unix seconds, like `deliveries/recover`."""
    if not int(since) < int(until) < time.time() + DAY:
        sys.exit("recover: the period ends before it begins, or is not in seconds")
    if not get(ENDPOINTS, organization, endpoint):
        return False
    made = uuid.UUID(f"{time.time_ns() // 10**6:012x}7{uuid.uuid4().hex[13:]}")
    recovery = {
        "destination": f"recovery/{organization}", "delivery": str(made), "open": "recovery", "endpoint": endpoint,
        "since": int(since) * 1000, "until": int(until) * 1000, "expires_at": int(time.time()) + 30 * DAY}
    stored = item(recovery.keys(), recovery.values())
    return dynamodb("put-item", table_name=name_of(DELIVERIES), item=stored) is not None


def bring_back(restored, table, key):
    """Copies an item from a restored table over the current one."""
    found = dynamodb("get-item", table_name=restored, key=key).get("Item")
    return found is not None and dynamodb("put-item", table_name=table, item=found) is not None


def usage(day):
    """Prints the usage of the service on a UTC day, such as 2026-01-31, as CSV."""
    start = datetime.combine(date.fromisoformat(day), datetime.min.time(), timezone.utc)
    since, until = (f"{round(at.timestamp() * 1000):013}" for at in (start, start + timedelta(days=1)))
    values = {":since": attribute(since), ":until": attribute(until), ":test": attribute("webhook.test")}
    # Only the states of deliveries have a job. Their sort keys begin with the time of the event. As text, the CLI prints page
    # by page.
    command = [
        AWS, "dynamodb", "scan", "--table-name", name_of(DELIVERIES), "--output", "text",
        "--filter-expression", "delivery BETWEEN :since AND :until AND attribute_exists(job_id) AND #event <> :test",
        "--expression-attribute-names", '{"#event": "event"}', "--expression-attribute-values", json.dumps(values),
        "--query", "Items[].[to_string([destination.S, delivery.S, event.S, job_id.S, attempts.N])]"]
    scan = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    events, deliveries, attempts = {}, {}, {}
    for line in scan.stdout:
        destination, delivery, event, job, made = json.loads(line)
        # The endpoint follows the id of the organization, which may contain a slash.
        organization = destination.rpartition("/")[0]
        events.setdefault(organization, set()).add(hash((delivery.partition(".")[0], event, job)))
        deliveries[organization] = deliveries.get(organization, 0) + 1
        attempts[organization] = attempts.get(organization, 0) + int(made or 0)
    if scan.wait():
        sys.exit("usage: the log could not be read")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["organization", "day", "events", "deliveries", "attempts"])
    for organization, seen in sorted(events.items()):
        out.writerow([organization, day, len(seen), deliveries[organization], attempts[organization]])
    return True


def repeated():
    """Prints the table in docs/operating.md."""
    print("| change since the restored time | afterward |\n|---|---|")
    for effect in dict.fromkeys(effect for effect, _ in REPEATED.values()):
        actions = [f"`{action}`" for action, (other, _) in REPEATED.items() if other == effect]
        print(f"| {', '.join(actions)} | {effect} |")
    return True


TASKS = [after_restore, bring_back, move, recover, remove_second_factor, repeated, revoke, usage]
task = {task.__name__: task for task in TASKS}.get(sys.argv[1] if len(sys.argv) > 1 else "")
if task is None:
    sys.exit("".join(f"{task.__name__}: {task.__doc__.splitlines()[0]}\n" for task in TASKS))
if not task(*sys.argv[2:]):
    sys.exit(f"{sys.argv[1]} changed nothing: there is no such object, or its state does not permit the change.")
