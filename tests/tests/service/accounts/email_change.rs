//! Changes to a verified address: the link sent to the new address, and the link sent to the old one to undo the
//! change.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use tests::{
    Answer, Tenant, World,
    world::{hidden_fields, link, people::PASSWORD},
};

const NEW: &str = "new@example.com";
/// The number of times that each race is repeated.
const ROUNDS: usize = 5;

async fn request(world: &World, who: &Tenant, email: &str) -> Answer {
    world.cli(&who.cookie, "change-email", json!({"newEmail": email})).await
}

/// Requests a change, and returns the link in the email to the new address.
async fn requested(world: &World, who: &Tenant, email: &str) -> String {
    let answer = request(world, who, email).await;
    assert_eq!((answer.status, &answer.body), (200, &json!({"status": true})));
    let mail = world.mail_to(email).await;
    assert_eq!(mail["subject"], "Webhooks: Confirm your new email address");
    link(&mail)
}

/// Changes an address, and returns the link that undoes the change.
async fn changed(world: &World, who: &Tenant, from: &str, to: &str) -> String {
    let link_to_new = requested(world, who, to).await;
    let done = world.confirm(&link_to_new).await;
    assert!(done.status == 200 && done.page().contains("Your email address is changed"), "{done:?}");
    let mail = world.mail_to(from).await;
    assert_eq!(mail["subject"], "Webhooks: The email address of your account was changed");
    assert!(!mail["text"].as_str().expect("a string").contains(to), "{mail}");
    link(&mail)
}

async fn email(world: &World, cookie: &str) -> String {
    world.session(cookie).await.body["user"]["email"].as_str().expect("an address").to_owned()
}

async fn signs_in(world: &World, email: &str) -> bool {
    let answer = world.sign_in(email, PASSWORD).await;
    assert!(answer.status == 200 || answer.refused() == (401, "INVALID_EMAIL_OR_PASSWORD"), "{answer:?}");
    answer.status == 200
}

async fn founds(world: &World, slug: &str, email: &str) -> Answer {
    let mut fields = World::sign_up_fields(slug);
    fields["email"] = json!(email);
    world.rpc("", "auth/signupAndCreateOrg", fields).await
}

/// Ends the reservation of an address.
async fn release(world: &World, email: &str) {
    world.set("users", ("pk", &format!("email#{email}")), json!({"reserved_until": 1})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_the_new_address_changes_it() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let other = world.signed_in(&jo.email, PASSWORD).await;
    let address = json!({"debug_notification_email": jo.email});
    world.rpc(&jo.key, "tenant/settings", address).await.ok();
    assert_eq!(request(&world, &jo, " New@Example.com ").await.status, 200);
    let link = link(&world.mail_to(NEW).await);
    // Opening the link changes nothing.
    let page = world.open(&link).await;
    assert!(page.page().contains("<strong>new@example.com</strong>"), "{}", page.page());
    assert_eq!(email(&world, &jo.cookie).await, jo.email);
    assert!(!signs_in(&world, NEW).await);

    let done = world.confirm(&link).await;
    assert_eq!(done.status, 200);
    assert_eq!(world.confirm(&link).await.status, 400, "the link works once");
    // The session that requested the change and the key are still valid; the other session has ended.
    let session = world.session(&jo.cookie).await.body;
    assert_eq!((&session["user"]["email"], &session["user"]["emailVerified"]), (&json!(NEW), &json!(true)));
    assert!(!world.is_signed_in(&other).await && world.key_works(&jo.key).await);
    assert!(signs_in(&world, NEW).await && !signs_in(&world, &jo.email).await);
    // Notifications go to the owner's new address.
    let settings = world.rpc(&jo.key, "tenant/settings", json!({})).await.ok().clone();
    assert_eq!(settings["debug_notification_email"], NEW);
    let reset = world.mails().await.len();
    world.rpc("", "auth/requestPasswordReset", json!({"email": jo.email})).await.ok();
    assert_eq!(world.mails().await.len(), reset, "the old address has no account");
}

/// Several links to an address can be valid.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_verification_link_keeps_a_requested_change() {
    let (world, old) = (World::start().await, "jo@example.com");
    let cookie = tests::world::cookie(founds(&world, "acme", old).await.ok());
    let first = link(&world.mail_to(old).await);
    assert_eq!(world.cli("", "send-verification-email", json!({"email": old})).await.status, 200);
    let second = link(&world.mail_to(old).await);
    assert_eq!(world.confirm(&first).await.status, 200);
    assert_eq!(world.cli(&cookie, "change-email", json!({"newEmail": NEW})).await.status, 200);
    assert_eq!(world.confirm(&second).await.status, 200);
    let changed = world.confirm(&link(&world.mail_to(NEW).await)).await;
    assert!(changed.page().contains("Your email address is changed"), "{changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_address_undoes_a_change_for_a_day() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let undo = changed(&world, &jo, &jo.email, NEW).await;
    // An intruder controls the new address, a session, a key and the password.
    world.rpc("", "auth/requestPasswordReset", json!({"email": NEW})).await.ok();
    let stolen = link(&world.mail_to(NEW).await);
    // No other account can get the old address in the meantime.
    assert_eq!(founds(&world, "thief", &jo.email).await.error(), (409, "CONFLICT", "email_taken"));
    let thief = world.tenant("other").await;
    request(&world, &thief, &jo.email).await;
    assert_eq!(world.mail_to(&jo.email).await["subject"], "Webhooks: You already have an account");

    let page = world.open(&undo).await;
    assert!(page.page().contains("Undo the change to your email address?"), "{}", page.page());
    assert_eq!(email(&world, &jo.cookie).await, NEW, "opening the link changes nothing");
    let undone = world.confirm(&undo).await;
    assert_eq!(undone.status, 303, "{undone:?}");
    world.is_shut_out(&jo).await;
    assert!(!signs_in(&world, NEW).await && !signs_in(&world, &jo.email).await, "the password no longer works, either");
    let token = stolen.rsplit('=').next().expect("a token");
    let reset = json!({"token": token, "newPassword": "a thief's password"});
    assert_eq!(world.cli("", "reset-password", reset).await.refused(), (400, "INVALID_TOKEN"));
    // The page redirects to the form for a new password.
    let to = undone.headers["location"].to_str().expect("a string");
    let token = to.strip_prefix("/reset-password?token=").expect("a page");
    let reset = json!({"token": token, "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    let cookie = world.signed_in(&jo.email, "a new long password").await;
    assert_eq!(email(&world, &cookie).await, jo.email);
    assert_eq!(world.confirm(&undo).await.status, 400, "the link works once");
    // The new address is available again.
    founds(&world, "free", NEW).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_during_a_change_voids_its_link() {
    let (world, race) = World::racing().await;
    let jo = world.tenant("acme").await;
    let first = requested(&world, &jo, NEW).await;
    let (rival, who) = (Arc::clone(&world), jo.clone());
    race.before_transaction(async move { assert_eq!(request(&rival, &who, "other@example.com").await.status, 200) });
    assert_eq!(world.confirm(&first).await.status, 400);
    assert!(race.is_over());
    assert_eq!(email(&world, &jo.cookie).await, jo.email);
}

/// Otherwise, the intruder's app would lock the owner out.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_removes_a_factor_enabled_meanwhile() {
    let (world, race) = World::racing().await;
    let jo = world.tenant("acme").await;
    let undo = changed(&world, &jo, &jo.email, NEW).await;
    let (rival, intruder) = (Arc::clone(&world), jo.clone());
    race.before_transaction(async move { drop(rival.protect(&intruder).await) });
    let undone = world.confirm(&undo).await;
    assert!(race.is_over() && undone.status == 303, "{undone:?}");
    let to = undone.headers["location"].to_str().expect("a string");
    let token = to.strip_prefix("/reset-password?token=").expect("a page");
    let reset = json!({"token": token, "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    world.signed_in(&jo.email, "a new long password").await;
}

/// An intruder changes the address repeatedly to keep the account.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_takes_back_all_later_changes() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let first = changed(&world, &jo, &jo.email, "one@example.com").await;
    let second = changed(&world, &jo, "one@example.com", "two@example.com").await;
    assert_eq!(world.confirm(&first).await.status, 303);
    assert_eq!(world.confirm(&second).await.status, 400, "the link would give the account to the intruder");
    let token = world.tokens("password_reset").await;
    assert_eq!(token.len(), 1);
    world.rpc("", "auth/requestPasswordReset", json!({"email": jo.email})).await.ok();
    let reset = link(&world.mail_to(&jo.email).await);
    let reset = json!({"token": reset.rsplit('=').next(), "newPassword": PASSWORD});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    assert!(signs_in(&world, &jo.email).await);
    // The same applies if the address is changed more often, because each change sends its own link.
    let jo = Tenant { cookie: world.signed_in(&jo.email, PASSWORD).await, ..jo };
    changed(&world, &jo, &jo.email, "three@example.com").await;
    for void in [&first, &second] {
        assert_eq!(world.confirm(void).await.status, 400);
    }
    assert_eq!(email(&world, &jo.cookie).await, "three@example.com");
}

#[tokio::test(flavor = "multi_thread")]
async fn undoing_a_second_change_keeps_the_first_undo_valid() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let first = changed(&world, &jo, &jo.email, "one@example.com").await;
    let second = changed(&world, &jo, "one@example.com", "two@example.com").await;
    assert_eq!(world.confirm(&second).await.status, 303);
    assert_eq!(world.confirm(&first).await.status, 303);
    let guards = world.items("users").await;
    let key = format!("email#{}", jo.email);
    let guard = guards.iter().find(|item| item["pk"].as_s() == Ok(&key)).expect("a guard");
    assert_eq!(guard["user_id"].as_s(), Ok(&jo.user));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_back_to_the_old_address_can_be_undone() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let undo = changed(&world, &jo, &jo.email, NEW).await;
    // The address is reserved for this user.
    changed(&world, &jo, NEW, &jo.email).await;
    assert!(signs_in(&world, &jo.email).await);
    assert_eq!(world.confirm(&undo).await.status, 303);
    assert!(!signs_in(&world, &jo.email).await);
    assert_eq!(founds(&world, "thief", &jo.email).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_address_is_available_and_not_restored_after_a_day() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let undo = changed(&world, &jo, &jo.email, NEW).await;
    release(&world, &jo.email).await;
    founds(&world, "next", &jo.email).await.ok();
    let refused = world.confirm(&undo).await;
    assert!(refused.status == 400 && refused.page().contains("This address has an account"), "{refused:?}");
    assert_eq!(email(&world, &jo.cookie).await, NEW);
    assert!(signs_in(&world, NEW).await && signs_in(&world, &jo.email).await, "two accounts");
    // An expired link.
    let other = world.tenant("other").await;
    let undo = changed(&world, &other, &other.email, "else@example.com").await;
    world.set("tokens", ("kind", "email_undo"), json!({"expires_at": 1})).await;
    assert_eq!(world.confirm(&undo).await.status, 400);
    assert_eq!(email(&world, &other.cookie).await, "else@example.com");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_request_or_an_ended_session_voids_a_change() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    // A later request invalidates the link.
    let (first, second) = (requested(&world, &jo, NEW).await, requested(&world, &jo, "newer@example.com").await);
    assert_eq!(world.confirm(&first).await.status, 400);
    // The link also becomes invalid when the session that requested it ends, for instance an intruder's session.
    let intruder = Tenant { cookie: world.signed_in(&jo.email, PASSWORD).await, ..jo.clone() };
    let stolen = requested(&world, &intruder, "thief@example.com").await;
    assert_eq!(world.cli(&jo.cookie, "revoke-other-sessions", json!({})).await.status, 200);
    for void in [&stolen, &second] {
        assert_eq!(world.confirm(void).await.status, 400);
    }
    let after = requested(&world, &jo, NEW).await;
    let passwords = json!({"currentPassword": PASSWORD, "newPassword": PASSWORD});
    assert_eq!(world.cli(&jo.cookie, "change-password", passwords).await.status, 200);
    assert_eq!(world.confirm(&after).await.status, 400);
    assert!(signs_in(&world, &jo.email).await);
}

/// A restricted session may only set up the second factor.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_restricted_since_changes_no_address() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let undo = changed(&world, &member, &member.email, "other@example.com").await;
    let link = requested(&world, &member, NEW).await;
    let cookie = world.protect(&owner).await.cookie;
    world.rpc_by_session(&cookie, "tenant/settings", json!({"require_two_factor": true})).await.ok();
    let refused = world.confirm(&link).await;
    assert!(refused.status == 400 && refused.page().contains("a second factor that your organization requires"));
    assert_eq!(email(&world, &member.cookie).await, "other@example.com");
    // The owner of the old address can still take the account back.
    assert_eq!(world.confirm(&undo).await.status, 303);
    assert_eq!(world.cli_get(&member.cookie, "get-session").await.body, json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_reveals_no_account() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let started = std::time::Instant::now();
    let taken = request(&world, &jo, &other.email).await;
    assert!(started.elapsed().as_millis() >= 500);
    assert_eq!((taken.status, &taken.body), (200, &json!({"status": true})));
    assert_eq!(world.mail_to(&other.email).await["subject"], "Webhooks: You already have an account");
    assert!(world.tokens("email_change").await.is_empty());
    // Invalid requests, and callers without a session.
    let same = request(&world, &jo, "JO@acme.example.com").await;
    assert_eq!((same.status, &same.body["message"]), (400, &json!("newEmail: is your address already")));
    assert_eq!(request(&world, &jo, "no address").await.status, 400);
    let by_key = world.http.post(world.url("/api/auth/change-email")).header("x-api-key", &jo.key);
    assert_eq!(world.send(by_key.json(&json!({"newEmail": NEW}))).await.refused(), (401, "UNAUTHORIZED"));
    // The limit per user.
    for round in 0..4 {
        assert_eq!(request(&world, &jo, &format!("n{round}@example.com")).await.status, 200);
    }
    assert_eq!(request(&world, &jo, NEW).await.refused(), (429, "TOO_MANY_REQUESTS"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_address_is_replaced_as_on_the_page() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let cookie = tests::world::cookie(&account);
    let answer = world.cli(&cookie, "change-email", json!({"newEmail": NEW})).await;
    assert_eq!(answer.status, 200);
    let mail = world.mail_to(NEW).await;
    assert_eq!(mail["subject"], "Webhooks: Confirm your email address");
    assert_eq!(world.confirm(&link(&mail)).await.status, 200);
    assert_eq!(email(&world, &cookie).await, NEW);
    // The inviter chose this address.
    let owner = world.tenant("other").await;
    let id = world.invitation(&owner.id, "al@example.com", 4_000_000_000).await;
    let fields = json!({"invitationId": id, "tenantSlug": "other", "name": "Al", "password": PASSWORD});
    let account = world.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
    let cookie = tests::world::cookie(&account);
    let refused = world.cli(&cookie, "change-email", json!({"newEmail": "thief@example.com"})).await;
    assert_eq!(refused.refused(), (403, "EMAIL_NOT_VERIFIED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_users_who_claim_an_address_gets_it() {
    let world = World::start().await;
    for round in 0..ROUNDS {
        let (one, two) = (world.tenant(&format!("one{round}")).await, world.tenant(&format!("two{round}")).await);
        let new = format!("new{round}@example.com");
        let links = [requested(&world, &one, &new).await, requested(&world, &two, &new).await];
        let answers = join_all(links.iter().map(|link| world.confirm(link))).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(statuses == [200, 400] || statuses == [400, 200], "{statuses:?}");
        let has = [email(&world, &one.cookie).await == new, email(&world, &two.cookie).await == new];
        assert_eq!(has, [statuses[0] == 200, statuses[1] == 200]);
        let loser = if has[0] { &two } else { &one };
        assert!(signs_in(&world, &loser.email).await && signs_in(&world, &new).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_signs_up_during_a_change_has_one_account() {
    let world = World::start().await;
    for round in 0..ROUNDS {
        let jo = world.tenant(&format!("acme{round}")).await;
        let new = format!("new{round}@example.com");
        let link = requested(&world, &jo, &new).await;
        let slug = format!("other{round}");
        let (changed, founded) = tokio::join!(world.confirm(&link), founds(&world, &slug, &new));
        let is_changed = email(&world, &jo.cookie).await == new;
        match (changed.status, founded.status) {
            (200, 409) => assert!(is_changed),
            (400, 200) => assert!(!is_changed && signs_in(&world, &jo.email).await),
            _ => panic!("{changed:?} {founded:?}"),
        }
        assert!(signs_in(&world, &new).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_change_and_undo_leave_one_address() {
    let world = World::start().await;
    for round in 0..ROUNDS {
        let jo = world.tenant(&format!("acme{round}")).await;
        let [one, two] = ["one", "two"].map(|name| format!("{name}{round}@example.com"));
        let undo = changed(&world, &jo, &jo.email, &one).await;
        let next = requested(&world, &jo, &two).await;
        let (undone, changed) = tokio::join!(world.confirm(&undo), world.confirm(&next));
        // The undo wins in either order: if it comes first, the change no longer takes effect.
        assert_eq!(undone.status, 303, "{undone:?}");
        assert!([200, 400].contains(&changed.status), "{changed:?}");
        let users = world.items("users").await;
        let text =
            |item: &tests::world::tables::Item, name: &str| item.get(name).and_then(|value| value.as_s().ok().cloned());
        let user = users.iter().find(|item| text(item, "pk") == Some(format!("user#{}", jo.user))).expect("a user");
        assert_eq!(text(user, "email"), Some(jo.email.clone()));
        let guards = users.iter().filter(|item| {
            text(item, "pk").is_some_and(|key| key.starts_with("email#"))
                && text(item, "user_id") == Some(jo.user.clone())
        });
        let guards: Vec<_> = guards.map(|item| text(item, "pk").expect("a key")).collect();
        assert_eq!(guards, [format!("email#{}", jo.email)]);
    }
}

/// Otherwise, the address would be unavailable forever.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_removed_during_a_change_keeps_no_address() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    for round in 0..ROUNDS {
        let bo = world.member(&owner, &format!("bo{round}@example.com"), "member").await;
        let link = requested(&world, &bo, &format!("new{round}@example.com")).await;
        let removal = json!({"memberIdOrEmail": bo.user});
        let (_, removed) =
            tokio::join!(world.confirm(&link), world.cli(&owner.cookie, "organization/remove-member", removal),);
        assert_eq!(removed.status, 200, "{removed:?}");
        let left = world.items("users").await;
        let of = |item: &&tests::world::tables::Item| item.get("user_id").is_some_and(|id| id.as_s() == Ok(&bo.user));
        assert_eq!(left.iter().filter(of).count(), 0, "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_submissions_of_a_link_succeeds() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let link_to_new = requested(&world, &jo, NEW).await;
    let before = world.mails().await.len();
    let answers = join_all((0..6).map(|_| world.confirm(&link_to_new))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    assert_eq!(world.mails().await.len(), before + 1);
    let undo = link(&world.mail_to(&jo.email).await);
    let answers = join_all((0..6).map(|_| world.confirm(&undo))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 303).count(), 1, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_address_of_a_member_can_be_invited_and_not_removed() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let bo = world.member(&owner, "bo@example.com", "member").await;
    changed(&world, &bo, &bo.email, NEW).await;
    let removal = json!({"memberIdOrEmail": bo.email});
    assert_eq!(world.cli(&owner.cookie, "organization/remove-member", removal).await.refused(), (404, "NOT_FOUND"));
    let invitation = json!({"email": bo.email, "role": "member"});
    assert_eq!(world.cli(&owner.cookie, "organization/invite-member", invitation).await.status, 200);
    let removal = json!({"memberIdOrEmail": NEW});
    assert_eq!(world.cli(&owner.cookie, "organization/remove-member", removal).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_page_changes_name_and_address() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let send = async |fields: &[(&str, &str)]| {
        let form = world.http.post(world.url("/console/account")).header("origin", world.stack.api());
        world.send(form.header("cookie", &jo.cookie).form(fields)).await
    };
    let open = async || world.send(world.http.get(world.url("/console/account")).header("cookie", &jo.cookie)).await;
    for (fields, says) in [
        ([("action", "name"), ("name", " ")], "Must have at least 1 character."),
        ([("action", "email"), ("newEmail", "no")], "Must be an email address."),
        ([("action", "email"), ("newEmail", "jo@acme.example.com")], "Is your address already."),
    ] {
        let refused = send(&fields).await;
        assert!(refused.status == 400 && refused.page().contains(says), "{}", refused.page());
    }
    assert_eq!(
        send(&[("action", "name"), ("name", "<b>Jo</b>")]).await.headers["location"],
        "/console/account?did=named"
    );
    assert!(open().await.page().contains("<dd>&lt;b&gt;Jo&lt;/b&gt;</dd>"));
    let asked = send(&[("action", "email"), ("newEmail", NEW)]).await;
    assert_eq!(asked.headers["location"], "/console/account?did=asked");
    assert!(open().await.page().contains("We sent a link to <strong>new@example.com</strong>"));
    let link = link(&world.mail_to(NEW).await);
    let form = hidden_fields(world.open(&link).await.page());
    assert_eq!(form.len(), 1, "{form:?}");
    assert_eq!(world.confirm(&link).await.status, 200);
    let page = open().await;
    assert!(page.page().contains(NEW) && !page.page().contains("We sent a link"), "{}", page.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_changes_their_name() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let renamed = world.cli(&jo.cookie, "update-user", json!({"name": "  Jo Roe "})).await;
    assert_eq!((renamed.status, &renamed.body), (200, &json!({"status": true})));
    assert_eq!(world.session(&jo.cookie).await.body["user"]["name"], "Jo Roe");
    for refused in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "a\u{7}"}),
        json!({"name": null}),
        json!({"name": "Jo", "image": "https://example.com/"}),
        json!({"name": "Jo", "email": NEW}),
    ] {
        assert_eq!(world.cli(&jo.cookie, "update-user", refused.clone()).await.status, 400, "{refused}");
    }
    let by_key = world.http.post(world.url("/api/auth/update-user")).header("x-api-key", &jo.key);
    assert_eq!(world.send(by_key.json(&json!({"name": "Thief"}))).await.status, 401);
    assert_eq!(world.session(&jo.cookie).await.body["user"]["name"], "Jo Roe");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_renames_the_organization_and_the_slug_stays() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let bo = world.member(&jo, "bo@example.com", "member").await;
    let rename = async |who: &Tenant, body| world.cli(&who.cookie, "organization/update", body).await;
    let data = json!({"data": {"name": "Doe & Roe"}});
    let renamed = rename(&jo, data.clone()).await;
    let created = &renamed.body["createdAt"];
    let expected = json!({"id": jo.id, "name": "Doe & Roe", "slug": "acme", "createdAt": created});
    assert_eq!((renamed.status, &renamed.body), (200, &expected));
    assert_eq!(world.cli_get(&bo.cookie, "organization/list").await.body, json!([expected]));
    assert_eq!(rename(&bo, data.clone()).await.refused(), (403, "FORBIDDEN"));
    let other = world.tenant("other").await;
    let foreign = json!({"data": {"name": "Mine"}, "organizationId": jo.id});
    assert_eq!(rename(&other, foreign).await.refused(), (404, "NOT_FOUND"));
    for (body, says) in [
        (json!({}), "data: required"),
        (json!({"data": "x"}), "data: must be an object"),
        (json!({"data": {}}), "data.name: required"),
        (json!({"data": {"name": ""}}), "data.name: must have at least 1 character"),
        (json!({"data": {"name": "x", "slug": "y"}}), "data.slug: is not supported here"),
    ] {
        let refused = rename(&jo, body).await;
        assert_eq!((refused.status, &refused.body["message"]), (400, &json!(says)));
    }
    // The page behaves the same.
    let form = world.http.post(world.url("/console/settings")).header("origin", world.stack.api());
    let form = form.header("cookie", &jo.cookie).form(&[("action", "rename"), ("name", "<i>Roe</i>")]);
    assert_eq!(world.send(form).await.headers["location"], "/console/settings?did=renamed");
    let page = world.send(world.http.get(world.url("/console/settings")).header("cookie", &jo.cookie)).await;
    assert!(page.page().contains("&lt;i&gt;Roe&lt;/i&gt;") && !page.page().contains("<i>Roe"), "{}", page.page());
    let form = world.http.post(world.url("/console/settings")).header("origin", world.stack.api());
    let form = form.header("cookie", &bo.cookie).form(&[("action", "rename"), ("name", "Mine")]);
    assert_eq!(world.send(form).await.status, 403);
}

/// Otherwise, an intruder's app would lock the user out even after the user has regained the address and the password.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_removes_only_a_later_second_factor() {
    let world = World::start().await;
    for (slug, is_later) in [("acme", true), ("other", false)] {
        let mut jo = world.tenant(slug).await;
        if !is_later {
            jo.cookie = world.protect(&jo).await.cookie;
        }
        let undo = changed(&world, &jo, &jo.email, NEW).await;
        if is_later {
            world.protect(&jo).await;
        }
        let undone = world.confirm(&undo).await;
        let to = undone.headers["location"].to_str().expect("a string");
        let token = to.strip_prefix("/reset-password?token=").expect("a page");
        let reset = json!({"token": token, "newPassword": "a new long password"});
        assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
        let answer = world.sign_in(&jo.email, "a new long password").await;
        assert_eq!(answer.body["twoFactorRedirect"] == true, !is_later, "{answer:?}");
        let disabled = world.items("audit").await.into_iter().filter(|item| {
            item["tenant_id"].as_s() == Ok(&jo.id) && item["action"].as_s().is_ok_and(|it| it == "two_factor.disabled")
        });
        assert_eq!(disabled.count(), usize::from(is_later));
    }
}
