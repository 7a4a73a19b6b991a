//! The page after a sign-up, `/console/welcome`.

use serde_json::json;
use tests::{
    Answer, World,
    world::{cookie, link, people::PASSWORD},
};

use super::{filled, follow, location, open, submit};

const PAGE: &str = "/console/welcome";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_account_sees_where_the_link_was_sent_and_resends_it() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let (cookie, email) = (cookie(&account), account["email"].as_str().expect("an address"));
    assert_eq!(location(&open(&world, &cookie, "/console").await), PAGE);
    let page = open(&world, &cookie, PAGE).await;
    assert_eq!(page.status, 200);
    assert!(page.page().contains(&format!("We sent a link to <strong>{email}</strong>.")), "{}", page.page());
    let sent = submit(&world, &cookie, PAGE, &filled(&page, "Resend confirmation email", &[])).await;
    let page = follow(&world, &cookie, &sent).await;
    assert!(page.page().contains("Email sent.") && world.mails().await.len() == 2);
    let link = tests::world::link(&world.mail_to(email).await);
    assert_eq!(world.confirm(&link).await.status, 200);
    for path in [PAGE, "/console/welcome?did=mailed"] {
        assert_eq!(location(&open(&world, &cookie, path).await), "/console");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn continuing_before_the_confirmation_shows_a_notice() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let (cookie, early) = (cookie(&account), format!("{PAGE}?did=unconfirmed"));
    let page = open(&world, &cookie, PAGE).await;
    assert!(page.page().contains("href=\"?did=unconfirmed\"") && page.page().contains("href=\"/docs\""));
    assert!(page.page().contains(">Sign out</button>") && page.page().contains("invite teammates"));
    let answered = "Your address is not confirmed yet.";
    assert!(!page.page().contains(answered) && open(&world, &cookie, &early).await.page().contains(answered));
    world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await;
    assert_eq!(location(&open(&world, &cookie, &early).await), "/console");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_an_invited_member_omits_tasks_of_owners() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let invited = json!({"email": "al@example.com", "role": "member", "organizationId": owner.id});
    let invited = world.cli(&owner.cookie, "organization/invite-member", invited).await.body;
    let fields = json!({
        "invitationId": invited["id"], "tenantSlug": owner.slug, "name": "Al", "password": PASSWORD,
    });
    let account = world.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
    let page = open(&world, &cookie(&account), PAGE).await;
    assert!(page.page().contains("create API keys.") && !page.page().contains("invite teammates"), "{}", page.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_resends_are_refused_on_the_page() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let form = [("action".to_owned(), "verify".to_owned())];
    let refused = loop {
        let answer = submit(&world, &cookie, PAGE, &form).await;
        if answer.status != 303 {
            break answer;
        }
        assert!(world.mails().await.len() < 20, "there is a limit");
    };
    assert_eq!(refused.status, 429);
    assert!(refused.page().contains("Too many attempts") && refused.page().contains("We sent a link to"));
    let unknown = submit(&world, &cookie, PAGE, &[("action".to_owned(), "x".to_owned())]).await;
    assert_eq!(unknown.status, 404);
}

/// Enters a different address on the welcome page.
async fn replace(world: &World, cookie: &str, email: &str) -> Answer {
    let page = open(world, cookie, PAGE).await;
    submit(world, cookie, PAGE, &filled(&page, "Change address", &[("email", email)])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_is_replaced_once_the_right_one_is_confirmed() {
    let world = World::start().await;
    let mut fields = World::sign_up_fields("acme");
    fields["debugNotificationEmail"] = fields["email"].clone();
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let (cookie, old, new) = (cookie(&account), "jo@acme.example.com", "right@example.com");
    let wrong = link(&world.mail_to(old).await);
    let sent = replace(&world, &cookie, " Right@Example.com ").await;
    assert_eq!(location(&sent), "/console/welcome?did=replaced");
    let page = follow(&world, &cookie, &sent).await;
    for says in ["Email sent to the new address.", "We sent a link to <strong>right@example.com</strong>.", old] {
        assert!(page.page().contains(says), "{says} is missing from {}", page.page());
    }
    assert_eq!(world.confirm(&wrong).await.status, 400, "the link sent to the old address is invalid");
    assert_eq!(world.session(&cookie).await.body["user"]["email"], old, "the new address is not confirmed yet");
    assert_eq!(world.sign_in(new, PASSWORD).await.status, 401);

    let resent = submit(&world, &cookie, PAGE, &filled(&page, "Resend confirmation email", &[])).await;
    assert_eq!(resent.status, 303);
    assert_eq!(world.confirm(&link(&world.mail_to(new).await)).await.status, 200);
    let user = world.session(&cookie).await.body["user"].clone();
    assert_eq!((&user["email"], &user["emailVerified"]), (&json!(new), &json!(true)));
    assert_eq!((world.sign_in(old, PASSWORD).await.status, world.sign_in(new, PASSWORD).await.status), (401, 200));
    let settings = world.rpc_by_session(&cookie, "tenant/settings", json!({})).await.ok().clone();
    assert_eq!(settings["debug_notification_email"], new, "the account's address was also the notification address");
    // The old address is available.
    let mut other = World::sign_up_fields("other");
    other["email"] = json!(old);
    world.rpc("", "auth/signupAndCreateOrg", other).await.ok();
    let late = replace_by_form(&world, &cookie, "third@example.com").await;
    assert_eq!(location(&late), "/console/welcome?did=confirmed", "a second tab is too late");
    assert_eq!(world.session(&cookie).await.body["user"]["email"], new);
}

async fn replace_by_form(world: &World, cookie: &str, email: &str) -> Answer {
    let form = [("action".to_owned(), "replace".to_owned()), ("email".to_owned(), email.to_owned())];
    submit(world, cookie, PAGE, &form).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_two_replacements_counts() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let mut links = Vec::new();
    for email in ["one@example.com", "two@example.com"] {
        assert_eq!(replace(&world, &cookie, email).await.status, 303);
        links.push(link(&world.mail_to(email).await));
    }
    assert_eq!(world.confirm(&links[0]).await.status, 400);
    assert_eq!(world.confirm(&links[1]).await.status, 200);
    assert_eq!(world.session(&cookie).await.body["user"]["email"], "two@example.com");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_does_not_reveal_other_accounts() {
    let world = World::start().await;
    let owner = world.tenant("owner").await;
    let cookie = cookie(&world.sign_up("acme").await);
    let before = world.mails().await.len();
    let mut answers = Vec::new();
    for email in ["free@example.com", &owner.email] {
        let sent = replace(&world, &cookie, email).await;
        let page = follow(&world, &cookie, &sent).await;
        let user = world.session(&cookie).await.body["user"].clone();
        answers.push((location(&sent).to_owned(), page.page().replace(email, "x"), user));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(world.mails().await.len(), before + 2);
    let mail = world.mail_to(&owner.email).await;
    assert_eq!(mail["subject"], "Webhooks: You already have an account");
    assert!(!mail.to_string().contains("verify-email") && !mail.to_string().contains("acme"), "{mail}");
    assert_eq!(world.sign_in(&owner.email, PASSWORD).await.body["user"]["id"], owner.user);

    // If another account gets the address between the email and the click, that account keeps the address.
    assert_eq!(replace(&world, &cookie, "free@example.com").await.status, 303);
    let late = link(&world.mail_to("free@example.com").await);
    let mut fields = World::sign_up_fields("free");
    fields["email"] = json!("free@example.com");
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let page = world.confirm(&late).await;
    assert!(page.status == 400 && page.page().contains("This address has an account"), "{page:?}");
    assert_eq!(world.session(&cookie).await.body["user"]["emailVerified"], false);
    assert_eq!(world.session(&tests::world::cookie(&account)).await.body["user"]["email"], "free@example.com");
}

/// Otherwise, unverified accounts could make the service send unlimited emails to a stranger.
#[tokio::test(flavor = "multi_thread")]
async fn replacements_are_limited_for_a_user_and_for_an_address() {
    let world = World::start().await;
    let to_victim =
        async || world.mails().await.iter().filter(|mail| mail["to"] == json!(["victim@example.com"])).count();
    let mut cookies = Vec::new();
    for number in 0..7 {
        cookies.push(cookie(&world.sign_up(&format!("org-{number}")).await));
        let last = replace_by_form(&world, &cookies[number], "victim@example.com").await;
        // Others may have used up the limit, so only the email is withheld.
        assert_eq!(last.status, 303);
    }
    assert_eq!(to_victim().await, 5);
    for cookie in &cookies[..5] {
        for _ in 0..3 {
            submit(&world, cookie, PAGE, &[("action".to_owned(), "verify".to_owned())]).await;
        }
        // The API accepts the account's address.
        world
            .cli("", "send-verification-email", json!({"email": world.session(cookie).await.body["user"]["email"]}))
            .await;
    }
    assert_eq!(to_victim().await, 10, "five more after resends");
    let own = cookie(&world.sign_up("own").await);
    let mut statuses = Vec::new();
    for number in 0..6 {
        statuses.push(replace_by_form(&world, &own, &format!("a{number}@example.com")).await.status);
    }
    assert_eq!(statuses, [303, 303, 303, 303, 303, 429]);
    let bad = replace_by_form(&world, &own, "no address").await;
    assert!(bad.status == 400 && bad.page().contains("<details open>") && bad.page().contains(" autofocus"), "{bad:?}");
}
