//! Polling by a client, which gets the session only once.

use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::{Client, types::AttributeValue};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, World, at_each_call, text,
    world::{link, people::PASSWORD},
};
use tokio::{runtime::Handle, task::block_in_place};

use super::{approve, approved, create, expired, pending, poll};

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
    // If a response is lost, repeating the call returns the same response.
    for _ in 0..2 {
        let done = approve(&world, &tenant.cookie, &login).await;
        assert_eq!(done.ok(), &json!({"status": "approved", "email": tenant.email}));
    }
    let tokens = format!("{:?}", world.items("tokens").await);
    assert!(tokens.contains(login["requestId"].as_str().expect("an id")));
    assert!(!tokens.contains(login["secret"].as_str().expect("a secret")), "only its hash is stored");

    let answer = poll_as_cli().await;
    assert!(!answer.headers.contains_key("set-cookie"), "a page that polls cannot sign a browser in");
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
    assert!(world.is_signed_in(&tenant.cookie).await, "the browser stays signed in");
    assert_eq!(world.cli(&cookie, "sign-out", json!({})).await.status, 200);
    assert!(!world.is_signed_in(&cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_wrong_expired_and_used_requests_look_the_same() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (login, other) = (create(&world).await, create(&world).await);
    let used = approved(&world, &tenant.cookie).await;
    assert_eq!(poll(&world, &used).await["status"], "approved");
    let dead = create(&world).await;
    let dead_and_approved = approved(&world, &tenant.cookie).await;
    for dead in [&dead, &dead_and_approved] {
        let now = common::timestamp::Timestamp::now().as_second();
        world.set("tokens", ("request_id", text(&dead["requestId"])), json!({"expires_at": now})).await;
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
    // None of these calls changed the requests or the other tokens.
    for login in [&login, &other] {
        assert_eq!(poll(&world, login).await, pending());
    }
    assert!(world.is_signed_in(&tenant.cookie).await);
    let secret = login["secret"].as_str().expect("a secret");
    assert!(!world.is_signed_in(&format!("session_token={secret}")).await);
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
async fn one_of_several_concurrent_polls_gets_the_session() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for round in 1..=12 {
        let login = approved(&world, &tenant.cookie).await;
        let answers = join_all((0..8).map(|_| poll(&world, &login))).await;
        let got: Vec<_> = answers.iter().filter_map(|answer| answer["cookieHeader"].as_str()).collect();
        assert_eq!(got.len(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| **answer == expired()).count(), 7, "{answers:?}");
        assert!(world.is_signed_in(got[0]).await);
        assert_eq!(world.tokens("session").await.len(), 1 + round, "and the one from the sign-up");
        assert!(world.tokens("cli_login").await.is_empty());
    }
}

/// All the user's sessions end after the poll has read the user and before it stores the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_begins_during_the_end_of_all_is_void() {
    let direct: Arc<OnceLock<Client>> = Arc::default();
    let tables = Arc::clone(&direct);
    let world = World::answering(&[], move |call| {
        if call.operation == "TransactWriteItems" && call.body.to_string().contains("approved_by") {
            let tables = tables.get().expect("set").clone();
            block_in_place(|| Handle::current().block_on(end_all_sessions(&tables)));
        }
        None
    })
    .await;
    direct.set(world.stack.dynamodb_client()).expect("set once");
    let tenant = world.tenant("acme").await;
    let login = approved(&world, &tenant.cookie).await;
    let answer = poll(&world, &login).await;
    assert!(!world.is_signed_in(answer["cookieHeader"].as_str().expect("a cookie")).await);
}

/// Ends the sessions of all users, as a password reset does.
pub(crate) async fn end_all_sessions(tables: &Client) {
    let users = tables.scan().table_name("users").send().await.expect("the users");
    for user in users.items().iter().filter(|item| item.contains_key("session_epoch")) {
        let update = tables.update_item().table_name("users").key("pk", user["pk"].clone());
        let update = update.update_expression("ADD session_epoch :one");
        let update = update.expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
        update.send().await.expect("the update succeeds");
    }
}

/// A call fails three times, which is the maximum number of tries. Another poll then gets the session, or shows that
/// only the response was lost. A request never results in two sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_may_die_at_any_call_of_a_poll() {
    let lives = (0..4).flat_map(|call| [(call, false), (call, true)]).map(async |(call, takes_effect)| {
        let (world, cut_off) = World::cut_off().await;
        let tenant = world.tenant("acme").await;
        let login = create(&world).await;
        assert_eq!(poll(&world, &login).await, pending());
        assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200);
        cut_off.fail(call..call + 3, takes_effect);
        let failed = world.rpc("", "auth/cliLoginPoll", login.clone()).await;
        assert_eq!(failed.status, 500, "{call} {failed:?}");
        let next = poll(&world, &login).await;
        assert_eq!(world.tokens("session").await.len(), 2, "and the one from the sign-up");
        assert_eq!(poll(&world, &login).await, expired());
        next["status"].clone()
    });
    let mut expected = vec![json!("approved"); 8];
    // The last failing call, the transaction, took effect.
    expected[7] = json!("expired");
    assert_eq!(join_all(lives).await, expected);
}

/// After a single lost response, the call is repeated and takes effect once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_is_recovered() {
    let lives = at_each_call(0.., async |call| {
        let (world, cut_off) = World::cut_off().await;
        let tenant = world.tenant("acme").await;
        let login = create(&world).await;
        assert_eq!(poll(&world, &login).await, pending());
        cut_off.fail(call..call + 1, true);
        assert_eq!(approve(&world, &tenant.cookie, &login).await.status, 200, "{call}");
        let answer = poll(&world, &login).await;
        assert_eq!(answer["status"], "approved", "{call}");
        let has_died = cut_off.is_reached();
        assert!(world.is_signed_in(text(&answer["cookieHeader"])).await);
        assert_eq!(world.tokens("session").await.len(), 2);
        (has_died, ())
    })
    .await;
    assert!(lives.calls() >= 4, "{}", lives.calls());
}
