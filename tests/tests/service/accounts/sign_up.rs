//! `POST /v1/auth/signupAndCreateOrg`.

use std::collections::HashSet;

use futures::future::join_all;
use serde_json::json;
use tests::{
    World, sample_event,
    world::{cookie, link},
};

const ROUTE: &str = "auth/signupAndCreateOrg";

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_up_returns_the_account_with_a_session() {
    let world = World::start().await;
    let mut fields = World::sign_up_fields("acme");
    fields["email"] = json!("  Jo@Acme.Example.COM ");
    let answer = world.rpc("", ROUTE, fields).await;
    let account = answer.ok();
    let names: HashSet<_> = account.as_object().expect("fields").keys().map(String::as_str).collect();
    assert_eq!(
        names,
        HashSet::from([
            "userId",
            "email",
            "organizationId",
            "organizationSlug",
            "sessionToken",
            "setCookie",
            "emailVerified"
        ])
    );
    assert_eq!(account["email"], "jo@acme.example.com");
    assert_eq!(account["organizationSlug"], "acme");
    assert_eq!(account["emailVerified"], false);
    for id in ["userId", "organizationId"] {
        let id: uuid::Uuid = account[id].as_str().expect("an id").parse().expect("a UUID");
        assert_eq!(id.get_version_num(), 7);
    }
    let token = account["sessionToken"].as_str().expect("a token");
    let expected = format!("session_token={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000");
    assert_eq!(account["setCookie"], json!([expected]));
    let headers: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(headers, [expected.as_str()]);
    let session = world.session(&cookie(account)).await.body;
    assert_eq!(session["user"]["id"], account["userId"]);
    assert_eq!(session["user"]["emailVerified"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_is_secure_if_the_base_url_is_https() {
    let world = World::with(&[("BASE_URL", "https://api.example.com")]).await;
    let account = world.sign_up("acme").await;
    let cookie = account["setCookie"][0].as_str().expect("a cookie");
    assert!(cookie.starts_with("__Host-session_token=") && cookie.ends_with("; Secure"), "{cookie}");
    let link = link(&world.mail_to("jo@acme.example.com").await);
    assert!(link.starts_with("https://api.example.com/verify-email?token="), "{link}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_base_url_links_have_the_domain_of_the_request() {
    let world = World::with(&[("BASE_URL", "")]).await;
    let mut event = sample_event("auth-signup-and-create-org");
    event["requestContext"]["domainName"] = json!("abc.execute-api.eu-central-1.amazonaws.com");
    let response = world.stack.invoke("auth-signup-and-create-org", event).await.expect("an answer");
    assert_eq!(response["statusCode"], 200, "{response}");
    let mails = world.mails().await;
    let text = mails[0]["text"].as_str().expect("a text part");
    assert!(text.contains("\nhttps://abc.execute-api.eu-central-1.amazonaws.com/verify-email?token="), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_stores_a_secret_in_plain_text() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let verification = link(&world.mail_to("jo@acme.example.com").await);
    let verification = verification.rsplit('=').next().expect("a token");
    let mut stored = String::new();
    for table in ["users", "organizations", "tokens"] {
        stored.push_str(&format!("{:?}", world.items(table).await));
    }
    for secret in ["correct horse battery", account["sessionToken"].as_str().expect("a token"), verification] {
        assert!(!stored.contains(secret), "{secret}");
    }
    assert!(stored.contains("$argon2id$v=19$m=64,t=1,p=1$"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_email_has_the_link_in_both_parts() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let mail = world.mail_to("jo@acme.example.com").await;
    let link = link(&mail);
    assert!(link.starts_with(&format!("{}/verify-email?token=", world.stack.api())));
    assert_eq!(mail["subject"], "Webhooks: Confirm your email address");
    let html = html_unescape(mail["html"].as_str().expect("an HTML part"));
    assert!(html.contains(&format!("href=\"{link}\"")), "{html}");
}

fn html_unescape(html: &str) -> String {
    html.replace("&#x2F;", "/").replace("&quot;", "\"").replace("&amp;", "&")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_slug_and_a_taken_email_are_conflicts() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let answer = world.rpc("", ROUTE, World::sign_up_fields("acme")).await;
    assert_eq!(answer.error(), (409, "CONFLICT", "slug_taken"));
    assert!(answer.json()["message"].as_str().expect("a message").contains("acme"));
    let mut fields = World::sign_up_fields("other");
    fields["email"] = json!("JO@acme.example.com");
    assert_eq!(world.rpc("", ROUTE, fields).await.error(), (409, "CONFLICT", "email_taken"));
    assert_eq!(world.items("users").await.len(), 2);
    assert_eq!(world.items("organizations").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_sign_ups_with_one_slug_wins() {
    let world = World::start().await;
    let answers = join_all((0..16).map(|number| {
        let mut fields = World::sign_up_fields("acme");
        fields["email"] = json!(format!("jo{number}@example.com"));
        world.rpc("", ROUTE, fields)
    }))
    .await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(won, 1);
    for lost in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(lost.error(), (409, "CONFLICT", "slug_taken"));
    }
    // The user with a guard, the organization with a guard, the session, the verification, the known client, and the
    // counts of emails to both addresses.
    for (table, items) in [("users", 2), ("organizations", 2), ("tokens", 5)] {
        assert_eq!(world.items(table).await.len(), items, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_sign_ups_with_one_email_wins() {
    let world = World::start().await;
    let answers = join_all((0..16).map(|number| {
        let mut fields = World::sign_up_fields(&format!("acme-{number}"));
        fields["email"] = json!("jo@example.com");
        world.rpc("", ROUTE, fields)
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for lost in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(lost.error(), (409, "CONFLICT", "email_taken"));
    }
    for (table, items) in [("users", 2), ("organizations", 2), ("tokens", 5)] {
        assert_eq!(world.items(table).await.len(), items, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsendable_email_is_logged_and_the_account_is_kept() {
    let world = World::with(&[("AWS_ENDPOINT_URL_SES", "http://127.0.0.1:1")]).await;
    let account = world.sign_up("acme").await;
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["id"], account["userId"]);
    let log = tests::log::collected();
    let user = account["userId"].as_str().expect("an id");
    assert!(log.lines().any(|line| line.contains("email.failed") && line.contains(user)));
    assert!(log.lines().any(|line| line.starts_with("{\"") && line.contains("\"MailFailed\":1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_counted_in_characters_and_never_trimmed() {
    let world = World::start().await;
    for (slug, password, status) in
        [("a1", "        ", 200), ("a2", "ßßßßßßßß", 200), ("a3", "ßßßßßßß", 400), ("a4", &"x".repeat(129), 400)]
    {
        let mut fields = World::sign_up_fields(slug);
        fields["password"] = json!(password);
        assert_eq!(world.rpc("", ROUTE, fields).await.status, status, "{slug}");
    }
}

/// The response sets a session cookie, so a page on another site could otherwise sign its visitors in to an account
/// that belongs to the page's owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_page_cannot_sign_a_visitor_up() {
    let world = World::with(&[("TRUSTED_ORIGINS", "https://app.example.com")]).await;
    let sign_up = |slug: &str, origin: &str| {
        let body = json!({"json": World::sign_up_fields(slug)}).to_string();
        let request = world.http.post(world.url("/v1/auth/signupAndCreateOrg")).header("content-type", "text/plain");
        world.send(request.header("origin", origin).body(body))
    };
    for origin in ["https://evil.example.com", "null"] {
        let refused = sign_up("acme", origin).await;
        assert_eq!(refused.error(), (403, "FORBIDDEN", ""));
        assert!(refused.json()["message"].as_str().expect("a message").contains(world.stack.api()));
        assert!(!refused.headers.contains_key("set-cookie"));
    }
    assert_eq!(sign_up("ours", world.stack.api()).await.status, 200);
    assert_eq!(sign_up("theirs", "https://app.example.com").await.status, 200);
}

/// A stranger signs up with another person's address and deletes the account repeatedly, to send that person emails.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_sign_ups_send_few_emails_to_an_address() {
    let world = World::start().await;
    for round in 0..8 {
        let mut fields = World::sign_up_fields(&format!("acme-{round}"));
        fields["email"] = json!("victim@example.com");
        let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
        let password = json!({"password": tests::world::people::PASSWORD});
        assert_eq!(world.cli(&cookie(&account), "delete-user", password).await.status, 200);
    }
    let to_victim = world.mails().await.into_iter().filter(|mail| mail["to"] == json!(["victim@example.com"]));
    assert_eq!(to_victim.count(), 5);
}
