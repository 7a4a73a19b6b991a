//! Signing a command-line client in by the browser, and asking who is signed in.

use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, Interceptor, Tenant, World,
    world::{cookie, link},
};
use tokio::{runtime::Handle, task::block_in_place};

use crate::{
    accounts::password_reset::{set, stored},
    endpoints::test_event::failing,
};

const PASSWORD: &str = "correct horse battery";

/// Makes a request, and returns the fields that name it.
async fn create(world: &World) -> Value {
    let created = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    json!({"requestId": created["requestId"], "secret": created["secret"]})
}

async fn poll(world: &World, login: &Value) -> Value {
    world.rpc("", "auth/cliLoginPoll", login.clone()).await.ok().clone()
}

async fn approve(world: &World, cookie: &str, login: &Value) -> Answer {
    world.rpc_by_session(cookie, "auth/cliLoginApprove", login.clone()).await
}

/// A request that `cookie` has approved.
async fn approved(world: &World, cookie: &str) -> Value {
    let login = create(world).await;
    assert_eq!(approve(world, cookie, &login).await.ok()["status"], "approved");
    login
}

async fn is_signed_in(world: &World, cookie: &str) -> bool {
    world.session(cookie).await.body != Value::Null
}

/// Signs in, and returns the cookie.
async fn sign_in(world: &World, tenant: &Tenant, password: &str) -> String {
    let answer = world.cli("", "sign-in/email", json!({"email": tenant.email, "password": password})).await;
    format!("session_token={}", answer.body["token"].as_str().expect("a token"))
}

fn expired() -> Value {
    json!({"status": "expired"})
}

fn pending() -> Value {
    json!({"status": "pending"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_signed_in_by_the_browser() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc("", "auth/cliLoginCreate", json!({})).await;
    assert_eq!(created.headers["cache-control"], "no-store");
    let names: Vec<_> = created.ok().as_object().expect("fields").keys().collect();
    assert_eq!(names, ["expiresAt", "requestId", "secret"]);
    let login = json!({"requestId": created.json()["requestId"], "secret": created.json()["secret"]});
    let expires_at: common::timestamp::Timestamp =
        created.json()["expiresAt"].as_str().expect("a time").parse().expect("a time");
    assert!((590..=600).contains(&(expires_at.as_second() - common::timestamp::Timestamp::now().as_second())));
    for _ in 0..2 {
        assert_eq!(poll(&world, &login).await, pending());
    }
    let request = world.http.post(world.url("/v1/auth/cliLoginPoll")).header("user-agent", "cli/1.0");
    let poll_as_cli = async || world.send(request.try_clone().expect("no body").json(&json!({"json": login}))).await;
    // Whoever repeats it, because an answer was lost, gets the same.
    for _ in 0..2 {
        let done = approve(&world, &tenant.cookie, &login).await;
        assert_eq!(done.ok(), &json!({"status": "approved", "email": tenant.email}));
    }
    let tokens = format!("{:?}", world.items("tokens").await);
    assert!(tokens.contains(login["requestId"].as_str().expect("an id")));
    assert!(!tokens.contains(login["secret"].as_str().expect("a secret")), "only its hash is stored");

    let answer = poll_as_cli().await;
    assert!(!answer.headers.contains_key("set-cookie"), "a page that polls signs no browser in");
    assert_eq!(answer.headers["cache-control"], "no-store");
    let cookie = answer.ok()["cookieHeader"].as_str().expect("a cookie").to_owned();
    let expires_at = answer.json()["sessionExpiresAt"].clone();
    assert_eq!(
        answer.json(),
        &json!({
            "status": "approved", "cookieHeader": cookie, "userId": tenant.user, "email": tenant.email,
            "emailVerified": true, "sessionExpiresAt": expires_at,
        })
    );
    let session = world.session(&cookie).await.body;
    assert_eq!((&session["user"]["id"], &session["session"]["expiresAt"]), (&json!(tenant.user), &expires_at));
    assert_eq!(world.cli(&cookie, "api-key/create", json!({"name": "by the client"})).await.status, 200);
    assert_eq!(
        world.rpc_by_session(&cookie, "auth/status", json!({})).await.ok(),
        &json!({
            "userId": tenant.user, "email": tenant.email, "emailVerified": true, "hasTenant": true, "tenantId": tenant.id,
        })
    );
    let sessions = world.cli_get(&cookie, "list-sessions").await.body;
    assert_eq!((&sessions[0]["id"], &sessions[0]["userAgent"]), (&session["session"]["id"], &json!("cli/1.0")));

    assert_eq!(poll_as_cli().await.ok(), &expired());
    assert_eq!(approve(&world, &tenant.cookie, &login).await.error(), (404, "NOT_FOUND", ""));
    assert_eq!(poll(&world, &login).await, expired());
    assert!(is_signed_in(&world, &tenant.cookie).await, "the browser stays signed in");
    assert_eq!(world.cli(&cookie, "sign-out", json!({})).await.status, 200);
    assert!(!is_signed_in(&world, &cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signs_up_in_the_browser_is_signed_in_once_the_address_is_verified() {
    let world = World::start().await;
    let login = create(&world).await;
    let account = world.sign_up("acme").await;
    let done = approve(&world, &cookie(&account), &login).await;
    assert_eq!(done.ok(), &json!({"status": "pending_verification", "email": "jo@acme.example.com"}));
    for _ in 0..2 {
        assert_eq!(poll(&world, &login).await, pending());
    }
    assert_eq!(stored(&world, "session").await.len(), 1);
    let status = world.rpc_by_session(&cookie(&account), "auth/status", json!({})).await;
    assert_eq!(status.ok()["emailVerified"], false);
    assert_eq!(world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await.status, 200);
    let answer = poll(&world, &login).await;
    assert_eq!((&answer["status"], &answer["emailVerified"]), (&json!("approved"), &json!(true)));
    assert!(is_signed_in(&world, answer["cookieHeader"].as_str().expect("a cookie")).await);
    assert_eq!(poll(&world, &login).await, expired());
    // What ends all sessions ends the waiting, too.
    let (login, account) = (create(&world).await, world.sign_up("other").await);
    assert_eq!(approve(&world, &cookie(&account), &login).await.status, 200);
    assert_eq!(world.cli(&cookie(&account), "revoke-other-sessions", json!({})).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_tells_unknown_wrong_expired_and_used_requests_apart() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (login, other) = (create(&world).await, create(&world).await);
    let used = approved(&world, &tenant.cookie).await;
    assert_eq!(poll(&world, &used).await["status"], "approved");
    let dead = create(&world).await;
    let dead_and_approved = approved(&world, &tenant.cookie).await;
    for dead in [&dead, &dead_and_approved] {
        let mut items = stored(&world, "cli_login").await;
        items.retain(|item| item["request_id"].as_s().ok().map(String::as_str) == dead["requestId"].as_str());
        let now = common::timestamp::Timestamp::now().as_second();
        let update = world.stack.dynamodb_client().update_item().table_name("tokens");
        let update =
            update.key("token_hash", items[0]["token_hash"].clone()).update_expression("SET expires_at = :now");
        let now = AttributeValue::N(now.to_string());
        update.expression_attribute_values(":now", now).send().await.expect("it is stored");
    }
    let session = tenant.cookie.trim_start_matches("session_token=");
    let reset = async {
        world.rpc("", "auth/requestPasswordReset", json!({"email": tenant.email})).await.ok();
        link(&world.mail_to(&tenant.email).await).rsplit('=').next().expect("a token").to_owned()
    };
    let reset = reset.await;
    let with = |id: &Value, secret: &Value| json!({"requestId": id, "secret": secret});
    let strangers = [
        with(&login["requestId"], &other["secret"]),
        with(&other["requestId"], &login["secret"]),
        with(&login["requestId"], &json!("A".repeat(43))),
        with(&json!("01890f3e-7b5a-7cc0-8000-000000000000"), &login["secret"]),
        with(&login["requestId"], &json!(session)),
        with(&login["requestId"], &json!(reset)),
        used,
        dead,
        dead_and_approved,
    ];
    let (mut polls, mut approvals) = (Vec::new(), Vec::new());
    for stranger in &strangers {
        let describe = |answer: Answer| {
            let names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
            (answer.status, names, answer.body)
        };
        polls.push(describe(world.rpc("", "auth/cliLoginPoll", stranger.clone()).await));
        approvals.push(describe(approve(&world, &tenant.cookie, stranger).await));
    }
    assert_eq!((polls[0].0, &polls[0].2), (200, &json!({"json": {"status": "expired"}})));
    assert_eq!((approvals[0].0, &approvals[0].2["json"]["code"]), (404, &json!("NOT_FOUND")));
    assert!(polls.iter().all(|answer| *answer == polls[0]), "{polls:?}");
    assert!(approvals.iter().all(|answer| *answer == approvals[0]), "{approvals:?}");
    // None of this did anything to the requests, or to what the other tokens are for.
    for login in [&login, &other] {
        assert_eq!(poll(&world, login).await, pending());
    }
    assert!(is_signed_in(&world, &tenant.cookie).await);
    let secret = login["secret"].as_str().expect("a secret");
    assert!(!is_signed_in(&world, &format!("session_token={secret}")).await);
    let as_reset = json!({"token": secret, "newPassword": PASSWORD});
    assert_eq!(world.cli("", "reset-password", as_reset).await.body["code"], "INVALID_TOKEN");
    world.cli(&format!("session_token={secret}"), "sign-out", json!({})).await;
    assert_eq!(poll(&world, &login).await, pending());
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_get_all_their_issues() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let login = create(&world).await;
    for (fields, issues) in [
        (json!({}), vec![("requestId", "invalid_type"), ("secret", "invalid_type")]),
        (json!({"requestId": login["requestId"], "secret": ""}), vec![("secret", "invalid_format")]),
        (json!({"requestId": login["requestId"], "secret": [login["secret"]]}), vec![("secret", "invalid_type")]),
        (json!({"requestId": "x", "secret": login["secret"]}), vec![("requestId", "invalid_format")]),
        (
            json!({"requestId": null, "secret": "a".repeat(44)}),
            vec![("requestId", "invalid_type"), ("secret", "invalid_format")],
        ),
    ] {
        let polled = world.rpc("", "auth/cliLoginPoll", fields.clone()).await;
        assert_eq!((polled.error(), polled.issues()), ((400, "BAD_REQUEST", ""), issues.clone()));
        let approval = approve(&world, &tenant.cookie, &fields).await;
        assert_eq!((approval.status, approval.issues()), (400, issues));
    }
    assert_eq!(poll(&world, &login).await, pending());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_polls_at_once_one_gets_the_session() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for round in 1..=12 {
        let login = approved(&world, &tenant.cookie).await;
        let answers = join_all((0..8).map(|_| poll(&world, &login))).await;
        let got: Vec<_> = answers.iter().filter_map(|answer| answer["cookieHeader"].as_str()).collect();
        assert_eq!(got.len(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| **answer == expired()).count(), 7, "{answers:?}");
        assert!(is_signed_in(&world, got[0]).await);
        assert_eq!(stored(&world, "session").await.len(), 1 + round, "and that of the sign-up");
        assert!(stored(&world, "cli_login").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_users_who_approve_at_once_one_does() {
    let world = World::start().await;
    let mut tenants = Vec::new();
    for slug in ["acme", "other", "third"] {
        tenants.push(world.tenant(slug).await);
    }
    for _ in 0..8 {
        let login = create(&world).await;
        let answers = join_all(tenants.iter().map(|tenant| approve(&world, &tenant.cookie, &login))).await;
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        let winner = statuses.iter().position(|status| *status == 200).expect("one of them");
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404, 404]);
        for (place, tenant) in tenants.iter().enumerate() {
            assert_eq!(approve(&world, &tenant.cookie, &login).await.status == 200, place == winner, "again");
        }
        assert_eq!(poll(&world, &login).await["userId"], tenants[winner].user);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_all_sessions_ends_an_approval() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let member = world.member(&tenant, "al@example.com", "member").await;
    let others = approved(&world, &other.cookie).await;

    let login = approved(&world, &tenant.cookie).await;
    assert_eq!(world.cli(&tenant.cookie, "revoke-other-sessions", json!({})).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
    // Whoever approves again means it.
    assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);

    let changed = json!({"currentPassword": PASSWORD, "newPassword": "a longer password"});
    let changed = world.cli(&tenant.cookie, "change-password", changed).await;
    assert_eq!(poll(&world, &login).await, expired());
    let cookie = format!("session_token={}", changed.body["token"].as_str().expect("a token"));
    assert_eq!(approve(&world, &cookie, &login).await.status, 200);

    world.rpc("", "auth/requestPasswordReset", json!({"email": tenant.email})).await.ok();
    let mail = link(&world.mail_to(&tenant.email).await);
    let reset = json!({"token": mail.rsplit('=').next(), "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
    assert_eq!(approve(&world, &other.cookie, &login).await.status, 404, "nor does it become somebody else's");

    let login = approved(&world, &member.cookie).await;
    let cookie = sign_in(&world, &tenant, "a new long password").await;
    let removed = json!({"memberIdOrEmail": member.email});
    assert_eq!(world.cli(&cookie, "organization/remove-member", removed).await.status, 200);
    assert_eq!(poll(&world, &login).await, expired());
    // Not even for whoever has the address now.
    world.member(&Tenant { cookie, ..tenant }, "al@example.com", "member").await;
    assert_eq!(poll(&world, &login).await, expired());

    assert_eq!(poll(&world, &others).await["userId"], other.user);
}

/// To sign out ends the session that approved, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_outlives_the_session_that_gave_it() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let login = approved(&world, &tenant.cookie).await;
    assert_eq!(world.cli(&tenant.cookie, "sign-out", json!({})).await.status, 200);
    let answer = poll(&world, &login).await;
    assert!(is_signed_in(&world, answer["cookieHeader"].as_str().expect("a cookie")).await);
}

/// All sessions of the user end after the poll has looked at the user, and before it stores the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_begins_as_all_are_ended_has_ended() {
    let direct: Arc<OnceLock<Client>> = Arc::default();
    let tables = Arc::clone(&direct);
    let tables = Interceptor::start(move |operation, call| {
        if operation == "TransactWriteItems" && call.to_string().contains("approved_by") {
            let tables = tables.get().expect("set").clone();
            block_in_place(|| Handle::current().block_on(end_all_sessions(&tables)));
        }
        None
    })
    .await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    direct.set(world.stack.dynamodb_client()).expect("set once");
    let tenant = world.tenant("acme").await;
    let login = approved(&world, &tenant.cookie).await;
    let answer = poll(&world, &login).await;
    assert!(!is_signed_in(&world, answer["cookieHeader"].as_str().expect("a cookie")).await);
}

async fn end_all_sessions(tables: &Client) {
    let users = tables.scan().table_name("users").send().await.expect("the users");
    for user in users.items().iter().filter(|item| item.contains_key("session_epoch")) {
        let update = tables.update_item().table_name("users").key("pk", user["pk"].clone());
        let update = update.update_expression("ADD session_epoch :one");
        let update = update.expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        update.send().await.expect("it is updated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_from_a_trusted_page_approves() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let login = create(&world).await;
    for (route, fields) in [("auth/cliLoginApprove", &login), ("auth/status", &json!({}))] {
        assert_eq!(world.rpc("", route, fields.clone()).await.error(), (401, "UNAUTHORIZED", ""));
        let by_key = world.rpc(&tenant.key, route, fields.clone()).await;
        assert_eq!(by_key.error(), (401, "UNAUTHORIZED", ""));
        assert!(by_key.json()["message"].as_str().is_some_and(|message| message.starts_with("Sign in first")));
        let request = || world.http.post(world.url(&format!("/v1/{route}"))).json(&json!({"json": fields}));
        for origin in [Some("https://evil.example.com"), Some("null"), None] {
            let request = request().header("cookie", &tenant.cookie);
            let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
            assert_eq!(world.send(request).await.error(), (403, "FORBIDDEN", ""), "{route}: {origin:?}");
        }
        // A foreign page does not get around it by adding a key.
        let both = request().header("cookie", &tenant.cookie).header("x-api-key", "ak_x");
        let both = both.header("origin", "https://evil.example.com");
        assert_eq!(world.send(both).await.status, 401);
    }
    assert_eq!(poll(&world, &login).await, pending());
    assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);
    // Foreign pages can neither make requests from somebody's address nor fetch sessions.
    for (route, fields) in [("auth/cliLoginCreate", json!({})), ("auth/cliLoginPoll", login.clone())] {
        let request = world.http.post(world.url(&format!("/v1/{route}"))).json(&json!({"json": fields}));
        let foreign = world.send(request.header("origin", "https://evil.example.com")).await;
        assert_eq!(foreign.error(), (403, "FORBIDDEN", ""), "{route}");
    }
    assert_eq!(poll(&world, &login).await["status"], "approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_makes_a_hundred_requests_an_hour() {
    let world = World::start().await;
    let login = create(&world).await;
    set(&world, "cli_login_client", "attempts", 98).await;
    let answers = join_all((0..6).map(|_| world.rpc("", "auth/cliLoginCreate", json!({})))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 2, "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status != 200).expect("four of them");
    assert_eq!(refused.error(), (429, "TOO_MANY_REQUESTS", ""));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(stored(&world, "cli_login").await.len(), 3);
    assert_eq!(poll(&world, &login).await, pending(), "what was made goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_polled_sixty_times_a_minute() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (login, other) = (approved(&world, &tenant.cookie).await, create(&world).await);
    assert_eq!(poll(&world, &other).await, pending());
    set(&world, "cli_login_poll", "attempts", 58).await;
    let answers = join_all((0..6).map(|_| world.rpc("", "auth/cliLoginPoll", other.clone()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 2, "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status != 200).expect("four of them");
    assert_eq!(refused.error(), (429, "TOO_MANY_REQUESTS", ""));
    let seconds: i64 = refused.headers["retry-after"].to_str().expect("a text").parse().expect("seconds");
    assert!((1..=60).contains(&seconds));
    assert_eq!(poll(&world, &login).await["status"], "approved", "others are not held up");
    let mut strangers = other.clone();
    strangers["secret"] = json!("A".repeat(43));
    assert_eq!(poll(&world, &strangers).await, expired(), "and a stranger does not learn of it");
    assert_eq!(stored(&world, "cli_login_poll").await.len(), 2);
    // A minute later.
    set(&world, "cli_login_poll", "expires_at", common::timestamp::Timestamp::now().as_second()).await;
    assert_eq!(poll(&world, &other).await, pending());
}

/// A call fails three times, which is as often as it is tried. Polling again gets the session, or shows that it was given
/// away when only the answer was lost; and there is never a second one.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_at_any_call_of_a_poll() {
    let start = async |fails, takes_effect| {
        let (world, tables, proxy) = failing(fails, takes_effect).await;
        let tenant = world.tenant("acme").await;
        let login = create(&world).await;
        assert_eq!(poll(&world, &login).await, pending());
        assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);
        (world, tables, proxy, login)
    };
    let (_world, _tables, proxy, _) = start(u64::MAX..u64::MAX, false).await;
    let before = proxy.calls();
    let lives = (0..4).flat_map(|call| [(call, false), (call, true)]).map(async |(call, takes_effect)| {
        let (world, _tables, _proxy, login) = start(before + call..before + call + 3, takes_effect).await;
        let failed = world.rpc("", "auth/cliLoginPoll", login.clone()).await;
        assert_eq!(failed.status, 500, "{call} {failed:?}");
        let next = poll(&world, &login).await;
        assert_eq!(stored(&world, "session").await.len(), 2, "and that of the sign-up");
        assert_eq!(poll(&world, &login).await, expired());
        next["status"].clone()
    });
    let mut expected = vec![json!("approved"); 8];
    // The last call, the transaction, took effect.
    expected[7] = json!("expired");
    assert_eq!(join_all(lives).await, expected);
}

/// If only one answer is lost, the call is repeated, and what it did counts once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_made_up_for() {
    let start = async |fails| {
        let (world, tables, proxy) = failing(fails, true).await;
        let tenant = world.tenant("acme").await;
        let login = create(&world).await;
        assert_eq!(poll(&world, &login).await, pending());
        (world, tables, proxy, tenant, login)
    };
    let (world, _tables, proxy, tenant, login) = start(u64::MAX..u64::MAX).await;
    let before = proxy.calls();
    assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);
    assert_eq!(poll(&world, &login).await["status"], "approved");
    for call in before..proxy.calls() {
        let (world, _tables, _proxy, tenant, login) = start(call..call + 1).await;
        assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200, "{}", call - before);
        let answer = poll(&world, &login).await;
        assert_eq!(answer["status"], "approved", "{}", call - before);
        assert!(is_signed_in(&world, answer["cookieHeader"].as_str().expect("a cookie")).await);
        assert_eq!(stored(&world, "session").await.len(), 2);
    }
}
