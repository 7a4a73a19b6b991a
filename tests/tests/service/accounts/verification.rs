//! Verifying an email address on the page that the link in the email opens.

use futures::future::join_all;
use serde_json::json;
use tests::{
    World,
    world::{cookie, link},
};

/// The page's path, and the path that clients of the command-line flow use.
const PATHS: [&str; 2] = ["/verify-email", "/api/auth/verify-email"];

#[tokio::test(flavor = "multi_thread")]
async fn the_link_in_the_email_verifies_once() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let link = link(&world.mail_to("jo@acme.example.com").await);
    let page = world.confirm(&link).await;
    assert_eq!(page.status, 200);
    assert!(page.page().contains("Your email address is confirmed"));
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], true);
    // A reload, and a second click on the link.
    for again in [world.confirm(&link).await, world.open(&link).await] {
        assert_eq!(again.status, 400);
        assert!(again.page().contains("Your email address is already confirmed"), "{again:?}");
        assert!(!again.page().contains("<title>Error") && !again.page().contains("<button"), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_the_link_does_not_verify_or_consume_it() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let link = link(&world.mail_to("jo@acme.example.com").await);
    for _ in 0..3 {
        let page = world.send(world.http.get(&link)).await;
        assert_eq!(page.status, 200);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        let policy = page.headers["content-security-policy"].to_str().expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && policy.ends_with("form-action 'self'"), "{policy}");
        // With `no-referrer`, the browser would send `Origin: null` with the form.
        assert_eq!(page.headers["referrer-policy"], "same-origin");
        assert!(page.page().contains("<button>Confirm email address</button>"));
        assert_eq!(world.send(world.http.head(&link)).await.status, 200);
    }
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], false);
    assert_eq!(world.confirm(&link).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_verifications_succeeds() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let link = link(&world.mail_to("jo@acme.example.com").await);
    let (page, token) = link.split_once("?token=").expect("a token");
    let press = || world.send(world.http.post(page).form(&[("token", token)]));
    let answers = join_all((0..16).map(|_| press())).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 400).count(), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_token_gets_an_error_page() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let session = account["sessionToken"].as_str().expect("a token");
    for query in ["", "?token=", "?token=x", &format!("?token={}", "a".repeat(43)), &format!("?token={session}")] {
        for path in PATHS {
            let answer = world.open(&world.url(&format!("{path}{query}"))).await;
            assert_eq!(answer.status, 400, "{query}");
            let form = query.trim_start_matches('?').to_owned();
            assert_eq!(world.send(world.http.post(world.url(path)).body(form)).await.status, 400, "{query}");
        }
    }
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_link_does_not_verify() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let now = common::timestamp::Timestamp::now().as_second();
    world.set("tokens", ("kind", "email_verification"), json!({"expires_at": now})).await;
    let page = world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await;
    assert_eq!(page.status, 400);
    assert_eq!(page.headers["x-request-id"].len(), 36);
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_redirects_to_trusted_origins_only() {
    let world = World::with(&[("TRUSTED_ORIGINS", "https://app.example.com")]).await;
    for (slug, callback, sent_on) in [
        ("a1", "https://app.example.com/welcome".to_owned(), true),
        ("a2", world.url("/somewhere"), true),
        ("a3", "https://evil.example.com/welcome".to_owned(), false),
        ("a4", "https://app.example.com.evil.com/".to_owned(), false),
        ("a5", "javascript:alert(1)".to_owned(), false),
        ("a6", "//evil.example.com".to_owned(), false),
        ("a7", "https://app.example.com@evil.example.com/".to_owned(), false),
    ] {
        world.sign_up(slug).await;
        let link = link(&world.mail_to(&format!("jo@{slug}.example.com")).await);
        let link = world.http.get(link).query(&[("callbackURL", &callback)]).build().expect("a URL").url().to_string();
        let answer = world.confirm(&link).await;
        assert_eq!(answer.status, if sent_on { 303 } else { 200 }, "{callback}");
        let page = world.send(world.http.get(&link)).await;
        assert_eq!(page.status, 400, "{callback}: the token is used up");
        if sent_on {
            assert_eq!(answer.headers["location"], callback);
        }
    }
}

/// A program would mistake a page with the status 200 for a success.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_scanner_does_not_verify_the_address() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let link = link(&world.mail_to("jo@acme.example.com").await);
    let (page, token) = link.split_once("?token=").expect("a token");
    let older = link.replace("/verify-email", "/api/auth/verify-email");
    for accept in ["*/*", "application/json", "application/json, text/plain, */*", ""] {
        let answer = world.send(world.http.get(&older).header("accept", accept)).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("CONFIRMATION_REQUIRED")), "{accept}");
        let message = answer.body["message"].as_str().expect("a string");
        assert!(message.contains(page) && !message.contains(token), "{message}");
    }
    let mut event = tests::sample_event("console");
    event["rawPath"] = json!("/api/auth/verify-email");
    event["rawQueryString"] = json!(format!("token={token}"));
    event["headers"].as_object_mut().expect("headers").remove("accept");
    let answer = world.stack.invoke("console", event).await.expect("an answer");
    assert!(answer["body"].as_str().expect("a string").contains("CONFIRMATION_REQUIRED"), "{answer}");
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], false);
    assert_eq!(world.open(&older).await.status, 200, "a browser gets the page");
    assert_eq!(world.confirm(&older).await.status, 200, "and the link still works");
}

/// Emails from earlier versions link to the older path.
#[tokio::test(flavor = "multi_thread")]
async fn the_older_path_verifies_as_well() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let link = link(&world.mail_to("jo@acme.example.com").await);
    let older = link.replace("/verify-email", "/api/auth/verify-email");
    assert_ne!(link, older);
    assert_eq!(world.confirm(&older).await.status, 200);
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], true);
    assert_eq!(world.confirm(&link).await.status, 400, "both links contain the same token");
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_emails_are_limited_and_do_not_reveal_accounts() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let first = link(&world.mail_to("jo@acme.example.com").await);
    let ask = async |email: &str| world.cli("", "send-verification-email", json!({"email": email})).await;
    for email in ["jo@acme.example.com", "nobody@example.com"] {
        let answer = ask(email).await;
        assert_eq!((answer.status, answer.body), (200, json!({"status": true})), "{email}");
    }
    let second = link(&world.mail_to("jo@acme.example.com").await);
    assert_ne!(first, second);
    assert_eq!(world.confirm(&second).await.status, 200);
    let mails = async || world.mails().await.len();
    let before = mails().await;
    assert_eq!(ask("jo@acme.example.com").await.status, 200);
    assert_eq!(mails().await, before, "a verified address gets no more emails");
    for email in ["jo@acme.example.com", "nobody@example.com"] {
        let mut answers = Vec::new();
        for _ in 0..6 {
            answers.push(ask(email).await.status);
        }
        assert_eq!(answers.last(), Some(&429), "{email}");
    }
    assert_eq!(ask("no address").await.status, 400);
}
