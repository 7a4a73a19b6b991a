//! The page that the link in an invitation email opens.

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

/// Fills in the form on the page that the link opens, like a browser.
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
    // Clients print the link in this form.
    for link in [&link, &format!("{link}&accept=1")] {
        let page = world.send(world.http.get(link)).await;
        assert_eq!(page.status, 200);
        for says in ["<dd>Doe &amp; Co</dd>", "<dd>Jo Doe</dd>", "<dd>Member</dd>", "<dd>al@example.com</dd>"] {
            assert!(page.page().contains(says), "{says}");
        }
        // The page does not show client commands, because commands change.
        assert!(!page.page().contains("<code") && !page.page().contains("command"), "{page:?}");
    }
    assert_eq!(world.items("users").await.len(), 2, "opening the link changes nothing");

    let before = world.mails().await.len();
    let joined = accept(&world, &link, "Al", PASSWORD).await;
    assert_eq!(super::location(&joined), "/console");
    let cookie = &super::set(&joined);
    let session = world.session(cookie).await.body;
    assert_eq!((&session["user"]["name"], &session["user"]["emailVerified"]), (&json!("Al"), &json!(true)));
    assert_eq!(world.cli_get(cookie, "organization/list").await.body[0]["id"], json!(tenant.id));
    assert_eq!(world.mails().await.len(), before, "the link proves the address, so no confirmation email is sent");
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

    // The recipient has signed up in the meantime, with a separate organization.
    let mut fields = World::sign_up_fields("other");
    fields["email"] = json!("al@example.com");
    world.rpc("", "auth/signupAndCreateOrg", fields).await.ok();
    let mut fields = hidden_fields(says);
    fields.extend([("name".to_owned(), "Al".to_owned()), ("password".to_owned(), PASSWORD.to_owned())]);
    let taken = world.send(world.http.post(world.url("/invite")).form(&fields)).await;
    assert_eq!(taken.status, 409);
    assert!(taken.page().contains("You have an account with this address") && !taken.page().contains(PASSWORD));
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
    assert_eq!(world.send(world.http.get(&link)).await.status, 200, "the other link is still valid");
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
        // The page does not accept a different address, because visitors who only know the id can open it, too.
        let page = super::follow(&world, &super::set(&joined), &joined).await;
        assert!(page.page().contains("Ask the person who invited you") && !page.page().contains("Change address"));
        let replace = [("action", "replace"), ("email", "thief@example.com")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        super::submit(&world, &super::set(&joined), "/console/welcome", &replace).await;
        assert!(!world.mails().await.iter().any(|mail| mail["to"] == json!(["thief@example.com"])));
    }
    // No list contains the token.
    let listed = world.cli_get(&tenant.cookie, "organization/list-invitations").await.body.to_string();
    assert!(!listed.contains("token") && !listed.contains("secret"), "{listed}");
    let stored = format!("{:?}", world.items("invitations").await);
    let token = link(&world.mail_to("al0@example.com").await);
    assert!(!stored.contains(token.rsplit('=').next().expect("a token")), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_warns_if_another_account_is_signed_in() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let link = invite(&world, &tenant).await;
    let page = world.send(world.http.get(&link).header("cookie", &tenant.cookie)).await;
    assert!(page.page().contains("<strong>jo@acme.example.com</strong> is signed in"), "{}", page.page());
    assert!(!world.send(world.http.get(&link)).await.page().contains("is signed in"));
}

/// Invites the address of an account, and returns the link in the email.
async fn invite_account(world: &World, by: &Tenant, email: &str) -> String {
    let fields = json!({"email": email, "role": "member"});
    assert_eq!(world.cli(&by.cookie, "organization/invite-member", fields).await.status, 200);
    link(&world.mail_to(email).await)
}

fn path(link: &str) -> &str {
    &link[link.find("/invite").expect("a path")..]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_joins_on_the_page_and_stays_signed_in() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let link = invite_account(&world, &acme, &bo.email).await;
    let page = super::open(&world, &bo.cookie, path(&link)).await;
    assert_eq!(page.status, 200);
    for says in ["<dd>Doe &amp; Co</dd>", "leaving <strong>Doe &amp; Co</strong>", "Your personal API keys stop"] {
        assert!(page.page().contains(says), "{says} in {}", page.page());
    }
    assert!(!page.page().contains("Create account") && !page.page().contains("deletes"));
    let button = "Leave Doe &amp; Co and join Doe &amp; Co";
    let unsure = super::submit(&world, &bo.cookie, "/invite", &super::filled(&page, button, &[])).await;
    assert_eq!(unsure.status, 400);
    assert!(unsure.page().contains("Required."), "{}", unsure.page());
    assert!(world.key_works(&bo.key).await, "nothing has happened");
    let form = super::filled(&page, button, &[("sure", "yes")]);
    for _ in 0..2 {
        let joined = super::submit(&world, &bo.cookie, "/invite", &form).await;
        let team = super::follow(&world, &bo.cookie, &joined).await;
        assert!(team.page().contains("You are a member of this organization now."), "even if the form is sent twice");
        assert!(team.page().contains("jo@acme.example.com") && !team.page().contains("jo@other.example.com"));
    }
    assert!(!world.key_works(&bo.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_twice_before_an_organization_is_deleted() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for _ in 0..2 {
        world.endpoint(&other, "http://127.0.0.1:9/", "s").await;
    }
    let link = invite_account(&world, &acme, &other.email).await;
    let page = super::open(&world, &other.cookie, path(&link)).await;
    assert!(page.page().contains("You are the only member of Doe &amp; Co, so joining deletes it."), "{}", page.page());
    let button = "Delete Doe &amp; Co and join Doe &amp; Co";
    let unsure = super::submit(&world, &other.cookie, "/invite", &super::filled(&page, button, &[])).await;
    assert!(unsure.status == 400 && unsure.page().contains("Required."), "{}", unsure.page());

    let asked = super::submit(
        &world,
        &other.cookie,
        "/invite",
        &super::filled(&page, button, &[("deleteOrganization", "yes")]),
    )
    .await;
    assert_eq!(asked.status, 200);
    for says in ["Delete your organization?", "2 endpoints, with all deliveries", "1 API key", "<strong>other</strong>"]
    {
        assert!(asked.page().contains(says), "{says} in {}", asked.page());
    }
    let unsure = super::submit(&world, &other.cookie, "/invite", &super::filled(&asked, button, &[])).await;
    assert!(unsure.status == 400 && unsure.page().contains("Required."), "{}", unsure.page());
    assert_eq!(world.endpoints(&other).await.len(), 2, "nothing has happened");
    let joined =
        super::submit(&world, &other.cookie, "/invite", &super::filled(&asked, button, &[("sure", "yes")])).await;
    assert_eq!(super::location(&joined), "/console/team?did=joined");
    let organizations = world.cli_get(&other.cookie, "organization/list").await.body;
    assert_eq!(organizations[0]["id"], json!(acme.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_explains_the_options_of_the_only_owner() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    world.member(&other, "bo@example.com", "member").await;
    let link = invite_account(&world, &acme, &other.email).await;
    let page = super::open(&world, &other.cookie, path(&link)).await;
    assert!(page.page().contains("You are the only owner") && page.page().contains("href=\"/console/team\""));
    assert!(!page.page().contains("and join"), "{}", page.page());
    let declined =
        super::submit(&world, &other.cookie, "/invite", &super::filled(&page, "Decline invitation", &[])).await;
    assert!(declined.page().contains("Invitation declined"), "{}", declined.page());
    let page = super::open(&world, &other.cookie, path(&link)).await;
    assert!(page.status == 400 && page.page().contains("This invitation is not valid"));
}

/// The token in the link proves the address. Without the token, the page must not reveal whether the address has an
/// account.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_link_of_the_email_shows_that_there_is_an_account() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let with_account = invite_account(&world, &acme, &other.email).await;
    let without = invite_account(&world, &acme, "new@example.com").await;
    let says = "You have an account with this address";
    let page = super::open(&world, "", path(&with_account)).await;
    assert!(page.page().contains(says) && !page.page().contains("Create account"), "{}", page.page());
    assert!(!super::open(&world, "", path(&without)).await.page().contains(says));
    let bare = |link: &str| path(link).split("&token=").next().expect("a path").to_owned();
    let mut pages = Vec::new();
    for (link, email) in [(&with_account, other.email.as_str()), (&without, "new@example.com")] {
        let id = link.split(['=', '&']).nth(3).expect("an id");
        let page = super::open(&world, "", &bare(link)).await.page().to_owned();
        pages.push(page.replace(id, "id").replace(email, "email"));
    }
    assert_eq!(pages[0], pages[1]);

    // The sign-in redirects to the invitation, without the token, and not to any other address.
    let sign_in = page.page().split("href=\"/signin?next=").nth(1).and_then(|rest| rest.split('"').next());
    let sign_in = super::open(&world, "", &format!("/signin?next={}", sign_in.expect("a link"))).await;
    let form = super::filled(&sign_in, "Sign in", &[("email", &other.email), ("password", "correct horse battery")]);
    let signed_in = super::submit(&world, "", "/signin", &form).await;
    assert_eq!(super::location(&signed_in), bare(&with_account));
    let page = super::follow(&world, &super::set(&signed_in), &signed_in).await;
    assert!(page.page().contains("joining deletes it"), "{}", page.page());
    for evil in
        ["/invite", "/invite/..//evil.example.com", "/invite?\\evil", "//evil.example.com/invite?", "/invited?x"]
    {
        let form = [("next", evil), ("email", &other.email), ("password", "correct horse battery")];
        let signed_in = world.send(world.http.post(world.url("/signin")).form(&form)).await;
        assert_eq!(super::location(&signed_in), "/console", "{evil}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_account_can_sign_out_from_the_invitation() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let link = invite_account(&world, &acme, &other.email).await;
    let page = super::open(&world, &acme.cookie, path(&link)).await;
    assert!(page.page().contains("the invitation is for another address"), "{}", page.page());
    let form = super::filled(&page, "Sign out", &[]);
    let signed_out = super::submit(&world, &acme.cookie, "/signin", &form).await;
    assert!(super::location(&signed_out).contains("next=%2Finvite%3FtenantSlug"), "{signed_out:?}");
    assert!(!world.is_signed_in(&acme.cookie).await);
    // A form for a different account does not move the account.
    let mut forged = hidden_fields(page.page());
    let leaves = ("leaves".to_owned(), acme.id.clone());
    forged.extend([("action".to_owned(), "join".to_owned()), leaves, ("sure".to_owned(), "yes".to_owned())]);
    let third = world.tenant("third").await;
    let refused = super::submit(&world, &third.cookie, "/invite", &forged).await;
    assert!(refused.page().contains("the invitation is for another address"));
    assert_eq!(world.cli_get(&third.cookie, "organization/list").await.body[0]["id"], json!(third.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unconfirmed_account_is_asked_to_confirm_first() {
    let world = World::start().await;
    let acme = world.tenant("acme").await;
    let account = world.sign_up("other").await;
    let cookie = tests::world::cookie(&account);
    let confirmation = link(&world.mail_to("jo@other.example.com").await);
    let invitation = invite_account(&world, &acme, "jo@other.example.com").await;
    let page = super::open(&world, &cookie, path(&invitation)).await;
    assert!(page.page().contains("Confirm your email address first") && !page.page().contains("and join"));
    for page in ["/console/account", "/console/team", "/console/welcome"] {
        let page = super::open(&world, &cookie, page).await;
        assert!(!page.page().contains("You are invited"), "a stranger may have signed up with the address");
    }
    // The user has now proved that the address is theirs.
    let confirmed = world.confirm(&confirmation).await;
    let [account, team] = ["/console/account", "/console/team"].map(|path| super::open(&world, &cookie, path));
    for page in [confirmed, account.await, team.await] {
        assert!(page.page().contains("You are invited to join <strong>Doe &amp; Co</strong>"), "{}", page.page());
        let to = page.page().split("href=\"").find(|rest| rest.starts_with("/invite?")).expect("a link");
        let to = to.split('"').next().expect("an address").replace("&amp;", "&");
        let invited = super::open(&world, &cookie, &to).await;
        assert!(invited.page().contains("joining deletes it"), "{}", invited.page());
    }
}
