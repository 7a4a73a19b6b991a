//! Signing in and out.

use serde_json::{Value, json};
use tests::{
    World, sample_event,
    world::{cookie, people::PASSWORD as RIGHT, tables::Item},
};

const EMAIL: &str = "jo@acme.example.com";
const WRONG: &str = "wrong horse battery";

/// Signs in from a public IP address. Returns the status and the `Retry-After`.
async fn sign_in_from(world: &World, client: &str, password: &str) -> (u64, Option<i64>) {
    let mut event = sample_event("auth-cli");
    event["rawPath"] = json!("/api/auth/sign-in/email");
    event["requestContext"]["http"]["method"] = json!("POST");
    event["requestContext"]["http"]["sourceIp"] = json!(client);
    event["body"] = json!(json!({"email": EMAIL, "password": password}).to_string());
    // Any client can send this header; API Gateway only appends to it.
    event["headers"]["x-forwarded-for"] = json!(format!("{}, {client}", uuid::Uuid::now_v7()));
    event.as_object_mut().expect("an object").remove("cookies");
    let answer = world.stack.invoke("auth-cli", event).await.expect("an answer");
    let wait = answer["headers"]["retry-after"].as_str().map(|wait| wait.parse().expect("seconds"));
    (answer["statusCode"].as_u64().expect("a status"), wait)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_wrong_credentials_get_the_same_response() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let mut bodies = Vec::new();
    for (email, password) in [
        ("jo@acme.example.com", "wrong horse battery"),
        ("nobody@example.com", "correct horse battery"),
        ("no address", "correct horse battery"),
        ("", "correct horse battery"),
        ("jo@acme.example.com", ""),
        ("jo@acme.example.com", &"x".repeat(10_000)),
        ("jo@acme.example.com", "Correct horse battery"),
    ] {
        let answer = world.sign_in(email, password).await;
        assert_eq!((answer.status, &answer.body["code"]), (401, &json!("INVALID_EMAIL_OR_PASSWORD")), "{email}");
        assert!(!answer.headers.contains_key("set-cookie"));
        bodies.push(answer.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_fields_are_issues() {
    let world = World::start().await;
    for body in [json!({}), json!({"email": "a@b"}), json!({"email": 7, "password": "correct horse"}), Value::Null] {
        let answer = world.cli("", "sign-in/email", body).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("BAD_REQUEST")), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_eleventh_sign_in_in_ten_minutes_is_refused() {
    let world = World::start().await;
    let live = cookie(&world.sign_up("acme").await);
    for _ in 0..10 {
        assert_eq!(world.sign_in("jo@acme.example.com", "wrong horse battery").await.status, 401);
    }
    for password in ["wrong horse battery", "correct horse battery"] {
        let refused = world.sign_in("JO@acme.example.com", password).await;
        assert_eq!((refused.status, &refused.body["code"]), (429, &json!("TOO_MANY_REQUESTS")));
        let wait: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
        assert!((1..=600).contains(&wait), "{wait}");
    }
    assert_eq!(world.session(&live).await.body["user"]["email"], "jo@acme.example.com");
    assert_eq!(world.sign_in("somebody@else.example.com", "wrong horse battery").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_counts_once_if_its_response_is_lost() {
    let world = World::repeating(&[]).await;
    world.sign_up("acme").await;
    for _ in 0..10 {
        assert_eq!(world.sign_in(EMAIL, WRONG).await.status, 401);
    }
    assert_eq!(world.sign_in(EMAIL, WRONG).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_elsewhere_cannot_lock_a_user_out() {
    let world = World::start().await;
    world.sign_up("acme").await;
    for _ in 0..10 {
        assert_eq!(sign_in_from(&world, "203.0.113.7", WRONG).await.0, 401);
    }
    let (status, wait) = sign_in_from(&world, "203.0.113.7", RIGHT).await;
    assert!(status == 429 && wait.is_some_and(|wait| (1..=600).contains(&wait)), "{status} {wait:?}");
    assert_eq!(sign_in_from(&world, "198.51.100.1", RIGHT).await.0, 200);
    assert_eq!(
        sign_in_from(&world, "203.0.113.7", RIGHT).await.0,
        429,
        "a sign-in from another client does not reset the stranger's count"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ipv6_network_is_one_client() {
    let world = World::start().await;
    world.sign_up("acme").await;
    for host in 1..=10 {
        assert_eq!(sign_in_from(&world, &format!("2001:db8:1:2::{host}"), WRONG).await.0, 401);
    }
    assert_eq!(sign_in_from(&world, "2001:db8:1:2:ffff::1", WRONG).await.0, 429);
    assert_eq!(sign_in_from(&world, "2001:db8:1:3::1", RIGHT).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn distributed_guesses_are_limited_but_not_for_known_clients() {
    let world = World::start().await;
    world.sign_up("acme").await;
    assert_eq!(sign_in_from(&world, "198.51.100.1", RIGHT).await.0, 200);
    world.set("tokens", ("kind", "sign_in_anywhere"), json!({"attempts": 999})).await;
    assert_eq!(sign_in_from(&world, "203.0.113.1", WRONG).await.0, 401);
    for (client, password) in [("203.0.113.1", RIGHT), ("203.0.113.2", WRONG), ("203.0.113.3", RIGHT)] {
        let (status, wait) = sign_in_from(&world, client, password).await;
        assert!(status == 429 && wait.is_some_and(|wait| (1..=3600).contains(&wait)), "{client}: {status} {wait:?}");
    }
    assert_eq!(sign_in_from(&world, "198.51.100.1", RIGHT).await.0, 200);
    assert_eq!(sign_in_from(&world, "127.0.0.1", RIGHT).await.0, 200, "the user signed up from this client");
    for _ in 0..10 {
        assert_eq!(sign_in_from(&world, "198.51.100.1", WRONG).await.0, 401);
    }
    assert_eq!(sign_in_from(&world, "198.51.100.1", RIGHT).await.0, 429, "the limit per client still applies");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_with_other_spellings_of_an_address_count_together() {
    let world = World::start().await;
    for number in 0..10 {
        let spelling = format!("jo@mün{}chen.example", "\u{ad}".repeat(number));
        assert_eq!(world.sign_in(&spelling, WRONG).await.status, 401);
    }
    assert_eq!(world.sign_in("JO@xn--mnchen-3ya.example.", WRONG).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_attempts_stay_within_the_limit() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let attempts =
        futures::future::join_all((0..24).map(|_| world.sign_in("jo@acme.example.com", "wrong horse"))).await;
    assert!(attempts.iter().filter(|answer| answer.status == 401).count() <= 10);
    assert!(attempts.iter().all(|answer| matches!(answer.status, 401 | 429 | 503)), "{attempts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_resets_the_count_and_a_window_ends() {
    let world = World::start().await;
    world.sign_up("acme").await;
    for _ in 0..2 {
        for _ in 0..9 {
            assert_eq!(world.sign_in("jo@acme.example.com", "wrong horse battery").await.status, 401);
        }
        assert_eq!(world.sign_in("jo@acme.example.com", "correct horse battery").await.status, 200);
    }
    for _ in 0..10 {
        world.sign_in("jo@acme.example.com", "wrong horse battery").await;
    }
    assert_eq!(world.sign_in("jo@acme.example.com", "correct horse battery").await.status, 429);
    let now = common::timestamp::Timestamp::now().as_second();
    world.set("tokens", ("kind", "sign_in"), json!({"expires_at": now})).await;
    assert_eq!(world.sign_in("jo@acme.example.com", "correct horse battery").await.status, 200);
}

/// Replaces the user's hash with a hash of the same password from a different implementation, with different
/// parameters.
async fn store_older_hash(world: &World) -> String {
    let older = "$argon2id$v=19$m=32,t=3,p=1$c29tZXNhbHRzb21lc2FsdA$";
    let (salt, mut hash) = (b"somesaltsomesalt", [0; 32]);
    let params = argon2::Params::new(32, 3, 1, Some(32)).expect("parameters");
    argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
        .hash_password_into(b"correct horse battery", salt, &mut hash)
        .expect("hashed");
    let older = format!("{older}{}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD_NO_PAD, hash));
    let has_one = |user: &Item| user.contains_key("password_hash");
    assert_eq!(world.set_where("users", has_one, &json!({"password_hash": older})).await, 1);
    older
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_with_older_parameters_is_replaced_on_success() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let stored = |users: Vec<Item>| users.iter().find_map(|user| user.get("password_hash").cloned()).expect("a hash");
    let today = stored(world.items("users").await).as_s().expect("a string").clone();
    assert!(today.starts_with("$argon2id$v=19$m=64,t=1,"));
    let older = store_older_hash(&world).await;
    assert_eq!(world.sign_in("jo@acme.example.com", "wrong horse battery").await.status, 401);
    assert_eq!(stored(world.items("users").await).as_s().expect("a string"), &older);
    assert_eq!(world.sign_in("jo@acme.example.com", "correct horse battery").await.status, 200);
    assert!(stored(world.items("users").await).as_s().expect("a string").starts_with("$argon2id$v=19$m=64,t=1,"));
    assert_eq!(world.sign_in("jo@acme.example.com", "correct horse battery").await.status, 200);
}

/// The password is correct, so all writes except the session's are optional.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_succeeds_even_if_its_upkeep_fails() {
    let world = World::answering(&[], |call| {
        let is_rehash = call.operation == "UpdateItem" && call["TableName"] == "users";
        let is_forgetting = call.operation == "DeleteItem" && call["TableName"] == "tokens";
        let refused = json!({"__type": "com.amazon.coral.service#AccessDeniedException", "message": "not here"});
        (is_rehash || is_forgetting).then_some((400, refused))
    })
    .await;
    world.sign_up("acme").await;
    store_older_hash(&world).await;
    let signed_in = world.sign_in(EMAIL, RIGHT).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let session = format!("session_token={}", signed_in.body["token"].as_str().expect("a token"));
    assert_eq!(world.session(&session).await.body["user"]["email"], EMAIL);
    let log = tests::log::collected();
    for doing in ["replacing a password hash", "forgetting attempts"] {
        assert!(log.lines().any(|line| line.contains("\"level\":\"ERROR\"") && line.contains(doing)), "{doing}");
    }
    assert!(log.lines().any(|line| line.starts_with("{\"") && line.contains("\"UpkeepFailed\":1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_needs_our_origin_and_no_session() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let foreign = world.http.post(world.url("/api/auth/sign-out")).header("cookie", &cookie);
    let refused = world.send(foreign.header("origin", "https://evil.example.com")).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("INVALID_ORIGIN")));
    assert!(world.session(&cookie).await.body.is_object());
    assert_eq!(world.cli("session_token=x", "sign-out", Value::Null).await.body, json!({"success": true}));
    assert_eq!(world.send(world.http.post(world.url("/api/auth/sign-out"))).await.body, json!({"success": true}));
    assert_eq!(world.cli(&cookie, "sign-out", Value::Null).await.status, 200);
    assert_eq!(world.session(&cookie).await.body, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verification_token_is_not_a_session() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let link = tests::world::link(&world.mail_to("jo@acme.example.com").await);
    let as_session = format!("session_token={}", link.rsplit('=').next().expect("a token"));
    assert_eq!(world.session(&as_session).await.body, Value::Null);
    world.cli(&as_session, "sign-out", Value::Null).await;
    assert_eq!(world.confirm(&link).await.status, 200, "the link still works");
}

/// A Mac decomposes characters that a phone sends in composed form.
#[tokio::test(flavor = "multi_thread")]
async fn every_spelling_of_the_password_signs_in() {
    let world = World::start().await;
    let spellings = ["p\u{e4}ssw\u{f6}rter 1", "pa\u{308}sswo\u{308}rter 1", "p\u{e4}ssw\u{f6}rter\u{a0}1"];
    for (number, password) in spellings.iter().enumerate() {
        let mut fields = World::sign_up_fields(&format!("acme-{number}"));
        fields["password"] = json!(password);
        world.rpc("", "auth/signupAndCreateOrg", fields).await.ok();
        let email = format!("jo@acme-{number}.example.com");
        for spelling in spellings {
            assert_eq!(world.sign_in(&email, spelling).await.status, 200, "{password:?} {spelling:?}");
        }
        assert_eq!(world.sign_in(&email, "passworter 1").await.status, 401);
        let cookie = world.signed_in(&email, spellings[0]).await;
        let change = json!({"currentPassword": spellings[1], "newPassword": "another \u{212b}ngstr\u{f6}m"});
        assert_eq!(world.cli(&cookie, "change-password", change).await.status, 200);
        assert_eq!(world.sign_in(&email, "another A\u{30a}ngstro\u{308}m").await.status, 200);
    }
}
