//! The page behind the link in an invitation email.

use serde_json::json;
use tests::{
    Answer, Tenant, World,
    world::{hidden_fields, link},
};

const PASSWORD: &str = "another long password";

/// Invites Al, and returns the link in the email.
async fn invite(world: &World, by: &Tenant) -> String {
    let fields = json!({"email": "al@example.com", "role": "member", "organizationId": by.id});
    assert_eq!(world.cli(&by.cookie, "organization/invite-member", fields).await.status, 200);
    link(&world.mail_to("al@example.com").await)
}

/// Fills in the form behind the link as a browser does.
async fn accept(world: &World, link: &str, name: &str, password: &str) -> Answer {
    let page = world.send(world.http.get(link)).await;
    let mut fields = hidden_fields(page.page());
    fields.extend([("name".to_owned(), name.to_owned()), ("password".to_owned(), password.to_owned())]);
    world.send(world.http.post(world.url("/invite")).header("origin", world.stack.api()).form(&fields)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn accepting_an_invitation_on_the_page_signs_in() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let link = invite(&world, &tenant).await;
    assert!(link.starts_with(&world.url("/invite?tenantSlug=acme&invitationId=")), "{link}");
    // A client prints it like this.
    for link in [&link, &format!("{link}&accept=1")] {
        let page = world.send(world.http.get(link)).await;
        assert_eq!(page.status, 200);
        for says in ["<dd>Doe &amp; Co</dd>", "<dd>Jo Doe</dd>", "<dd>member</dd>", "<dd>al@example.com</dd>"] {
            assert!(page.page().contains(says), "{says}");
        }
        // The page names no client's commands, which change.
        assert!(!page.page().contains("<code") && !page.page().contains("command"), "{page:?}");
    }
    assert_eq!(world.items("users").await.len(), 2, "opening it changes nothing");

    let before = world.mails().await.len();
    let joined = accept(&world, &link, "Al", PASSWORD).await;
    assert_eq!(super::location(&joined), "/console");
    let cookie = &super::set(&joined);
    let session = world.session(cookie).await.body;
    assert_eq!((&session["user"]["name"], &session["user"]["emailVerified"]), (&json!("Al"), &json!(true)));
    assert_eq!(world.cli_get(cookie, "organization/list").await.body[0]["id"], json!(tenant.id));
    assert_eq!(world.mails().await.len(), before, "the link has proved the address");
    assert_eq!(world.tokens("email_verification").await.len(), 0);

    for again in [world.send(world.http.get(&link)).await, accept(&world, &link, "Al", PASSWORD).await] {
        assert_eq!(again.status, 400);
        assert!(again.page().contains("This invitation is not valid") && !again.headers.contains_key("set-cookie"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_return_the_form_without_the_password() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let link = invite(&world, &tenant).await;
    let again = accept(&world, &link, "<script>alert(1)</script>\u{7}", "short").await;
    assert_eq!(again.status, 400);
    let says = again.page();
    assert!(
        says.contains("value=\"&lt;script&gt;alert(1)&lt;/script&gt;\u{7}\"") && !says.contains("<script"),
        "{says}"
    );
    assert!(says.contains("Must not contain control characters.") && says.contains("Must have at least 8 characters."));
    assert!(!says.contains("short") && hidden_fields(says).len() == 3);
    let foreign = world.http.post(world.url("/invite")).header("origin", "https://evil.example.com");
    let foreign = world.send(foreign.form(&hidden_fields(says))).await;
    assert_eq!((foreign.status, &foreign.body["code"]), (403, &json!("INVALID_ORIGIN")));
    assert_eq!(world.items("users").await.len(), 2);

    // They have signed up in the meantime, with their own organization.
    let mut fields = World::sign_up_fields("other");
    fields["email"] = json!("al@example.com");
    world.rpc("", "auth/signupAndCreateOrg", fields).await.ok();
    let taken = accept(&world, &link, "Al", PASSWORD).await;
    assert_eq!(taken.status, 409);
    assert!(taken.page().contains("An account with this email already exists.") && !taken.page().contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_an_organization_stay_text() {
    let world = World::start().await;
    let mut fields = World::sign_up_fields("acme");
    fields["organizationName"] = json!("<script>alert(1)</script>");
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let id = account["organizationId"].as_str().expect("an id");
    let invitation = world.invitation(id, "al@example.com", common::timestamp::Timestamp::now().as_second() + 60).await;
    let link = world.url(&format!("/invite?tenantSlug=acme&invitationId={invitation}"));
    let page = world.send(world.http.get(link)).await;
    assert!(page.page().contains("<dd>&lt;script&gt;alert(1)&lt;/script&gt;</dd>") && !page.page().contains("<script"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_without_a_pending_invitation_gets_an_explanation() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let link = invite(&world, &tenant).await;
    let id = link.split(['=', '&']).nth(3).expect("an id").to_owned();
    let expired = world.invitation(&tenant.id, "bo@example.com", 1).await;
    let cancelled =
        world.invitation(&tenant.id, "cy@example.com", common::timestamp::Timestamp::now().as_second() + 60).await;
    let cancelling = json!({"invitationId": cancelled});
    assert_eq!(world.cli(&tenant.cookie, "organization/cancel-invitation", cancelling).await.status, 200);
    let unknown = uuid::Uuid::now_v7().to_string();
    for (slug, id) in [
        (other.slug.as_str(), id.as_str()),
        ("unknown", &id),
        ("acme", &unknown),
        ("acme", &expired),
        ("acme", &cancelled),
        ("acme", "%3Cscript%3E"),
        ("", ""),
    ] {
        let query = format!("/invite?tenantSlug={slug}&invitationId={id}");
        let fields = [("tenantSlug", slug), ("invitationId", id), ("name", "Al"), ("password", PASSWORD)];
        for answer in [
            world.send(world.http.get(world.url(&query))).await,
            world.send(world.http.post(world.url("/invite")).form(&fields)).await,
        ] {
            assert_eq!(answer.status, 400, "{query}");
            assert!(answer.page().contains("This invitation is not valid") && !answer.page().contains("<form"));
            assert!(!answer.page().contains("al@example.com") && !answer.headers.contains_key("set-cookie"));
        }
    }
    assert_eq!(world.send(world.http.get(&link)).await.status, 200, "and that one still does");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_without_its_token_proves_no_address() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for (number, token) in ["", "&token=", "&token=x", &format!("&token={}", "a".repeat(43))].into_iter().enumerate() {
        let email = format!("al{number}@example.com");
        let fields = json!({"email": email, "role": "member", "organizationId": tenant.id});
        assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", fields).await.status, 200);
        let link = link(&world.mail_to(&email).await);
        let (without, _) = link.split_once("&token=").expect("a token");
        let joined = accept(&world, &format!("{without}{token}"), "Al", PASSWORD).await;
        assert_eq!(super::location(&joined), "/console/welcome", "{token}");
        assert_eq!(world.session(&super::set(&joined)).await.body["user"]["emailVerified"], false, "{token}");
        assert_eq!(world.mail_to(&email).await["subject"], "Webhooks: Confirm your email address");
        // The inviter chose the address, so another one could be that of a person who only knows the id.
        let page = super::follow(&world, &super::set(&joined), &joined).await;
        assert!(page.page().contains("Ask the person who invited you") && !page.page().contains("Change address"));
        let replace = [("action", "replace"), ("email", "thief@example.com")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        super::submit(&world, &super::set(&joined), "/console/welcome", &replace).await;
        assert!(!world.mails().await.iter().any(|mail| mail["to"] == json!(["thief@example.com"])));
    }
    // No list shows the token.
    let listed = world.cli_get(&tenant.cookie, "organization/list-invitations").await.body.to_string();
    assert!(!listed.contains("token") && !listed.contains("secret"), "{listed}");
    let stored = format!("{:?}", world.items("invitations").await);
    let token = link(&world.mail_to("al0@example.com").await);
    assert!(!stored.contains(token.rsplit('=').next().expect("a token")), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_says_if_another_account_is_signed_in() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let link = invite(&world, &tenant).await;
    let page = world.send(world.http.get(&link).header("cookie", &tenant.cookie)).await;
    assert!(page.page().contains("<strong>jo@acme.example.com</strong> is signed in"), "{}", page.page());
    assert!(!world.send(world.http.get(&link)).await.page().contains("is signed in"));
}
