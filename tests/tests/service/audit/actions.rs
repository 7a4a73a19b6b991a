//! Each change appears in the log, with its actor, the actor's client, the target and the fields.

use std::collections::BTreeSet;

use api::{ClosedSet as _, audit::Action};
use reqwest::header::USER_AGENT;
use serde_json::{Value, json};
use tests::{
    Answer, Authenticator, Browser, Receiver, Tenant, World, event, text,
    world::{cookie, link, people::PASSWORD, set_cookie},
};

use super::{entries, records};

const AGENT: &str = "audit-test/1";

/// A person whose client sends [`AGENT`].
struct Client<'a> {
    world: &'a World,
    cookie: String,
}

impl Client<'_> {
    async fn post(&self, path: &str, body: &Value) -> Answer {
        let body = if path.starts_with("/v1/") { json!({ "json": body }) } else { body.clone() };
        let request = self.world.http.post(self.world.url(path)).json(&body).header(USER_AGENT, AGENT);
        self.world.send(request.header("cookie", &self.cookie).header("origin", self.world.stack.api())).await
    }

    async fn submit(&self, path: &str, form: &Value) -> Answer {
        let request = self.world.http.post(self.world.url(path)).form(form).header(USER_AGENT, AGENT);
        self.world.send(request.header("cookie", &self.cookie).header("origin", self.world.stack.api())).await
    }
}

/// The organization's entries after the first `before`, listed with a key that remains.
async fn since(world: &World, reader: &Tenant, before: usize) -> Vec<Value> {
    let mut all = entries(world, reader, json!({"limit": 100})).await;
    all.truncate(all.len() - before);
    // Entries from one transaction are in no particular order.
    all.sort_by_key(|entry| entry["action"].as_str().map(str::to_owned));
    all
}

/// Checks that the entries after the first `before` record exactly these changes, made by the user with [`AGENT`].
async fn check(world: &World, reader: &Tenant, before: usize, user: &str, expected: Value) {
    let found = since(world, reader, before).await;
    for entry in &found {
        assert_eq!((&entry["actor"]["kind"], &entry["actor"]["id"]), (&json!("user"), &json!(user)), "{entry}");
        assert_eq!((&entry["ip"], &entry["user_agent"]), (&json!("127.0.0.1"), &json!(AGENT)), "{entry}");
        assert!(entry["at"].is_string() && entry["target"]["id"].is_string(), "{entry}");
    }
    let found: Vec<_> = found
        .iter()
        .map(|entry| json!([entry["action"], entry["target"]["kind"], entry["target"]["name"], entry["changes"]]))
        .collect();
    assert_eq!(json!(found), expected);
}

async fn count(world: &World, reader: &Tenant) -> usize {
    entries(world, reader, json!({"limit": 100})).await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_recorded_with_author_client_and_fields() {
    let (world, unrecorded) = super::writes::observed().await;
    let founded = Client { world: &world, cookie: String::new() };
    let account = founded.post("/v1/auth/signupAndCreateOrg", &World::sign_up_fields("acme")).await.ok().clone();
    let user = account["userId"].as_str().expect("an id");
    let mut owner = Client { world: &world, cookie: cookie(&account) };
    let email = "jo@acme.example.com";
    let token = |link: &str| link.rsplit("token=").next().expect("a token").to_owned();
    let verifying = token(&link(&world.mail_to(email).await));
    assert_eq!(owner.submit("/verify-email", &json!({"token": verifying})).await.status, 200);
    let made = owner.post("/api/auth/api-key/create", &json!({"name": "reader", "kind": "organization"})).await.body;
    let key = made["key"].as_str().expect("a key").to_owned();
    let reader = Tenant {
        id: account["organizationId"].as_str().expect("an id").to_owned(),
        slug: "acme".to_owned(),
        user: user.to_owned(),
        email: email.to_owned(),
        cookie: owner.cookie.clone(),
        key,
    };
    let founding = json!([
        {"field": "name", "new": "Doe & Co"}, {"field": "slug", "new": "acme"},
        {"field": "debug_notification_email", "new": "ops@example.com"},
    ]);
    let expected = json!([
        ["email.verified", "user", email, []],
        ["key.created", "key", "reader", [{"field": "kind", "new": "organization"}]],
        ["organization.created", "organization", "Doe & Co", founding],
        ["session.created", "session", null, []],
    ]);
    check(&world, &reader, 0, user, expected).await;

    let invite = json!({"email": "new@example.com", "role": "member"});
    let invited = json!(["invitation.created", "invitation", "new@example.com", [{"field": "role", "new": "member"}]]);
    let canceled = json!(["invitation.canceled", "invitation", "new@example.com", []]);
    let change = |field: &str, old: &str, new: &str| json!([{"field": field, "old": old, "new": new}]);
    for (path, body, expected) in [
        (
            "update-user",
            json!({"name": "Ada"}),
            json!([["user.renamed", "user", email, change("name", "Jo Doe", "Ada")]]),
        ),
        ("update-user", json!({"name": "Ada"}), json!([])),
        (
            "organization/update",
            json!({"data": {"name": "Engines"}}),
            json!([["organization.renamed", "organization", "Doe & Co", change("name", "Doe & Co", "Engines")]]),
        ),
        ("organization/update", json!({"data": {"name": "Engines"}}), json!([])),
        (
            "/v1/tenant/settings",
            json!({"debug_notification_email": "a@example.com", "disable_job_failure_notifications": false}),
            json!([[
                "settings.changed",
                "organization",
                "Engines",
                change("debug_notification_email", "ops@example.com", "a@example.com"),
            ]]),
        ),
        (
            "/v1/tenant/settings",
            json!({"debug_notification_email": "a@example.com", "disable_job_failure_notifications": true}),
            json!([[
                "settings.changed",
                "organization",
                "Engines",
                change("disable_job_failure_notifications", "false", "true"),
            ]]),
        ),
        ("/v1/tenant/settings", json!({"disable_job_failure_notifications": true}), json!([])),
        ("organization/invite-member", invite.clone(), json!([invited])),
        ("organization/invite-member", invite.clone(), json!([canceled, invited])),
        (
            "api-key/create",
            json!({"name": "ci", "scopes": ["webhooks:read"]}),
            json!([[
                "key.created", "key", "ci",
                [{"field": "kind", "new": "personal"}, {"field": "scopes", "new": "webhooks:read"}],
            ]]),
        ),
        (
            "sign-in/email",
            json!({"email": email, "password": PASSWORD}),
            json!([["session.created", "session", null, []]]),
        ),
        ("revoke-other-sessions", json!({}), json!([["sessions.ended", "user", email, []]])),
    ] {
        let before = count(&world, &reader).await;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/auth/{path}") };
        assert_eq!(owner.post(&path, &body).await.status, 200, "{path}");
        check(&world, &reader, before, user, expected).await;
    }
    let invitations = world.cli_get(&owner.cookie, "organization/list-invitations").await.body;
    let keys = world.cli_get(&owner.cookie, "api-key/list").await.body;
    let id = |list: &Value, is_one: &dyn Fn(&Value) -> bool| {
        let found = list.as_array().expect("a list").iter().find(|entry| is_one(entry));
        found.expect("it is listed")["id"].clone()
    };
    let pending = id(&invitations, &|entry| entry["status"] == "pending");
    let ci = id(&keys, &|entry| entry["name"] == "ci");
    for (path, body, expected) in [
        ("organization/cancel-invitation", json!({"invitationId": pending}), json!([canceled])),
        ("organization/cancel-invitation", json!({"invitationId": pending}), json!([])),
        ("api-key/delete", json!({"keyId": ci}), json!([["key.deleted", "key", "ci", []]])),
    ] {
        let before = count(&world, &reader).await;
        assert_eq!(owner.post(&format!("/api/auth/{path}"), &body).await.status, 200, "{path}");
        check(&world, &reader, before, user, expected).await;
    }

    let member = world.member(&reader, "al@example.com", "member").await;
    let ended = world.get_by_key(&member.key, "api-key/list").await.body[0].clone();
    let ended = json!([{"field": "api_key", "old": format!("a member's ({})", text(&ended["id"]))}]);
    let joined = super::latest(&world, &reader, "member.joined").await;
    assert_eq!(
        (&joined["actor"]["id"], &joined["changes"][0]),
        (&json!(member.user), &json!({"field": "role", "new": "member"}))
    );
    let role = json!({"memberId": member.user, "role": "owner"});
    let changed = json!([["member.role_changed", "user", "al@example.com", change("role", "member", "owner")]]);
    for (path, body, expected) in [
        ("update-member-role", role.clone(), changed),
        ("update-member-role", role, json!([])),
        (
            "remove-member",
            json!({"memberIdOrEmail": member.user}),
            json!([["member.removed", "user", "al@example.com", ended]]),
        ),
    ] {
        let before = count(&world, &reader).await;
        assert_eq!(owner.post(&format!("/api/auth/organization/{path}"), &body).await.status, 200, "{path}");
        check(&world, &reader, before, user, expected).await;
    }

    // The address is changed, and the change is undone.
    let new = "ada@acme.example.com";
    let before = count(&world, &reader).await;
    assert_eq!(owner.post("/api/auth/change-email", &json!({"newEmail": new})).await.status, 200);
    let requested = json!([["email.requested", "user", email, [{"field": "pending_email", "new": new}]]]);
    check(&world, &reader, before, user, requested).await;
    let (changing, before) = (token(&link(&world.mail_to(new).await)), before + 1);
    assert_eq!(owner.submit("/verify-email", &json!({"token": changing})).await.status, 200);
    check(&world, &reader, before, user, json!([["email.changed", "user", email, change("email", email, new)]])).await;
    let (undoing, before) = (token(&link(&world.mail_to(email).await)), before + 1);
    let undone = owner.submit("/verify-email", &json!({"token": undoing})).await;
    assert!(undone.status < 400, "{undone:?}");
    let restored = json!([{"field": "email", "old": new, "new": email}, {"field": "password"}]);
    check(&world, &reader, before, user, json!([["email.restored", "user", new, restored]])).await;
    let restored = super::latest(&world, &reader, "email.restored").await;
    assert_eq!(restored["actor"]["email"], email, "the actor is the owner of the old address");

    // The password is reset and changed, and the sessions end one by one.
    let before = count(&world, &reader).await;
    assert_eq!(owner.post("/api/auth/request-password-reset", &json!({"email": email})).await.status, 200);
    let resetting = token(&link(&world.mail_to(email).await));
    let password = "a second long password";
    let reset = json!({"token": resetting, "newPassword": password});
    assert_eq!(owner.post("/api/auth/reset-password", &reset).await.status, 200);
    check(&world, &reader, before, user, json!([["password.reset", "user", email, [{"field": "password"}]]])).await;
    owner.cookie = world.signed_in(email, password).await;
    let before = count(&world, &reader).await;
    let third = "a third long password";
    let passwords = json!({"currentPassword": password, "newPassword": third});
    assert_eq!(owner.post("/api/auth/change-password", &passwords).await.status, 200);
    let session = json!(["session.created", "session", null, []]);
    let changed = json!([["password.changed", "user", email, [{"field": "password"}]], session]);
    check(&world, &reader, before, user, changed).await;
    owner.cookie = world.signed_in(email, third).await;
    let (other, before) = (world.signed_in(email, third).await, count(&world, &reader).await);
    let ended = json!([["session.ended", "session", null, []]]);
    let revoked = json!({"token": other.split('=').nth(1)});
    assert_eq!(owner.post("/api/auth/revoke-session", &revoked).await.status, 200);
    check(&world, &reader, before, user, ended.clone()).await;
    assert_eq!(owner.post("/api/auth/sign-out", &json!({})).await.status, 200);
    check(&world, &reader, before + 1, user, ended).await;
    assert_eq!(owner.post("/api/auth/sign-out", &json!({})).await.status, 200);
    assert_eq!(count(&world, &reader).await, before + 2, "the session had ended");

    // The second factor is set up, used and disabled.
    owner.cookie = world.signed_in(email, third).await;
    let (confirmation, before) = (json!({"password": third}), count(&world, &reader).await);
    let enrolled = owner.post("/api/auth/two-factor/enable", &confirmation).await;
    assert_eq!(enrolled.status, 200, "{enrolled:?}");
    check(&world, &reader, before, user, json!([])).await;
    let app = Authenticator::new(text(&enrolled.body["totpURI"]));
    let code = app.code(0);
    let enabled = owner.post("/api/auth/two-factor/verify-totp", &json!({"code": code})).await;
    assert_eq!(enabled.status, 200, "{enabled:?}");
    check(&world, &reader, before, user, json!([session, ["two_factor.enabled", "user", email, []]])).await;
    owner.cookie = set_cookie(&enabled, "session_token");
    let before = before + 2;
    let renewed = owner.post("/api/auth/two-factor/generate-backup-codes", &confirmation).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let codes = json!([["two_factor.codes_generated", "user", email, [{"field": "backup_codes"}]]]);
    check(&world, &reader, before, user, codes).await;
    let mut before = before + 1;
    for (old, new) in [(false, true), (true, true), (true, false)] {
        let required = owner.post("/v1/tenant/settings", &json!({"require_two_factor": new})).await;
        assert_eq!(required.status, 200, "{required:?}");
        let change = change("require_two_factor", &old.to_string(), &new.to_string());
        let expected =
            if old == new { json!([]) } else { json!([["settings.changed", "organization", "Engines", change]]) };
        check(&world, &reader, before, user, expected).await;
        before += usize::from(old != new);
    }
    let pending = world.begin_sign_in(email, third).await;
    let backup_code = text(&renewed.body["backupCodes"][0]).to_owned();
    let visitor = Client { world: &world, cookie: pending.clone() };
    let entered = visitor.post("/api/auth/two-factor/verify-backup-code", &json!({"code": backup_code})).await;
    assert_eq!(entered.status, 200, "{entered:?}");
    let by_backup_code = json!([{"field": "second_factor", "new": "backup_code"}]);
    check(&world, &reader, before, user, json!([["session.created", "session", null, by_backup_code]])).await;
    let before = before + 1;
    world.forget_used_code(user).await;
    let visitor = Client { world: &world, cookie: world.begin_sign_in(email, third).await };
    let entered = visitor.post("/api/auth/two-factor/verify-totp", &json!({"code": app.code(0)})).await;
    assert_eq!(entered.status, 200, "{entered:?}");
    let by_app = json!([{"field": "second_factor", "new": "totp"}]);
    check(&world, &reader, before, user, json!([["session.created", "session", null, by_app]])).await;
    let before = before + 1;
    let second = json!({"code": text(&renewed.body["backupCodes"][1])});
    let used = owner.post("/api/auth/two-factor/verify-backup-code", &second).await;
    assert_eq!(used.status, 200, "{used:?}");
    check(&world, &reader, before, user, json!([["two_factor.code_used", "user", email, []]])).await;
    let before = before + 1;
    let disabled = owner.post("/api/auth/two-factor/disable", &confirmation).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
    check(&world, &reader, before, user, json!([session, ["two_factor.disabled", "user", email, []]])).await;

    let secret = the_others_happen(&world, &reader).await;
    let found: BTreeSet<String> =
        world.items("audit").await.iter().map(|item| item["action"].as_s().expect("a string").clone()).collect();
    assert_eq!(found, Action::ALL.iter().map(ToString::to_string).collect());
    assert_eq!(*unrecorded.lock().expect("no panic"), Vec::<Value>::new());
    let token_of = |cookie: &str| cookie.split('=').nth(1).expect("a token").to_owned();
    let secrets = [
        PASSWORD.to_owned(),
        password.to_owned(),
        third.to_owned(),
        verifying,
        changing,
        undoing,
        resetting,
        secret,
        code,
        backup_code,
        text(&enrolled.body["totpURI"]).split_once("secret=").expect("a secret").1[..32].to_owned(),
        token_of(&pending),
        token_of(&set_cookie(&disabled, "session_token")),
        reader.key.clone(),
        token_of(&reader.cookie),
        token_of(&owner.cookie),
        token_of(&other),
    ];
    for item in world.items("audit").await {
        let text = format!("{item:?}");
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

/// Makes changes to endpoints, which have their own tests, and adds users who join and leave. Returns a signing secret.
async fn the_others_happen(world: &World, reader: &Tenant) -> String {
    let cookie = world.signed_in(&reader.email, "a third long password").await;
    let owner = Client { world, cookie };
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    let created =
        world.rpc_by_session(&owner.cookie, "webhooks/create", json!({"url": receiver.url("/")})).await.ok().clone();
    let id = &created["webhook_endpoint_id"];
    world.rpc_by_session(&owner.cookie, "webhooks/update", json!({"id": id, "description": "Ours"})).await.ok();
    world.deliver(event(&reader.id, "j")).await;
    let delivery = world.only_logged(&reader.id).await.id.to_string();
    for (route, fields) in [
        ("webhooks/test", json!({"id": id})),
        ("deliveries/resend", json!({"delivery_id": delivery})),
        ("deliveries/recover", json!({"webhook_endpoint_id": id, "since": "2026-01-01T00:00:00Z"})),
        ("deliveries/erase", json!({"job_id": "another"})),
    ] {
        world.rpc_by_session(&owner.cookie, route, fields).await.ok();
    }
    world.rpc_by_session(&owner.cookie, "webhooks/delete", json!({"id": id})).await.ok();

    // One user declines an invitation and moves later, which deletes the user's own organization.
    let mover = world.tenant("mover").await;
    let visitor = Client { world, cookie: mover.cookie.clone() };
    let invite = json!({"email": mover.email, "role": "owner"});
    let invite = async || owner.post("/api/auth/organization/invite-member", &invite).await.body["id"].clone();
    let declined = json!({"invitationId": invite().await});
    assert_eq!(visitor.post("/api/auth/organization/reject-invitation", &declined).await.status, 200);
    let entry = super::latest(world, reader, "invitation.rejected").await;
    assert_eq!(entry["actor"], json!({"kind": "user", "id": mover.user, "email": mover.email}), "no member, no name");
    assert_eq!((&entry["ip"], &entry["user_agent"]), (&Value::Null, &Value::Null));
    let accepted = json!({"invitationId": invite().await, "deleteOrganization": true});
    assert_eq!(visitor.post("/api/auth/organization/accept-invitation", &accepted).await.status, 200);
    let entry = super::latest(world, reader, "member.joined").await;
    assert_eq!((&entry["target"]["id"], &entry["ip"]), (&json!(mover.user), &json!("127.0.0.1")));
    let theirs = world.items("audit").await;
    let theirs = theirs.iter().filter(|item| item["tenant_id"].as_s() == Ok(&mover.id));
    let theirs: BTreeSet<&str> = theirs.map(|item| item["action"].as_s().expect("a string").as_str()).collect();
    assert!(theirs.contains("member.left") && theirs.contains("organization.deleted"), "{theirs:?}");
    assert_eq!(visitor.post("/api/auth/delete-user", &json!({"password": PASSWORD})).await.status, 200);
    let entry = super::latest(world, reader, "member.left").await;
    assert_eq!((&entry["actor"]["id"], &entry["target"]["name"]), (&json!(mover.user), &json!(mover.email)));
    created["signing_secret"].as_str().expect("a secret").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_page_is_recorded_as_by_the_api() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console/settings").await;
    let typed = [("debugNotificationEmail", "page@example.com"), ("jobFailureMails", "on")];
    let saved = browser.press("/console/settings", &page, "Save settings", &typed).await;
    assert_eq!(saved.status, 200);
    let entry = super::latest(&world, &tenant, "settings.changed").await;
    assert_eq!((&entry["actor"]["kind"], &entry["actor"]["id"]), (&json!("user"), &json!(tenant.user)));
    assert_eq!(entry["changes"][0]["new"], "page@example.com");
}

/// A browser login results in a session. The actor in its entry is the user who approved the login.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_browser_login_is_its_users() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    world.rpc_by_session(&tenant.cookie, "auth/cliLoginApprove", login.clone()).await.ok();
    let before = entries(&world, &tenant, json!({"limit": 100})).await.len();
    world.rpc("", "auth/cliLoginPoll", login).await.ok();
    let found = since(&world, &tenant, before).await;
    assert_eq!(
        (found.len(), &found[0]["action"], &found[0]["actor"]["id"]),
        (1, &json!("session.created"), &json!(tenant.user))
    );
}

/// All items about people and organizations, except counters.
async fn state(world: &World) -> Vec<String> {
    let mut all = world.tokens("session").await;
    for table in ["users", "organizations", "invitations", "api-keys", "audit"] {
        all.extend(world.items(table).await);
    }
    let mut all: Vec<String> =
        all.into_iter().map(|item| format!("{:?}", std::collections::BTreeMap::from_iter(item))).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_people_that_cannot_be_recorded_is_not_made() {
    let (world, switch) = World::failing(records).await;
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "al@example.com", "member").await;
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    let protected = world.protect(&world.member(&tenant, "ed@example.com", "member").await).await;
    let pending = world.begin_sign_in("ed@example.com", PASSWORD).await;
    let enrolled = world.cli(&tenant.cookie, "two-factor/enable", json!({"password": PASSWORD})).await;
    let app = Authenticator::new(text(&enrolled.body["totpURI"]));
    let before = state(&world).await;
    switch.on();
    for (route, body) in [
        ("update-user", json!({"name": "Ada"})),
        ("change-email", json!({"newEmail": "new@acme.example.com"})),
        ("change-password", json!({"currentPassword": PASSWORD, "newPassword": "another long password"})),
        ("sign-in/email", json!({"email": tenant.email, "password": PASSWORD})),
        ("sign-out", json!({})),
        ("revoke-sessions", json!({})),
        ("revoke-other-sessions", json!({})),
        ("api-key/create", json!({"name": "new"})),
        ("api-key/delete", json!({"keyId": keys[0]["id"]})),
        ("organization/update", json!({"data": {"name": "New"}})),
        ("organization/invite-member", json!({"email": "new@example.com", "role": "member"})),
        ("organization/update-member-role", json!({"memberId": member.user, "role": "owner"})),
        ("organization/remove-member", json!({"memberIdOrEmail": member.user})),
    ] {
        assert_eq!(world.cli(&tenant.cookie, route, body).await.status, 500, "{route}");
    }
    let settings = json!({"disable_job_failure_notifications": true});
    assert_eq!(world.rpc_by_session(&tenant.cookie, "tenant/settings", settings).await.status, 500);
    assert_eq!(world.rpc("", "auth/signupAndCreateOrg", World::sign_up_fields("other")).await.status, 500);
    assert_eq!(world.cli(&member.cookie, "organization/leave", json!({})).await.status, 500);
    assert_eq!(world.enter_code(&tenant.cookie, &app.code(0)).await.status, 500);
    assert_eq!(world.enter_code(&pending, &protected.app.code(0)).await.status, 500);
    for route in ["two-factor/generate-backup-codes", "two-factor/disable"] {
        assert_eq!(world.cli(&protected.cookie, route, json!({"password": PASSWORD})).await.status, 500, "{route}");
    }
    switch.off();
    assert_eq!(state(&world).await, before);
}

/// An invitation's id is enough to sign up. If entries contained the id, a thief could use a stolen key that reads the
/// log to become an owner.
#[tokio::test(flavor = "multi_thread")]
async fn no_entry_contains_the_id_of_an_invitation() {
    let world = World::start().await;
    let (owner, mover) = (world.tenant("acme").await, world.tenant("other").await);
    let invite = async |email: &str| {
        let fields = json!({"email": email, "role": "owner"});
        world.cli(&owner.cookie, "organization/invite-member", fields).await.body["id"].clone()
    };
    invite("new@example.com").await;
    let canceled = json!({"invitationId": invite("new@example.com").await});
    assert_eq!(world.cli(&owner.cookie, "organization/cancel-invitation", canceled).await.status, 200);
    let declined = json!({"invitationId": invite(&mover.email).await});
    assert_eq!(world.cli(&mover.cookie, "organization/reject-invitation", declined).await.status, 200);
    let accepted = json!({"invitationId": invite(&mover.email).await, "deleteOrganization": true});
    assert_eq!(world.cli(&mover.cookie, "organization/accept-invitation", accepted).await.status, 200);
    world.member(&owner, "al@example.com", "owner").await;
    invite("last@example.com").await;

    let invitations = world.items("invitations").await;
    let ids = invitations.iter().filter(|item| item.contains_key("status"));
    let ids: Vec<_> = ids.map(|item| item["invitation_id"].as_s().expect("a string").clone()).collect();
    assert_eq!(ids.len(), 6);
    for item in world.items("audit").await {
        let text = format!("{item:?}");
        assert!(ids.iter().all(|id| !text.contains(id)), "{text}");
    }
    let key = world.key(&owner.cookie, json!({"scopes": ["audit:read"]})).await;
    let listed = world.rpc(&key, "audit/list", json!({"action": "invitation.created", "limit": 1})).await;
    let target = json!({"kind": "invitation", "id": "last@example.com", "name": "last@example.com"});
    assert_eq!(listed.ok()["entries"][0]["target"], target);
}

/// A browser may send a string that is not ASCII.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_agent_with_other_bytes_is_recorded() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let agent = reqwest::header::HeaderValue::from_bytes("caf\u{e9}/1".as_bytes()).expect("a value");
    let rename = world.http.post(world.url("/api/auth/update-user")).json(&json!({"name": "Ada"}));
    let rename = rename.header("cookie", &tenant.cookie).header("origin", world.stack.api());
    assert_eq!(world.send(rename.header(USER_AGENT, agent)).await.status, 200);
    assert_eq!(super::latest(&world, &tenant, "user.renamed").await["user_agent"], "caf\u{e9}/1");
}

/// The changes that name keys in the newest entry for `action`.
async fn ended_keys(world: &World, reader: &Tenant, action: &str) -> Vec<Value> {
    let entry = super::latest(world, reader, action).await;
    let changes = entry["changes"].as_array().expect("changes").iter();
    changes.filter(|change| change["field"] == "api_key").map(|change| change["old"].clone()).collect()
}

/// Personal keys stop working when the user's membership ends or a reset begins a new epoch, without a separate entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_ends_personal_keys_names_them() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let owner_key = json!({"kind": "organization"});
    let member = async |name: &str| {
        let user = world.member(&acme, &format!("{name}@example.com"), "owner").await;
        world.key(&user.cookie, owner_key.clone()).await;
        world.key(&user.cookie, json!({"expiresIn": 60})).await;
        let listed = world.get_by_key(&user.key, "api-key/list").await.body;
        let theirs = listed
            .as_array()
            .expect("keys")
            .iter()
            .filter(|key| key["kind"] == "personal" && key["createdBy"]["id"] == user.user.as_str());
        let named = theirs.map(|key| json!(format!("{} ({})", text(&key["name"]), text(&key["id"]))));
        let named: Vec<_> = named.collect();
        assert_eq!(named.len(), 2);
        (user, named)
    };
    let (bo, keys) = member("bo").await;
    world.cli("", "request-password-reset", json!({"email": bo.email})).await;
    let token = link(&world.mail_to(&bo.email).await).rsplit("token=").next().expect("a token").to_owned();
    let reset = json!({"token": token, "newPassword": PASSWORD});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    assert_eq!(ended_keys(&world, &acme, "password.reset").await, keys);

    // Keys that ended earlier or have expired are not listed again.
    let cookie = world.signed_in(&bo.email, PASSWORD).await;
    world.key(&cookie, json!({"expiresIn": 60})).await;
    let is_temporary =
        |item: &tests::world::tables::Item| item.contains_key("expires_at") && item.contains_key("key_id");
    world.set_where("api-keys", is_temporary, &json!({"expires_at": "2026-01-31T12:00:00.000Z"})).await;
    assert_eq!(world.cli(&cookie, "organization/leave", json!({})).await.status, 200);
    assert!(ended_keys(&world, &acme, "member.left").await.is_empty());

    let (cy, keys) = member("cy").await;
    assert_eq!(world.cli(&cy.cookie, "organization/leave", json!({})).await.status, 200);
    assert_eq!(ended_keys(&world, &acme, "member.left").await, keys);

    let (di, keys) = member("di").await;
    let removal = json!({"memberIdOrEmail": di.user});
    assert_eq!(world.cli(&acme.cookie, "organization/remove-member", removal).await.status, 200);
    assert_eq!(ended_keys(&world, &acme, "member.removed").await, keys);

    let (ed, keys) = member("ed").await;
    let invited = world.cli(&other.cookie, "organization/invite-member", json!({"email": ed.email, "role": "member"}));
    let accepted = json!({"invitationId": invited.await.body["id"]});
    assert_eq!(world.cli(&ed.cookie, "organization/accept-invitation", accepted).await.status, 200);
    assert_eq!(ended_keys(&world, &acme, "member.left").await, keys);
    assert!(ended_keys(&world, &other, "member.joined").await.is_empty());

    let (flo, keys) = member("flo").await;
    world.cli(&flo.cookie, "change-email", json!({"newEmail": "new@example.com"})).await;
    assert_eq!(world.confirm(&link(&world.mail_to("new@example.com").await)).await.status, 200);
    world.confirm(&link(&world.mail_to(&flo.email).await)).await;
    assert_eq!(ended_keys(&world, &acme, "email.restored").await, keys);
    let listed = world.cli_get(&acme.cookie, "api-key/list").await.body;
    let listed = listed.as_array().expect("keys").iter();
    assert_eq!(listed.filter(|key| key["kind"] == "personal").count(), 1, "ended keys are deleted");
}
