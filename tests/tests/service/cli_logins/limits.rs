//! The limits of browser logins.

use futures::future::join_all;
use serde_json::json;
use tests::World;

use super::{approved, create, expired, pending, poll};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_makes_a_hundred_requests_an_hour() {
    let world = World::start().await;
    let login = create(&world).await;
    world.set("tokens", ("kind", "cli_login_client"), json!({"attempts": 98})).await;
    let answers = join_all((0..6).map(|_| world.rpc("", "auth/cliLoginCreate", json!({})))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 2, "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status != 200).expect("four of them");
    assert_eq!(refused.error(), (429, "TOO_MANY_REQUESTS", ""));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(world.tokens("cli_login").await.len(), 3);
    assert_eq!(poll(&world, &login).await, pending(), "existing requests continue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_polled_sixty_times_a_minute() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (login, other) = (approved(&world, &tenant.cookie).await, create(&world).await);
    assert_eq!(poll(&world, &other).await, pending());
    world.set("tokens", ("kind", "cli_login_poll"), json!({"attempts": 58})).await;
    let answers = join_all((0..6).map(|_| world.rpc("", "auth/cliLoginPoll", other.clone()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 2, "{answers:?}");
    let refused = answers.iter().find(|answer| answer.status != 200).expect("four of them");
    assert_eq!(refused.error(), (429, "TOO_MANY_REQUESTS", ""));
    let seconds: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
    assert!((1..=60).contains(&seconds));
    assert_eq!(poll(&world, &login).await["status"], "approved", "other requests are not delayed");
    let mut strangers = other.clone();
    strangers["secret"] = json!("A".repeat(43));
    assert_eq!(poll(&world, &strangers).await, expired(), "a stranger cannot tell that there is a limit");
    assert_eq!(world.tokens("cli_login_poll").await.len(), 2);
    // A minute later.
    world
        .set(
            "tokens",
            ("kind", "cli_login_poll"),
            json!({"expires_at": common::timestamp::Timestamp::now().as_second()}),
        )
        .await;
    assert_eq!(poll(&world, &other).await, pending());
}
