//! The responses from `get-session`.

use serde_json::{Value, json};
use tests::{World, world::cookie};

#[tokio::test(flavor = "multi_thread")]
async fn get_session_returns_the_signed_in_user() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let answer = world.session(&cookie(&account)).await;
    assert_eq!(answer.status, 200);
    let session = &answer.body["session"];
    assert_eq!(
        answer.body,
        json!({
            "session": {"id": session["id"], "expiresAt": session["expiresAt"]},
            "user": {
                "id": account["userId"], "email": "jo@acme.example.com", "name": "Jo Doe", "emailVerified": false, "twoFactorEnabled": false,
            },
        })
    );
    let expires: common::timestamp::Timestamp = session["expiresAt"].as_str().expect("a time").parse().expect("a time");
    let days = (expires.as_second() - common::timestamp::Timestamp::now().as_second()) / 86_400;
    assert!((29..=30).contains(&days), "{days}");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_session_returns_null_without_a_valid_cookie() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    for cookie in ["", "session_token=x", &format!("session_token={}", "a".repeat(43))] {
        let answer = world.session(cookie).await;
        assert_eq!((answer.status, answer.body), (200, Value::Null), "{cookie}");
    }
    let now = common::timestamp::Timestamp::now().as_second();
    world.set("tokens", ("kind", "session"), json!({"expires_at": now})).await;
    assert_eq!(world.session(&cookie(&account)).await.body, Value::Null);
}
