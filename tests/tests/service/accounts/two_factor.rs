//! The second factor: setting it up, signing in with it, and losing it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, Authenticator, Browser, Call, Tenant, World, sample_event, text,
    world::{cookie, faults::Switch, link, people::PASSWORD, set_cookie},
};
use tokio::task::block_in_place;

const WRONG_CODE: (u16, &str) = (401, "INVALID_CODE");
const WRONG_BACKUP_CODE: (u16, &str) = (401, "INVALID_BACKUP_CODE");
const NO_SIGN_IN: (u16, &str) = (401, "INVALID_TWO_FACTOR_COOKIE");

async fn enable(world: &World, who: &Tenant) -> Answer {
    world.cli(&who.cookie, "two-factor/enable", json!({"password": PASSWORD})).await
}

async fn disable(world: &World, cookie: &str) -> Answer {
    world.cli(cookie, "two-factor/disable", json!({"password": PASSWORD})).await
}

/// A user's item.
async fn stored(world: &World, id: &str) -> tests::world::tables::Item {
    let key = format!("user#{id}");
    let items = world.items("users").await;
    items.into_iter().find(|item| item["pk"].as_s().is_ok_and(|pk| *pk == key)).expect("a user")
}

/// Enters a code from a public IP address to finish the sign-in with this cookie. Returns the status.
async fn enter_from(world: &World, client: &str, cookie: &str, code: &str) -> u64 {
    let mut event = sample_event("auth-account");
    event["rawPath"] = json!("/api/auth/two-factor/verify-totp");
    event["requestContext"]["http"]["method"] = json!("POST");
    event["requestContext"]["http"]["sourceIp"] = json!(client);
    event["body"] = json!(json!({ "code": code }).to_string());
    event["headers"]["origin"] = json!(world.stack.api());
    event["cookies"] = json!([cookie]);
    let answer = world.stack.invoke("auth-account", event).await.expect("an answer");
    answer["statusCode"].as_u64().expect("a status")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_counts_after_its_first_code() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let first = enable(&world, &jo).await;
    assert_eq!((first.status, &first.body["method"]), (200, &json!("totp")));
    let uri = text(&first.body["totpURI"]);
    assert!(uri.starts_with("otpauth://totp/Webhooks:jo%40acme.example.com?secret="), "{uri}");
    assert_eq!(first.body["backupCodes"].as_array().map(Vec::len), Some(10));
    // Until a code is entered, nothing changes, and a second secret replaces the first.
    assert_eq!(world.is_protected(&jo.cookie).await, false);
    assert_eq!(world.is_protected(&world.signed_in(&jo.email, PASSWORD).await).await, false);
    let renew = json!({"password": PASSWORD});
    let refused = world.cli(&jo.cookie, "two-factor/generate-backup-codes", renew).await;
    assert_eq!(refused.refused(), (400, "TWO_FACTOR_NOT_ENABLED"));
    let early = world.enter_backup_code(&jo.cookie, text(&first.body["backupCodes"][0])).await;
    assert_eq!(early.refused(), (400, "TWO_FACTOR_NOT_ENABLED"));
    let second = enable(&world, &jo).await;
    let (old, app) = (Authenticator::new(uri), Authenticator::new(text(&second.body["totpURI"])));
    for wrong in [app.wrong_code(), old.code(0), String::new()] {
        assert_eq!(world.enter_code(&jo.cookie, &wrong).await.refused(), WRONG_CODE);
    }
    let elsewhere = world.signed_in(&jo.email, PASSWORD).await;

    let verified = world.enter_code(&jo.cookie, &app.code(0)).await;
    let user = json!({
        "id": jo.user, "email": jo.email, "name": "Jo Doe", "emailVerified": true, "twoFactorEnabled": true,
    });
    assert_eq!((verified.status, &verified.body["user"]), (200, &user));
    let cookie = set_cookie(&verified, "session_token");
    assert_eq!(cookie, format!("session_token={}", text(&verified.body["token"])));
    assert_eq!(world.is_protected(&cookie).await, true);
    // Sessions that began without the second factor have ended.
    for ended in [&jo.cookie, &elsewhere] {
        assert!(!world.is_signed_in(ended).await);
    }
    assert!(world.key_works(&jo.key).await && world.is_signed_in(&other.cookie).await);
    assert_eq!(enable(&world, &Tenant { cookie, ..jo.clone() }).await.refused(), (400, "TOTP_ALREADY_ENABLED"));
    assert_eq!(world.is_protected(&other.cookie).await, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_needs_the_password_and_a_code() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let app = world.protect(&jo).await.app;
    assert_eq!(world.sign_in(&jo.email, "a wrong password").await.refused(), (401, "INVALID_EMAIL_OR_PASSWORD"));
    let answer = world.sign_in(&jo.email, PASSWORD).await;
    let set: Vec<_> = answer.headers.get_all("set-cookie").iter().map(|set| set.to_str().expect("a string")).collect();
    assert!(set[0].ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=300") && set[0].starts_with("two_factor="));
    assert_eq!(set[1], "session_token=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    let pending = set_cookie(&answer, "two_factor");
    // The cookie does not work as a session, neither under its own name nor under the name of the session cookie.
    let as_session = pending.replace("two_factor=", "session_token=");
    for cookie in [&pending, &as_session] {
        assert!(!world.is_signed_in(cookie).await);
        assert_eq!(world.rpc_by_session(cookie, "webhooks/list", json!({})).await.status, 401);
    }
    let as_pending = jo.cookie.replace("session_token=", "two_factor=");
    for cookie in ["", "two_factor=x", &as_pending, &as_session] {
        assert_eq!(world.enter_code(cookie, &app.code(0)).await.refused(), NO_SIGN_IN, "{cookie}");
    }
    assert_eq!(world.enter_code(&pending, &app.wrong_code()).await.refused(), WRONG_CODE);
    let finished = world.enter_code(&pending, &app.code(0)).await;
    assert_eq!((finished.status, &finished.body["user"]["twoFactorEnabled"]), (200, &json!(true)), "{finished:?}");
    assert_eq!(set_cookie(&finished, "two_factor"), "two_factor=");
    assert!(world.is_signed_in(&set_cookie(&finished, "session_token")).await);
    assert_eq!(world.enter_code(&pending, &app.code(1)).await.refused(), NO_SIGN_IN, "a sign-in is finished once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_works_once() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let (app, session) = (&protected.app, &protected.cookie);
    let code = app.code(0);
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_code(&pending, &code).await.status, 200);
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    for used in [&code, &app.code(-1)] {
        assert_eq!(world.enter_code(&pending, used).await.refused(), WRONG_CODE);
        assert_eq!(world.enter_code(session, used).await.refused(), WRONG_CODE, "a session does not help");
    }
    assert_eq!(world.enter_code(&pending, &app.code(1)).await.status, 200);
    // A signed-in user can check a code, which uses it up.
    world.forget_used_code(&jo.user).await;
    let checked = world.enter_code(session, &app.code(0)).await;
    assert_eq!((checked.status, &checked.body["user"]["id"]), (200, &json!(jo.user)));
    assert!(!checked.headers.contains_key("set-cookie") && session.ends_with(text(&checked.body["token"])));
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.refused(), WRONG_CODE);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_code_that_enabled_it_does_not_sign_in() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let app = Authenticator::new(text(&enable(&world, &jo).await.body["totpURI"]));
    let code = app.code(0);
    assert_eq!(world.enter_code(&jo.cookie, &code).await.status, 200);
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_code(&pending, &code).await.refused(), WRONG_CODE);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_uses_of_a_code_one_wins() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let pending = join_all((0..6).map(|_| world.begin_sign_in(&jo.email, PASSWORD))).await;
    let code = protected.app.code(0);
    let answers = join_all(pending.iter().map(|cookie| world.enter_code(cookie, &code))).await;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.refused() == WRONG_CODE), "{answers:?}");

    let backup = &protected.backup_codes[0];
    let pending = join_all((0..3).map(|_| world.begin_sign_in(&jo.email, PASSWORD))).await;
    let answers = join_all(pending.iter().map(|cookie| world.enter_backup_code(cookie, backup))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_codes_for_a_sign_in_one_wins() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    let codes = &protected.backup_codes;
    let answers = join_all(codes.iter().take(5).map(|code| world.enter_backup_code(&pending, code))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.refused() == NO_SIGN_IN), "{answers:?}");
    // The codes in the rejected calls are still unused.
    let left = stored(&world, &jo.user).await["backup_codes"].as_ss().expect("a set").len();
    assert_eq!(left, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_backup_code_signs_in_once() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (protected, others) = (world.protect(&jo).await, world.protect(&other).await);
    let codes = &protected.backup_codes;
    assert_eq!(codes.iter().collect::<BTreeSet<_>>().len(), 10);
    let item = format!("{:?}", stored(&world, &jo.user).await);
    assert!(codes.iter().all(|code| !item.contains(code) && !item.contains(&code.replace('-', ""))), "only hashes");
    let before = world.mails().await.len();
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    for wrong in [&others.backup_codes[0], "", "aaaa-aaaa-aaaa-aaaa"] {
        assert_eq!(world.enter_backup_code(&pending, wrong).await.refused(), WRONG_BACKUP_CODE);
    }
    let typed = format!(" {} ", codes[0].to_uppercase().replace('-', " "));
    let finished = world.enter_backup_code(&pending, &typed).await;
    assert_eq!((finished.status, &finished.body["user"]["id"]), (200, &json!(jo.user)), "{finished:?}");
    let session = set_cookie(&finished, "session_token");
    let mails: Vec<_> = world.mails().await.split_off(before);
    assert_eq!((mails.len(), text(&mails[0]["subject"])), (1, "Webhooks: A backup code was used to sign in"));
    assert!(text(&mails[0]["text"]).contains("9 of your backup codes are left."), "{}", mails[0]);

    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_backup_code(&pending, &codes[0]).await.refused(), WRONG_BACKUP_CODE);
    // New codes replace all earlier ones.
    let renewed = world.cli(&session, "two-factor/generate-backup-codes", json!({"password": PASSWORD})).await;
    assert_eq!((renewed.status, &renewed.body["status"]), (200, &json!(true)));
    let new = text(&renewed.body["backupCodes"][9]);
    assert_eq!(world.enter_backup_code(&pending, &codes[1]).await.refused(), WRONG_BACKUP_CODE);
    assert_eq!(world.enter_backup_code(&pending, new).await.status, 200);
}

/// A thief with a session could otherwise use up the codes unnoticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_code_used_in_a_session_is_recorded_and_reported() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let before = world.mails().await.len();
    let used = async || {
        let entries = world.rpc(&jo.key, "audit/list", json!({"action": "two_factor.code_used"})).await.ok().clone();
        entries["entries"].as_array().expect("entries").clone()
    };
    assert_eq!(world.enter_backup_code(&protected.cookie, "wrong").await.refused(), WRONG_BACKUP_CODE);
    assert_eq!(world.enter_code(&protected.cookie, &protected.app.code(1)).await.status, 200);
    assert_eq!((used().await.len(), world.mails().await.len()), (0, before), "nothing was used up");
    let codes = &protected.backup_codes;
    let answers = join_all((0..3).map(|_| world.enter_backup_code(&protected.cookie, &codes[0]))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    assert_eq!(world.enter_backup_code(&protected.cookie, &codes[1]).await.status, 200);
    let entries = used().await;
    assert_eq!((entries.len(), &entries[0]["actor"]["email"]), (2, &json!(jo.email)), "{entries:?}");
    let mails = world.mails().await.split_off(before);
    assert_eq!((mails.len(), text(&mails[1]["subject"])), (2, "Webhooks: A backup code was used"));
    assert!(text(&mails[1]["text"]).contains("8 of your backup codes are left."), "{}", mails[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_codes_are_counted_at_their_client() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let (app, wrong) = (&protected.app, protected.app.wrong_code());
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    for _ in 0..9 {
        assert_eq!(world.enter_code(&pending, &wrong).await.refused(), WRONG_CODE);
    }
    // Another sign-in does not reset the count, and both kinds of codes count.
    let again = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_backup_code(&again, "x").await.refused(), WRONG_BACKUP_CODE);
    let refused = world.enter_code(&again, &app.code(0)).await;
    assert_eq!(refused.refused(), (429, "TOO_MANY_REQUESTS"));
    let wait: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
    assert!((3_000..=3_600).contains(&wait), "{wait}");
    assert_eq!(world.enter_backup_code(&pending, &protected.backup_codes[0]).await.status, 429);
    // Other clients can still sign in, and the code is still unused.
    assert_eq!(enter_from(&world, "203.0.113.1", &again, &app.code(0)).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn distributed_guesses_of_codes_are_limited() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let app = world.protect(&jo).await.app;
    let wrong = app.wrong_code();
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    for number in 0..100 {
        assert_eq!(enter_from(&world, &format!("203.0.113.{}", number / 9), &pending, &wrong).await, 401);
    }
    assert_eq!(enter_from(&world, "198.51.100.1", &pending, &app.code(0)).await, 429);
    // The user signed up from this client, so it is known.
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.status, 200);
    // A password reset does not help a stranger who can read the user's email.
    let token = {
        world.cli("", "request-password-reset", json!({"email": jo.email})).await;
        link(&world.mail_to(&jo.email).await).split_once("?token=").expect("a token").1.to_owned()
    };
    let new = "a new long password";
    assert_eq!(world.cli("", "reset-password", json!({"token": token, "newPassword": new})).await.status, 200);
    world.forget_used_code(&jo.user).await;
    let pending = world.begin_sign_in(&jo.email, new).await;
    assert_eq!(enter_from(&world, "198.51.100.1", &pending, &app.code(0)).await, 429);
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.status, 200);
}

/// Otherwise, a stranger who signed up with an address could lock out the owner of that address.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_needs_a_verified_address() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let (cookie, email) = (cookie(&account), text(&account["email"]));
    let (password, unverified) = (json!({"password": PASSWORD}), (403, "EMAIL_NOT_VERIFIED"));
    assert_eq!(world.cli(&cookie, "two-factor/enable", password.clone()).await.refused(), unverified);
    let browser = Browser::new(&world, &cookie);
    assert_eq!(browser.open("/console/two-factor").await.headers["location"], "/console/welcome");
    let verification = link(&world.mail_to(email).await);
    assert_eq!(world.confirm(&verification).await.status, 200);
    let enrolled = world.cli(&cookie, "two-factor/enable", password).await;
    let app = Authenticator::new(text(&enrolled.body["totpURI"]));
    // The first code also requires a verified address.
    let key = format!("user#{}", text(&account["userId"]));
    world.set("users", ("pk", &key), json!({"email_verified": false})).await;
    assert_eq!(world.enter_code(&cookie, &app.code(0)).await.refused(), unverified);
    world.set("users", ("pk", &key), json!({"email_verified": true})).await;
    assert_eq!(world.enter_code(&cookie, &app.code(0)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_verifies_an_address_removes_it() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let key = world.key(&jo.cookie, json!({"kind": "organization"})).await;
    world.protect(&jo).await;
    // Simulates an account from before the address had to be verified.
    world.set("users", ("pk", &format!("user#{}", jo.user)), json!({"email_verified": false})).await;
    world.cli("", "request-password-reset", json!({"email": jo.email})).await;
    let reset = link(&world.mail_to(&jo.email).await);
    let reset = json!({"token": reset.split_once("?token=").expect("a token").1, "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    let cookie = world.signed_in(&jo.email, "a new long password").await;
    assert_eq!(world.is_protected(&cookie).await, false);
    let item = stored(&world, &jo.user).await;
    let left = ["totp_secret", "two_factor_since", "totp_step", "backup_codes"];
    assert!(left.iter().all(|attribute| !item.contains_key(*attribute)), "{item:?}");
    let listed = world.rpc(&key, "audit/list", json!({"action": "two_factor.disabled"})).await;
    assert_eq!(listed.ok()["entries"][0]["actor"]["id"], json!(jo.user));
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_without_the_password_lock_no_user_out() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let app = world.protect(&jo).await.app;
    for number in 0..40 {
        let forged = format!("two_factor={}", "A".repeat(42) + if number % 2 == 0 { "A" } else { "E" });
        assert_eq!(world.enter_code(&forged, "123456").await.refused(), NO_SIGN_IN);
    }
    let counters: Vec<_> = ["code", "code_anywhere"].into_iter().map(|kind| world.tokens(kind)).collect();
    assert!(join_all(counters).await.iter().all(Vec::is_empty), "nothing was counted");
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_session_cannot_guess_codes_or_weaken_it() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    // Enabling the second factor used one of the ten attempts.
    for _ in 0..9 {
        let refused = world.enter_code(&protected.cookie, &protected.app.wrong_code()).await;
        assert_eq!(refused.refused(), WRONG_CODE);
    }
    assert_eq!(world.enter_code(&protected.cookie, &protected.app.code(0)).await.status, 429);
    let wrong = json!({"password": "a wrong password"});
    for route in ["enable", "disable", "generate-backup-codes", "get-totp-uri"] {
        let refused = world.cli(&protected.cookie, &format!("two-factor/{route}"), wrong.clone()).await;
        assert_eq!(refused.refused(), (400, "INVALID_PASSWORD"), "{route}");
        let missing = world.cli(&protected.cookie, &format!("two-factor/{route}"), json!({})).await;
        assert_eq!(missing.body["issues"][0]["path"], json!(["password"]), "{route}");
        let right = json!({"password": PASSWORD});
        assert_eq!(world.cli("", &format!("two-factor/{route}"), right.clone()).await.status, 401, "{route}");
        assert_eq!(world.post_by_key(&jo.key, &format!("two-factor/{route}"), right).await.status, 401, "{route}");
    }
    // Attempts to finish a sign-in are counted separately.
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_code(&pending, &protected.app.code(0)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_ends_after_five_minutes_or_with_all_sessions() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let code = protected.app.code(1);
    let late = world.begin_sign_in(&jo.email, PASSWORD).await;
    world
        .set_where(
            "tokens",
            |item| item["kind"].as_s().is_ok_and(|kind| kind == "pending_sign_in"),
            &json!({
                "expires_at": 1_700_000_000,
            }),
        )
        .await;
    assert_eq!(world.enter_code(&late, &code).await.refused(), NO_SIGN_IN);
    let ended = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.cli(&protected.cookie, "revoke-other-sessions", json!({})).await.status, 200);
    assert_eq!(world.enter_code(&ended, &code).await.refused(), NO_SIGN_IN);
    let disabled = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(disable(&world, &protected.cookie).await.status, 200);
    assert_eq!(world.enter_code(&disabled, &code).await.refused(), NO_SIGN_IN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_password_and_a_new_address_keep_it() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let begun = world.begin_sign_in(&jo.email, PASSWORD).await;
    world.cli("", "request-password-reset", json!({"email": jo.email})).await;
    let token = link(&world.mail_to(&jo.email).await).split_once("?token=").expect("a token").1.to_owned();
    let new = "a new long password";
    assert_eq!(world.cli("", "reset-password", json!({"token": token, "newPassword": new})).await.status, 200);
    assert_eq!(world.enter_code(&begun, &protected.app.code(0)).await.refused(), NO_SIGN_IN, "it predates the change");
    let pending = world.begin_sign_in(&jo.email, new).await;
    let finished = world.enter_code(&pending, &protected.app.code(0)).await;
    let session = set_cookie(&finished, "session_token");

    let asked = world.cli(&session, "change-email", json!({"newEmail": "new@example.com"})).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    assert_eq!(world.confirm(&link(&world.mail_to("new@example.com").await)).await.status, 200);
    let pending = world.begin_sign_in("new@example.com", new).await;
    assert_eq!(world.enter_backup_code(&pending, &protected.backup_codes[0]).await.status, 200);
    // Undoing the change removes the second factor, too.
    let undo = link(&world.mail_to(&jo.email).await);
    assert_eq!(world.confirm(&undo).await.status, 303, "the page leads to the form for a new password");
    assert!(stored(&world, &jo.user).await.contains_key("two_factor_since"));
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_it_ends_the_other_sessions() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let protected = world.protect(&jo).await;
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    let other = set_cookie(&world.enter_code(&pending, &protected.app.code(0)).await, "session_token");
    let disabled = disable(&world, &protected.cookie).await;
    assert_eq!((disabled.status, &disabled.body), (200, &json!({"status": true})));
    let session = set_cookie(&disabled, "session_token");
    assert_eq!(world.is_protected(&session).await, false);
    for ended in [&protected.cookie, &other] {
        assert!(!world.is_signed_in(ended).await);
    }
    assert!(world.key_works(&jo.key).await);
    let user = stored(&world, &jo.user).await;
    for gone in ["totp_secret", "totp_step", "backup_codes", "two_factor_since"] {
        assert!(!user.contains_key(gone), "{gone}");
    }
    let mails = world.mails().await;
    let subjects: Vec<_> = mails.iter().map(|mail| text(&mail["subject"])).collect();
    assert!(subjects.ends_with(&[
        "Webhooks: Two-factor authentication was enabled",
        "Webhooks: Two-factor authentication was disabled"
    ]));
    // Without a second factor, there is nothing to do except cancel an unfinished setup.
    assert!(!disable(&world, &session).await.headers.contains_key("set-cookie"));
    let jo = Tenant { cookie: session, ..jo };
    let app = Authenticator::new(text(&enable(&world, &jo).await.body["totpURI"]));
    assert_eq!(disable(&world, &jo.cookie).await.status, 200);
    assert_eq!(world.enter_code(&jo.cookie, &app.code(0)).await.refused(), (400, "TOTP_NOT_ENABLED"));
    assert_eq!(world.is_protected(&world.signed_in(&jo.email, PASSWORD).await).await, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_changes_leave_all_or_nothing_of_it() {
    let world = World::start().await;
    for round in 0..5 {
        let jo = world.tenant(&format!("acme-{round}")).await;
        let app = Authenticator::new(text(&enable(&world, &jo).await.body["totpURI"]));
        let code = app.code(0);
        let password = json!({"password": PASSWORD});
        let (verified, again, enabled, disabled) = tokio::join!(
            world.enter_code(&jo.cookie, &code),
            world.enter_code(&jo.cookie, &code),
            world.cli(&jo.cookie, "two-factor/enable", password.clone()),
            world.cli(&jo.cookie, "two-factor/disable", password.clone()),
        );
        assert!(verified.status != 200 || again.status != 200 || !again.headers.contains_key("set-cookie"));
        for answer in [&verified, &again, &enabled, &disabled] {
            assert!(matches!(answer.status, 200 | 400 | 401 | 503), "{answer:?}");
        }
        let user = stored(&world, &jo.user).await;
        if user.contains_key("two_factor_since") {
            assert!(user.contains_key("totp_secret") && user.contains_key("backup_codes"), "{user:?}");
            let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
            assert_eq!(world.enter_code(&pending, &app.code(1)).await.status, 200, "this app is the verified one");
        } else {
            world.signed_in(&jo.email, PASSWORD).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_uses_up_nothing() {
    let (world, fails) = World::failing(|call| call.operation == "TransactWriteItems").await;
    let jo = world.tenant("acme").await;
    let app = Authenticator::new(text(&enable(&world, &jo).await.body["totpURI"]));
    fails.on();
    assert_eq!(world.enter_code(&jo.cookie, &app.code(0)).await.status, 500);
    fails.off();
    assert_eq!(world.is_protected(&jo.cookie).await, false, "the session continues without a second factor");
    assert_eq!(world.enter_code(&jo.cookie, &app.code(0)).await.status, 200);
    world.forget_used_code(&jo.user).await;
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    fails.on();
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.status, 500);
    fails.off();
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.status, 200, "neither code nor sign-in is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_not_served_are_refused() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let all: [(&str, &str, Value); 6] = [
        ("enable", "issuer", json!("Acme")),
        ("enable", "method", json!("otp")),
        ("verify-totp", "trustDevice", json!(true)),
        ("verify-totp", "trustDevice", json!(false)),
        ("verify-backup-code", "trustDevice", json!(true)),
        ("verify-backup-code", "disableSession", json!(true)),
    ];
    for (route, name, value) in all {
        let fields = json!({"password": PASSWORD, "code": "123456", name: value});
        let refused = world.cli(&jo.cookie, &format!("two-factor/{route}"), fields).await;
        assert_eq!((refused.status, &refused.body["issues"][0]["path"]), (400, &json!([name])), "{route}");
    }
    let served = json!({"password": PASSWORD, "method": "totp"});
    assert_eq!(world.cli(&jo.cookie, "two-factor/enable", served).await.status, 200);
    for absent in ["send-otp", "verify-otp", "view-backup-codes"] {
        assert_eq!(world.cli(&jo.cookie, &format!("two-factor/{absent}"), json!({})).await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_for_another_app_needs_the_password() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let password = json!({"password": PASSWORD});
    let nothing = world.cli(&jo.cookie, "two-factor/get-totp-uri", password.clone()).await;
    assert_eq!(nothing.refused(), (400, "TOTP_NOT_ENABLED"));
    let protected = world.protect(&jo).await;
    let before = world.mails().await.len();
    let answer = world.cli(&protected.cookie, "two-factor/get-totp-uri", password.clone()).await;
    assert_eq!(Authenticator::new(text(&answer.body["totpURI"])).code(0), protected.app.code(0));
    assert_eq!(world.cli(&protected.cookie, "two-factor/generate-backup-codes", password).await.status, 200);
    let subjects: Vec<_> = world.mails().await.into_iter().skip(before).map(|mail| mail["subject"].clone()).collect();
    let expected =
        ["Webhooks: The setup key for authenticator apps was shown", "Webhooks: Your backup codes were replaced"];
    assert_eq!(subjects, expected, "an intruder cannot copy the second factor unnoticed");
}

/// A sign-in clears the cookie of any earlier session, so a session in the same browser must have begun later.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_counts_before_an_unfinished_sign_in() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let protected = world.protect(&jo).await;
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    let enrolled = world.cli(&other.cookie, "two-factor/enable", json!({"password": PASSWORD})).await;
    let app = Authenticator::new(text(&enrolled.body["totpURI"]));
    let both = format!("{pending}; {}", other.cookie);
    let enabled = world.enter_code(&both, &app.code(0)).await;
    assert_eq!((enabled.status, &enabled.body["user"]["id"]), (200, &json!(other.user)), "{enabled:?}");
    // Once the session has ended, the code finishes the sign-in.
    let finished = world.enter_code(&both, &protected.app.code(0)).await;
    assert_eq!((finished.status, &finished.body["user"]["id"]), (200, &json!(jo.user)), "{finished:?}");
}

/// Otherwise, one of the callers would be left with codes that do not work.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_new_backup_codes_are_refused_but_once() {
    const CALLS: usize = 3;
    // No set of codes is written until all calls have read the previous set.
    let (all_have_read, is_racing, writes) = (Barrier::new(CALLS), Switch::default(), AtomicUsize::new(0));
    let races = is_racing.clone();
    let world = World::answering(&[], move |call| {
        let is_write = call.operation == "TransactWriteItems" && call.body.to_string().contains("backup_codes");
        if races.is_on() && is_write && writes.fetch_add(1, Ordering::Relaxed) < CALLS {
            block_in_place(|| all_have_read.wait());
        }
        None
    })
    .await;
    let jo = world.tenant("acme").await;
    let session = world.protect(&jo).await.cookie;
    let renew = || world.cli(&session, "two-factor/generate-backup-codes", json!({"password": PASSWORD}));
    is_racing.on();
    let answers = join_all([renew(), renew(), renew()]).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503, 503]);
    let renewed = answers.iter().find(|answer| answer.status == 200).expect("new codes");
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    assert_eq!(world.enter_backup_code(&pending, text(&renewed.body["backupCodes"][0])).await.status, 200);
    // Backup codes can be replaced even after all of them have been used.
    world.set("users", ("pk", &format!("user#{}", jo.user)), json!({"backup_codes": null})).await;
    assert_eq!(renew().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_meanwhile_changes_no_factor() {
    let (world, race) = World::racing().await;
    let jo = world.tenant("acme").await;
    let end_all = |cookie: String| {
        let rival = Arc::clone(&world);
        async move { assert_eq!(rival.cli(&cookie, "revoke-sessions", json!({})).await.status, 200) }
    };
    let is_enrollment = |call: &Call| call.operation == "UpdateItem" && call["TableName"] == "users";
    let other = world.signed_in(&jo.email, PASSWORD).await;
    race.before(is_enrollment, end_all(other));
    assert_eq!(enable(&world, &jo).await.status, 401);
    assert!(race.is_over() && !stored(&world, &jo.user).await.contains_key("totp_secret"));

    let cookie = world.signed_in(&jo.email, PASSWORD).await;
    let protected = world.protect(&Tenant { cookie, ..jo.clone() }).await;
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    let entered = world.enter_backup_code(&pending, &protected.backup_codes[0]).await;
    race.before_transaction(end_all(set_cookie(&entered, "session_token")));
    let renewed = json!({"password": PASSWORD});
    assert_eq!(world.cli(&protected.cookie, "two-factor/generate-backup-codes", renewed).await.status, 503);
    let pending = world.begin_sign_in(&jo.email, PASSWORD).await;
    let entered = world.enter_backup_code(&pending, &protected.backup_codes[1]).await;
    assert_eq!(entered.status, 200, "the codes are unchanged");
}
