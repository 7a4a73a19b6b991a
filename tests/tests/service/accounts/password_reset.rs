//! Resetting a forgotten password, through the API and through the page that the link in the email opens.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::join_all;
use serde_json::json;
use tests::{
    Answer, Call, Tenant, World,
    world::{cookie, hidden_fields, link, people::PASSWORD as OLD},
};

const NEW: &str = "a new long password";
const NO_TOKEN: &str = "This link or its token is not valid: it may have expired or been used";

/// Requests an email, and returns the link in it.
async fn ask(world: &World, email: &str) -> String {
    let asked = world.cli("", "request-password-reset", json!({"email": email})).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    let link = link(&world.mail_to(email).await);
    assert!(link.starts_with(&world.url("/reset-password?token=")), "{link}");
    link
}

fn token(link: &str) -> &str {
    link.split_once("?token=").expect("a token").1
}

async fn reset(world: &World, token: &str, password: &str) -> Answer {
    world.cli("", "reset-password", json!({"token": token, "newPassword": password})).await
}

async fn is_refused(world: &World, token: &str) -> bool {
    let answer = reset(world, token, NEW).await;
    let refusal = json!({"code": "INVALID_TOKEN", "message": NO_TOKEN});
    let page = world.send(world.http.get(world.url("/reset-password")).query(&[("token", token)])).await;
    (answer.status, answer.body) == (400, refusal) && page.status == 400 && !page.page().contains("<form")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_ends_sixteen_sessions_in_use_and_all_keys() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let member = world.member(&tenant, "al@example.com", "member").await;
    let mut cookies = vec![tenant.cookie.clone()];
    while cookies.len() < 16 {
        cookies.push(world.signed_in(&tenant.email, OLD).await);
    }
    let spare = world.cli(&tenant.cookie, "api-key/create", json!({"name": "spare"})).await.body["key"].clone();
    let spare = spare.as_str().expect("a key").to_owned();
    let link = ask(&world, &tenant.email).await;
    let theirs = ask(&world, &other.email).await;
    assert!(world.is_signed_in(&cookies[15]).await && world.key_works(&spare).await, "the request changes nothing");

    let in_use = join_all(cookies.iter().map(async |cookie| {
        for _ in 0..8 {
            world.rpc_by_session(cookie, "webhooks/list", json!({})).await;
        }
    }));
    let (done, _) = tokio::join!(reset(&world, token(&link), NEW), in_use);
    assert_eq!((done.status, &done.body), (200, &json!({"status": true})));
    assert!(!done.headers.contains_key("set-cookie"), "the reset starts no session");
    for ended in &cookies {
        assert!(!world.is_signed_in(ended).await);
        assert_eq!(world.rpc_by_session(ended, "webhooks/list", json!({})).await.status, 401);
    }
    assert!(!world.key_works(&tenant.key).await && !world.key_works(&spare).await);
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 401);

    let cookie = world.signed_in(&tenant.email, NEW).await;
    let listed = world.cli_get(&cookie, "api-key/list").await.body;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "ended sessions and keys are cleaned up: {listed}");
    assert_eq!(world.cli_get(&cookie, "list-sessions").await.body.as_array().map(Vec::len), Some(1));
    let new = world.cli(&cookie, "api-key/create", json!({"name": "new"})).await.body["key"].clone();
    assert!(world.key_works(new.as_str().expect("a key")).await);
    // Other users keep their sessions and keys.
    for (cookie, key) in [(&other.cookie, &other.key), (&member.cookie, &member.key)] {
        assert!(world.is_signed_in(cookie).await && world.key_works(key).await);
    }
    assert!(is_refused(&world, token(&link)).await, "twice");
    assert_eq!(reset(&world, token(&theirs), "another long password").await.status, 200);
    assert!(world.is_signed_in(&cookie).await);
    assert_eq!(world.sign_in(&other.email, "another long password").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_behind_the_link_resets_without_a_script() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let link = ask(&world, &tenant.email).await;
    let post = async |fields: &[(&str, &str)]| {
        let request = world.http.post(world.url("/reset-password")).header("origin", world.stack.api());
        world.send(request.form(fields)).await
    };
    for _ in 0..3 {
        let page = world.send(world.http.get(&link)).await;
        assert_eq!(page.status, 200);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers["referrer-policy"], "same-origin");
        assert_eq!(page.headers["cache-control"], "no-store");
        let policy = page.headers["content-security-policy"].to_str().expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && policy.ends_with("form-action 'self'"), "{policy}");
        let html = page.page();
        let field = "<input id=\"newPassword\" name=\"newPassword\" type=\"password\" autocomplete=\"new-password\"";
        assert!(html.contains("<label for=\"newPassword\">New password</label>") && html.contains(field), "{html}");
        assert!(!html.contains("<script") && html.contains(" method=\"post\" action=\"?\">"));
        assert_eq!(hidden_fields(html), [("token".to_owned(), token(&link).to_owned())]);
    }
    assert!(world.is_signed_in(&tenant.cookie).await, "opening the link changes nothing");
    for bad in ["", "short", &"x".repeat(129)] {
        let page = post(&[("token", token(&link)), ("newPassword", bad)]).await;
        assert_eq!(page.status, 400);
        assert!(page.page().contains("8 to 128 characters") && page.page().contains("<form"));
    }
    assert_eq!(post(&[("token", token(&link))]).await.status, 400);
    assert!(world.is_signed_in(&tenant.cookie).await);
    let foreign = world.http.post(world.url("/reset-password")).header("origin", "https://evil.example.com");
    let foreign = world.send(foreign.form(&[("token", token(&link)), ("newPassword", NEW)])).await;
    assert_eq!((foreign.status, &foreign.body["code"]), (403, &json!("INVALID_ORIGIN")));

    let page = post(&[("token", token(&link)), ("newPassword", NEW)]).await;
    assert_eq!(page.status, 200);
    assert!(page.page().contains("Password changed") && !page.page().contains("<form"));
    assert!(!world.is_signed_in(&tenant.cookie).await && !world.key_works(&tenant.key).await);
    assert_eq!(world.sign_in(&tenant.email, NEW).await.status, 200);
    for fields in [&[("token", token(&link)), ("newPassword", NEW)][..], &[("token", "x"), ("newPassword", NEW)]] {
        let page = post(fields).await;
        assert_eq!(page.status, 400);
        assert!(page.page().contains("This link is not valid"));
    }
    let methods = world.http.put(world.url("/reset-password"));
    assert_eq!(world.send(methods).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reset_page_answers_the_same_for_any_address() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = world.send(world.http.get(world.url("/reset-password"))).await;
    assert!(page.status == 200 && page.page().contains("<input id=\"email\" name=\"email\" type=\"email\""));
    assert!(hidden_fields(page.page()).is_empty());
    let post = async |email: &str| {
        let request = world.http.post(world.url("/reset-password")).header("origin", world.stack.api());
        world.send(request.form(&[("email", email)])).await
    };
    let before = world.mails().await.len();
    let (known, unknown) = (post(&tenant.email).await, post("nobody@example.com").await);
    let of_unknown = unknown.page().replace("nobody@example.com", &tenant.email);
    assert_eq!((known.status, known.page()), (200, of_unknown.as_str()));
    for says in
        ["Check your email", &format!("If <strong>{}</strong> has an account", tenant.email), "href=\"/signin\""]
    {
        assert!(known.page().contains(says), "{says} is missing from {}", known.page());
    }
    assert_eq!(world.mails().await.len(), before + 1);
    let link = link(&world.mail_to(&tenant.email).await);
    assert_eq!(reset(&world, token(&link), NEW).await.status, 200);

    let typed = "\"><script>alert(1)</script>";
    let bad = post(typed).await;
    assert_eq!(bad.status, 400);
    assert!(bad.page().contains("Must be an email address") && bad.page().contains("role=\"alert\""));
    assert!(
        bad.page().contains("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\"")
            && !bad.page().contains("<script")
    );
    // The page and the API share their limits.
    world.set("tokens", ("kind", "reset_mail"), json!({"attempts": 5})).await;
    let limited = post("nobody@example.com").await;
    assert_eq!(limited.status, 429);
    assert!(limited.headers.contains_key("retry-after") && limited.page().contains("Too many attempts"));
    assert!(limited.page().contains("value=\"nobody@example.com\""));
    assert_eq!(world.cli("", "request-password-reset", json!({"email": "nobody@example.com"})).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_answers_the_same_and_only_an_account_gets_an_email() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.sign_up("unverified").await;
    let before = world.mails().await.len();
    let mut answers = Vec::new();
    for email in [&tenant.email, "jo@unverified.example.com", "nobody@example.com", "Jo@ACME.example.com"] {
        let plain = world.cli("", "request-password-reset", json!({"email": email, "redirectTo": "/x"})).await;
        let enveloped = world.rpc("", "auth/requestPasswordReset", json!({"email": email})).await;
        assert_eq!((enveloped.status, enveloped.json()), (200, &json!({"status": "sent"})));
        let headers: Vec<_> = plain.headers.keys().map(ToString::to_string).collect();
        answers.push((plain.status, plain.body, headers, enveloped.body));
    }
    let message = "If this address has an account, we sent it an email with a link";
    assert_eq!((answers[0].0, &answers[0].1), (200, &json!({"status": true, "message": message})));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(world.mails().await.len(), before + 6, "three of the addresses have an account");
    assert_eq!(world.tokens("password_reset").await.len(), 6);
    let mail = world.mail_to(&tenant.email).await;
    assert_eq!(mail["subject"], "Webhooks: Choose a new password");
    assert!(mail["html"].as_str().is_some_and(|html| html.contains("<a href=")), "{mail}");

    let bad = [
        "",
        "no address",
        "jo",
        "jo@",
        "@acme.example.com",
        "jo@acme",
        "jo doe@acme.example.com",
        "jo@acme.example.com,al@x.y",
    ];
    let bad = bad.into_iter().map(|text| json!({"email": text}));
    for bad in bad.chain([json!({}), json!({"email": 7}), json!({"email": [tenant.email]})]) {
        let plain = world.cli("", "request-password-reset", bad.clone()).await;
        assert_eq!((plain.status, &plain.body["code"]), (400, &json!("BAD_REQUEST")), "{bad}");
        assert!(plain.body["message"].as_str().is_some_and(|text| text.starts_with("email: ")), "{plain:?}");
        assert_eq!(world.rpc("", "auth/requestPasswordReset", bad).await.issues()[0].0, "email");
    }
    let foreign = world.http.post(world.url("/v1/auth/requestPasswordReset")).header("origin", "https://evil.com");
    assert_eq!(world.send(foreign).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_gets_five_emails_an_hour_and_a_client_a_hundred() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for email in [&tenant.email, "nobody@example.com"] {
        let asked = join_all((0..6).map(async |place| match place % 2 {
            0 => world.cli("", "request-password-reset", json!({"email": email})).await.status,
            _ => world.rpc("", "auth/requestPasswordReset", json!({"email": email})).await.status,
        }));
        let mut statuses = asked.await;
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{email}");
        let spelt = email.to_uppercase();
        let more = world.cli("", "request-password-reset", json!({"email": spelt})).await;
        assert_eq!((more.status, &more.body["code"]), (429, &json!("TOO_MANY_REQUESTS")));
        assert!(more.headers.contains_key("retry-after"));
    }
    assert_eq!(world.tokens("password_reset").await.len(), 5);
    // The links in the emails that the stranger requested are valid.
    assert_eq!(reset(&world, token(&link(&world.mail_to(&tenant.email).await)), NEW).await.status, 200);
    world.set("tokens", ("kind", "reset_mail_client"), json!({"attempts": 100})).await;
    let other = json!({"email": "other@example.com"});
    assert_eq!(world.cli("", "request-password-reset", other.clone()).await.status, 429);
    assert_eq!(world.rpc("", "auth/requestPasswordReset", other).await.status, 429);
    assert_eq!(world.tokens("reset_mail").await.len(), 2, "it does not count against the address");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_good_token_and_a_good_password_reset() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let link = ask(&world, &tenant.email).await;
    for (fields, fault) in [
        (json!({"token": token(&link), "newPassword": "short"}), "newPassword"),
        (json!({"token": token(&link), "newPassword": "x".repeat(129)}), "newPassword"),
        (json!({"token": token(&link)}), "newPassword"),
        (json!({"newPassword": NEW}), "token"),
        (json!({"token": [token(&link)], "newPassword": NEW}), "token"),
    ] {
        let answer = world.cli("", "reset-password", fields).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("BAD_REQUEST")));
        assert_eq!(answer.body["issues"][0]["path"], json!([fault]));
    }
    for bad in ["", "x", &"a".repeat(43), &token(&link)[1..]] {
        assert!(is_refused(&world, bad).await, "{bad}");
    }
    let foreign = world.http.post(world.url("/api/auth/reset-password")).header("origin", "https://evil.example.com");
    let fields = json!({"token": token(&link), "newPassword": NEW});
    assert_eq!(world.send(foreign.json(&fields)).await.status, 403);
    assert!(world.is_signed_in(&tenant.cookie).await && world.key_works(&tenant.key).await);
    let tokens = format!("{:?}", world.items("tokens").await);
    assert!(tokens.contains(&tenant.email) && !tokens.contains(token(&link)), "only its hash is stored");
    // An hour later.
    let expiry = world.tokens("password_reset").await[0]["expires_at"].as_n().expect("a number").parse::<i64>();
    let now = common::timestamp::Timestamp::now().as_second();
    assert!((3590..=3600).contains(&(expiry.expect("seconds") - now)));
    world.set("tokens", ("kind", "password_reset"), json!({"expires_at": now})).await;
    assert!(is_refused(&world, token(&link)).await);
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_kind_is_refused() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let verification = link(&world.mail_to("jo@acme.example.com").await);
    let session = account["sessionToken"].as_str().expect("a token");
    let link = ask(&world, "jo@acme.example.com").await;
    for other in [token(&verification), session] {
        assert!(is_refused(&world, other).await);
    }
    let stolen = verification.replace(token(&verification), token(&link));
    assert_eq!(world.confirm(&stolen).await.status, 400);
    assert!(!world.is_signed_in(&format!("session_token={}", token(&link))).await);
    assert_eq!(world.cli(&cookie(&account), "revoke-session", json!({"token": token(&link)})).await.status, 404);
    let sign_out = world.cli(&format!("session_token={}", token(&link)), "sign-out", json!({})).await;
    assert_eq!(sign_out.status, 200);
    assert_eq!(world.session(&cookie(&account)).await.body["user"]["emailVerified"], false);
    assert_eq!(world.confirm(&verification).await.status, 200);
    assert_eq!(reset(&world, token(&link), NEW).await.status, 200, "none of these calls used up the token");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_concurrent_reset_succeeds_and_voids_the_other_links() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut links = Vec::new();
    for _ in 0..3 {
        links.push(ask(&world, &tenant.email).await);
    }
    // Four calls with each of the two tokens.
    let passwords: Vec<_> = (0..8).map(|number| format!("a new password {number}")).collect();
    let resets = passwords.iter().zip(links.iter().cycle().filter(|link| **link != links[2]));
    let answers = join_all(resets.map(|(password, link)| reset(&world, token(link), password))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.body["code"] == "INVALID_TOKEN").count(), 7, "{answers:?}");
    for (password, answer) in passwords.iter().zip(&answers) {
        assert_eq!(world.sign_in(&tenant.email, password).await.status == 200, answer.status == 200);
    }
    for link in &links {
        assert!(is_refused(&world, token(link)).await);
    }
    assert_eq!(reset(&world, token(&ask(&world, &tenant.email).await), NEW).await.status, 200, "a later one works");
}

/// A stranger who signed up with another person's address can neither keep the account nor block the address's owner.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_the_mailbox_takes_an_account_back() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let email = "jo@acme.example.com";
    let verification = link(&world.mail_to(email).await);
    let stranger = world.signed_in(email, OLD).await;
    let link = ask(&world, email).await;
    // Each of these calls moves the stranger's sessions to a different epoch.
    assert_eq!(world.cli(&stranger, "revoke-other-sessions", json!({})).await.status, 200);
    let changed = json!({"currentPassword": OLD, "newPassword": "a stranger's password"});
    let changed = world.cli(&stranger, "change-password", changed).await;
    let stranger = format!("session_token={}", changed.body["token"].as_str().expect("a token"));
    assert!(world.is_signed_in(&stranger).await);

    assert_eq!(reset(&world, token(&link), NEW).await.status, 200);
    for ended in [&stranger, &cookie(&account)] {
        assert!(!world.is_signed_in(ended).await);
    }
    assert_eq!(world.sign_in(email, "a stranger's password").await.status, 401);
    let owner = world.signed_in(email, NEW).await;
    let user = world.session(&owner).await.body["user"].clone();
    assert_eq!((&user["id"], &user["emailVerified"]), (&account["userId"], &json!(true)));
    assert_eq!(world.cli(&owner, "api-key/create", json!({"name": "mine"})).await.status, 200);
    // The link from the sign-up verifies the address again, but does not create a session.
    assert_eq!(world.confirm(&verification).await.status, 200);
    assert!(!world.is_signed_in(&stranger).await && world.is_signed_in(&owner).await);
}

/// A stranger who deletes the account and signs up again cannot block the address's owner either.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_takes_back_an_account_that_was_made_anew() {
    let world = World::start().await;
    let email = "jo@acme.example.com";
    let mut account = world.sign_up("acme").await;
    let link = ask(&world, email).await;
    for _ in 0..2 {
        let deleted = world.cli(&cookie(&account), "delete-user", json!({"password": OLD})).await;
        assert_eq!(deleted.status, 200, "{deleted:?}");
        assert!(is_refused(&world, token(&link)).await, "no account has the address");
        account = world.sign_up("acme").await;
    }
    assert_eq!(reset(&world, token(&link), NEW).await.status, 200);
    assert!(!world.is_signed_in(&cookie(&account)).await);
    let owner = world.signed_in(email, NEW).await;
    let user = world.session(&owner).await.body["user"].clone();
    assert_eq!((&user["id"], &user["emailVerified"]), (&account["userId"], &json!(true)));
    assert!(is_refused(&world, token(&link)).await, "twice");
}

/// The holder of the old mailbox must not get the account after its address has changed.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_changes_during_a_reset_voids_it() {
    let (world, race) = World::racing().await;
    let mut tenant = world.tenant("acme").await;
    let is_read_of_user = |call: &Call| {
        let is_user = call["Key"]["pk"]["S"].as_str().is_some_and(|key| key.starts_with("user#"));
        call.operation == "GetItem" && is_user
    };
    let moments = [|call: &Call| call.operation == "TransactWriteItems", is_read_of_user];
    for (moment, new) in moments.into_iter().zip(["one@example.com", "two@example.com"]) {
        let old = ask(&world, &tenant.email).await;
        assert_eq!(world.cli(&tenant.cookie, "change-email", json!({"newEmail": new})).await.status, 200);
        let (rival, change) = (Arc::clone(&world), link(&world.mail_to(new).await));
        race.before(moment, async move { assert_eq!(rival.confirm(&change).await.status, 200) });
        let refused = reset(&world, token(&old), NEW).await;
        assert!(race.is_over());
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("INVALID_TOKEN")), "{new}");
        assert!(world.is_signed_in(&tenant.cookie).await && world.key_works(&tenant.key).await);
        new.clone_into(&mut tenant.email);
    }
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 200);
}

/// A reset removes the second factor only if the address was not verified before.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_set_up_during_a_reset_remains() {
    let (world, race) = World::racing().await;
    let account = world.sign_up("acme").await;
    let email = "jo@acme.example.com";
    let (verification, reset_link) = (link(&world.mail_to(email).await), ask(&world, email).await);
    let (rival, cookie) = (Arc::clone(&world), cookie(&account));
    let user = account["userId"].as_str().expect("an id").to_owned();
    race.before_transaction(async move {
        assert_eq!(rival.confirm(&verification).await.status, 200);
        let [id, slug, key] = Default::default();
        rival.protect(&Tenant { id, slug, user, email: email.to_owned(), cookie, key }).await;
    });
    assert_eq!(reset(&world, token(&reset_link), NEW).await.status, 200);
    assert!(race.is_over());
    world.begin_sign_in(email, NEW).await;
}

/// A session or a key that is created with the old password during the reset belongs to the old epoch.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_keys_begun_during_a_reset_end_with_it() {
    let world = World::start().await;
    for round in 0..4 {
        let tenant = world.tenant(&format!("acme{round}")).await;
        let link = ask(&world, &tenant.email).await;
        let issue = async || world.cli(&tenant.cookie, "api-key/create", json!({"name": "late"})).await;
        let (done, signed_in, issued) = tokio::join!(
            reset(&world, token(&link), NEW),
            world.sign_in(&tenant.email, OLD),
            join_all((0..6).map(|_| issue()))
        );
        assert_eq!(done.status, 200, "{done:?}");
        if let Some(token) = signed_in.body["token"].as_str() {
            assert!(!world.is_signed_in(&format!("session_token={token}")).await);
        }
        for key in issued.iter().filter_map(|issued| issued.body["key"].as_str()) {
            assert!(!world.key_works(key).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_a_removed_member_does_not_work() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "al@example.com", "member").await;
    let link = ask(&world, &member.email).await;
    let removed = json!({"memberIdOrEmail": member.email});
    assert_eq!(world.cli(&tenant.cookie, "organization/remove-member", removed).await.status, 200);
    assert!(is_refused(&world, token(&link)).await);
    // The link is also invalid for the new holder of the address.
    let again = world.member(&tenant, "al@example.com", "member").await;
    assert!(is_refused(&world, token(&link)).await);
    assert!(world.is_signed_in(&again.cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_without_an_epoch_end_with_a_reset() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for (table, attributes) in [
        ("api-keys", json!({"epoch": null})),
        ("users", json!({"key_epoch": null, "session_epoch": null})),
        ("tokens", json!({"epoch": null})),
    ] {
        world.set_where(table, |_| true, &attributes).await;
    }
    assert!(world.key_works(&tenant.key).await && world.is_signed_in(&tenant.cookie).await);
    let links = [ask(&world, &tenant.email).await, ask(&world, &tenant.email).await];
    assert_eq!(reset(&world, token(&links[0]), NEW).await.status, 200);
    assert!(!world.key_works(&tenant.key).await && !world.is_signed_in(&tenant.cookie).await);
    assert!(is_refused(&world, token(&links[1])).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsendable_email_does_not_change_the_response() {
    let world = World::with(&[("AWS_ENDPOINT_URL_SES", "http://127.0.0.1:1")]).await;
    world.sign_up("acme").await;
    let ask = async |email: &str| world.cli("", "request-password-reset", json!({"email": email})).await;
    let (known, unknown) = (ask("jo@acme.example.com").await, ask("nobody@example.com").await);
    assert_eq!((known.status, &known.body), (200, &unknown.body));
    assert_eq!(world.tokens("password_reset").await.len(), 1, "the caller does not know the token, and it expires");
    assert_eq!(world.sign_in("jo@acme.example.com", OLD).await.status, 200);
}

/// If the token cannot be stored, the email is not sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_cannot_be_stored_is_not_sent() {
    let is_token = |call: &Call| call["Item"]["kind"]["S"] == "password_reset";
    let (world, fails) = World::failing(is_token).await;
    let tenant = world.tenant("acme").await;
    let before = world.mails().await.len();
    fails.on();
    assert_eq!(world.rpc("", "auth/requestPasswordReset", json!({"email": tenant.email})).await.status, 500);
    assert_eq!(world.mails().await.len(), before);
    fails.off();
    assert_eq!(reset(&world, token(&ask(&world, &tenant.email).await), NEW).await.status, 200);
}

/// The reset is one transaction: if a process dies before it, nothing has changed, and the link is still valid.
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_fails_changes_nothing() {
    let (world, fails) = World::failing(|call| call.operation == "TransactWriteItems").await;
    let tenant = world.tenant("acme").await;
    let link = ask(&world, &tenant.email).await;
    fails.on();
    assert_eq!(reset(&world, token(&link), NEW).await.status, 500);
    assert!(world.is_signed_in(&tenant.cookie).await && world.key_works(&tenant.key).await);
    fails.off();
    assert_eq!(world.sign_in(&tenant.email, OLD).await.status, 200);
    assert_eq!(reset(&world, token(&link), NEW).await.status, 200);
    assert!(!world.is_signed_in(&tenant.cookie).await && !world.key_works(&tenant.key).await);
}

/// If a process dies before the cleanup, the remaining keys are invalid and can be deleted.
#[tokio::test(flavor = "multi_thread")]
async fn keys_end_with_the_reset_even_if_they_cannot_be_deleted() {
    let (world, fails) = World::failing(|call| call["TransactItems"][0]["Delete"]["TableName"] == "api-keys").await;
    let tenant: Tenant = world.tenant("acme").await;
    let link = ask(&world, &tenant.email).await;
    fails.on();
    assert_eq!(reset(&world, token(&link), NEW).await.status, 200);
    assert!(!world.key_works(&tenant.key).await);
    fails.off();
    let cookie = world.signed_in(&tenant.email, NEW).await;
    let left = world.cli_get(&cookie, "api-key/list").await.body;
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_eq!(world.cli(&cookie, "api-key/delete", json!({"keyId": left[0]["id"]})).await.status, 200);
    assert!(!world.key_works(&tenant.key).await);
}

/// The routes with which a session without a verified address can change something, by the description of the API.
async fn open_to_unverified_sessions(world: &World) -> BTreeSet<String> {
    let id = uuid::Uuid::now_v7().to_string();
    // Each route ignores the fields of the others. The password and the code are wrong, so nothing ends.
    let fields = json!({
        "email": "al@example.com", "newEmail": "al@example.com", "role": "member", "name": "Al", "data": {"name": "Al"},
        "keyId": id, "invitationId": id, "tenantSlug": "acme", "memberId": id, "memberIdOrEmail": id, "password": "wrong", "code": "000000",
        "currentPassword": "wrong", "newPassword": NEW, "token": "x", "requestId": id, "secret": "x",
    });
    let (mut open, mut number) = (BTreeSet::new(), 0);
    for (name, route) in tests::description::routes() {
        let by_session =
            route["security"].as_array().is_some_and(|all| all.iter().any(|one| !one["session"].is_null()));
        let path = name.strip_prefix("POST ").filter(|path| by_session && !path.starts_with("/console"));
        let Some(path) = path.filter(|path| path.starts_with("/api/auth/") || path.starts_with("/v1/auth/")) else {
            continue;
        };
        number += 1;
        let session = cookie(&world.sign_up(&format!("founder-{number}")).await);
        let fields = if path.starts_with("/v1/") { json!({ "json": fields }) } else { fields.clone() };
        let request = world.http.post(world.url(path)).header("origin", world.stack.api()).header("cookie", session);
        let answer = world.send(request.json(&fields)).await;
        if !answer.body.to_string().contains("Verify your email") {
            open.insert(path.trim_start_matches("/api/auth/").trim_start_matches("/v1/").to_owned());
        }
    }
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_an_unverified_session_can_change_is_documented() {
    let world = World::start().await;
    let page = crate::docs::page("docs/operating.md");
    let (_, table) = page.split_once("<!-- unverified -->").expect("a table");
    let (table, _) = table.split_once("<!-- end -->").expect("an end");
    let documented = table.split('`').skip(1).step_by(2).map(str::to_owned);
    // This route only reads.
    let documented: BTreeSet<String> = documented.chain(["auth/status".to_owned()]).collect();
    assert_eq!(open_to_unverified_sessions(&world).await, documented);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_verification_by_reset_takes_the_notifications_back() {
    let world = World::start().await;
    let mut fields = World::sign_up_fields("acme");
    fields["debugNotificationEmail"] = json!("stranger@example.net");
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let (email, id) = ("jo@acme.example.com", account["organizationId"].as_str().expect("an id"));
    let stranger = cookie(&account);
    // The stranger's other changes end, too.
    world.cli(&stranger, "change-email", json!({"newEmail": "stranger@example.net"})).await;
    let taken = link(&world.mail_to("stranger@example.net").await);
    let mailed = world.mails().await.len();
    assert_eq!(reset(&world, token(&ask(&world, email).await), NEW).await.status, 200);
    let owner = world.signed_in(email, NEW).await;
    let settings = world.rpc_by_session(&owner, "tenant/settings", json!({})).await.ok().clone();
    assert_eq!(settings["debug_notification_email"], email);
    assert_eq!(settings["notification_email_status"], "ok");
    let alert = world.mail_to(email).await;
    let alert = alert["text"].as_str().expect("a text part");
    assert!(alert.contains("Notifications now go to this address.") && alert.contains("slug: check them"), "{alert}");
    let entries = world.rpc_by_session(&owner, "audit/list", json!({"action": "settings.changed"})).await.ok().clone();
    let change = json!({"field": "debug_notification_email", "old": "stranger@example.net", "new": email});
    assert_eq!(entries["entries"][0]["changes"], json!([change]));
    assert_eq!(world.confirm(&taken).await.status, 400, "the stranger's link does not replace the address");
    assert!(world.items("users").await.iter().all(|user| !user.contains_key("pending_email")));

    world.deliver(crate::job_failures::failed(id, "w", "j")).await;
    crate::notices::sweep(&world, crate::job_failures::later(0)).await;
    let report = world.mails().await.pop().expect("a report");
    assert_eq!(report["to"], json!([email]));
    let theirs = |mail: &&serde_json::Value| mail["to"] == json!(["stranger@example.net"]);
    assert_eq!(world.mails().await[mailed..].iter().filter(theirs).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_resets_keep_the_address_for_notifications() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    assert_eq!(reset(&world, token(&ask(&world, &tenant.email).await), NEW).await.status, 200);
    // An invited owner without a verified address did not choose it.
    let owner = world.signed_in(&tenant.email, NEW).await;
    let invited =
        world.cli(&owner, "organization/invite-member", json!({"email": "al@example.com", "role": "owner"})).await;
    let accept = json!({"invitationId": invited.body["id"], "tenantSlug": "acme", "name": "Al", "password": OLD});
    world.rpc("", "auth/acceptInviteAndSignup", accept).await.ok();
    assert_eq!(reset(&world, token(&ask(&world, "al@example.com").await), NEW).await.status, 200);
    let settings = world.rpc_by_session(&owner, "tenant/settings", json!({})).await.ok().clone();
    assert_eq!(settings["debug_notification_email"], "ops@example.com");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_email_and_the_page_name_the_organization_keys_that_stay() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let create = json!({"name": "left behind <b>", "kind": "organization"});
    let key = world.cli(&tenant.cookie, "api-key/create", create).await.body;
    let ended = json!({"name": "short-lived", "kind": "organization", "expiresIn": 86_400});
    assert_eq!(world.cli(&tenant.cookie, "api-key/create", ended).await.status, 200);
    world.set("api-keys", ("name", "short-lived"), json!({"expires_at": "2026-01-31T12:00:00.000Z"})).await;
    let link = ask(&world, &tenant.email).await;
    let path = link.strip_prefix(world.stack.api()).expect("a page");
    let browser = tests::Browser::new(&world, "");
    let page = browser.open(path).await;
    let done = browser.press(path, &page, "Set new password", &[("newPassword", NEW)]).await;
    let start = key["start"].as_str().expect("a start");
    assert!(done.page().contains(&format!("<li>left behind &lt;b&gt; ({start}…)</li>")), "{done:?}");
    let mail = world.mail_to(&tenant.email).await;
    let text = mail["text"].as_str().expect("a text part");
    assert!(text.contains(&format!("API key: left behind <b> ({start}…)\n")), "{text}");
    assert!(!text.contains("short-lived") && !text.contains("API key: test"), "{text}");
    assert_eq!(world.rpc(key["key"].as_str().expect("a key"), "webhooks/list", json!({})).await.status, 200);
}
