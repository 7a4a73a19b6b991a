//! The pages that set up a second factor and ask for it, without scripts.

use serde_json::json;
use tests::{
    Answer, Authenticator, Tenant, World,
    world::{people::PASSWORD, set_cookie},
};

use super::{filled, follow, location, open, submit};

const PAGE: &str = "/console/two-factor";

/// The content of the element with this id.
fn content<'a>(page: &'a Answer, id: &str) -> &'a str {
    let after = page.page().split_once(&format!("id=\"{id}\"")).expect("an element").1;
    after.split_once('>').expect("its content").1.split('<').next().unwrap_or_default()
}

/// Enters the password on the sign-in page with this query. Returns the page that asks for the code, and its cookie.
async fn begin(world: &World, query: &str, email: &str) -> (Answer, String) {
    let page = open(world, "", &format!("/signin{query}")).await;
    let form = filled(&page, "Sign in", &[("email", email), ("password", PASSWORD)]);
    let asked = submit(world, "", "/signin", &form).await;
    assert!(asked.status == 200 && asked.page().contains("Enter your code"), "{asked:?}");
    let cookie = set_cookie(&asked, "two_factor");
    (asked, cookie)
}

/// A tenant who has set up a second factor on the page, with the app and the backup codes.
async fn protected(world: &World) -> (Tenant, Authenticator, Vec<String>) {
    let jo = world.tenant("acme").await;
    let page = open(world, &jo.cookie, PAGE).await;
    let form = filled(&page, "Set up two-factor authentication", &[("password", PASSWORD)]);
    let to_scan = submit(world, &jo.cookie, PAGE, &form).await;
    assert!(to_scan.page().contains("<svg viewBox=") && to_scan.page().contains("href=\"otpauth:"), "{to_scan:?}");
    assert!(to_scan.page().contains("autocomplete=\"one-time-code\" inputmode=\"numeric\""), "{to_scan:?}");
    let app = Authenticator::with_secret(content(&to_scan, "totp-secret"));
    let button = "Enable two-factor authentication";
    let wrong = submit(world, &jo.cookie, PAGE, &filled(&to_scan, button, &[("code", &app.wrong_code())])).await;
    assert!(wrong.status == 401 && wrong.page().contains("This code is not valid"), "{wrong:?}");
    assert!(wrong.page().contains("may have a wrong clock"), "{wrong:?}");
    assert!(!wrong.page().contains("otpauth:") && !wrong.page().contains("totp-secret"), "the secret is shown once");
    let enabled = submit(world, &jo.cookie, PAGE, &filled(&wrong, button, &[("code", &app.code(0))])).await;
    assert_eq!(enabled.status, 200, "{enabled:?}");
    let codes: Vec<_> = content(&enabled, "backup-codes").lines().map(str::to_owned).collect();
    assert_eq!(codes.len(), 10);
    world.forget_used_code(&jo.user).await;
    (Tenant { cookie: set_cookie(&enabled, "session_token"), ..jo }, app, codes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_is_set_up_and_disabled() {
    let world = World::start().await;
    let (jo, app, codes) = protected(&world).await;
    assert_eq!(world.is_protected(&jo.cookie).await, true);
    let page = open(&world, &jo.cookie, PAGE).await;
    assert!(page.page().contains("10 of 10 backup codes are left."), "{page:?}");
    assert!(codes.iter().all(|code| !page.page().contains(code)), "codes are shown only once");
    let account = open(&world, &jo.cookie, "/console/account").await;
    assert!(account.page().contains(&format!("href=\"{PAGE}\"")) && account.page().contains("✓ Enabled"));
    let renewed = filled(&page, "Replace backup codes", &[("password", PASSWORD)]);
    let renewed = submit(&world, &jo.cookie, PAGE, &renewed).await;
    assert!(!renewed.page().contains(&codes[0]) && content(&renewed, "backup-codes").lines().count() == 10);

    let button = "Disable two-factor authentication";
    let wrong = filled(&page, button, &[("password", "a wrong password"), ("sure", "yes")]);
    let wrong = submit(&world, &jo.cookie, PAGE, &wrong).await;
    assert!(wrong.status == 400 && wrong.page().contains("not your current password"), "{wrong:?}");
    let unsure = submit(&world, &jo.cookie, PAGE, &filled(&page, button, &[("password", PASSWORD)])).await;
    assert_eq!(unsure.status, 400, "{unsure:?}");
    let disabled = filled(&page, button, &[("password", PASSWORD), ("sure", "yes")]);
    let disabled = submit(&world, &jo.cookie, PAGE, &disabled).await;
    assert_eq!(location(&disabled), "/console/two-factor?did=disabled");
    let session = set_cookie(&disabled, "session_token");
    assert_eq!(world.is_protected(&session).await, false);
    assert!(follow(&world, &session, &disabled).await.page().contains("is disabled"));
    assert_eq!(world.enter_code(&session, &app.code(0)).await.refused(), (400, "TOTP_NOT_ENABLED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_step_of_a_sign_in_keeps_the_destination() {
    let world = World::start().await;
    let (jo, app, codes) = protected(&world).await;
    let (asked, cookie) = begin(&world, "?next=%2Fconsole%2Fkeys", &jo.email).await;
    assert!(!world.is_signed_in(&cookie).await);
    assert!(asked.page().contains("autocomplete=\"one-time-code\" inputmode=\"numeric\""), "{asked:?}");
    let wrong = submit(&world, &cookie, "/signin", &filled(&asked, "Sign in", &[("code", &app.wrong_code())])).await;
    assert!(wrong.status == 401 && wrong.page().contains("This code is not valid"), "{wrong:?}");
    let done = submit(&world, &cookie, "/signin", &filled(&wrong, "Sign in", &[("code", &app.code(0))])).await;
    assert_eq!(location(&done), "/console/keys");
    assert_eq!(set_cookie(&done, "two_factor"), "two_factor=");
    assert!(world.is_signed_in(&set_cookie(&done, "session_token")).await);

    let (asked, cookie) = begin(&world, "", &jo.email).await;
    let button = "Sign in with a backup code";
    let wrong = submit(&world, &cookie, "/signin", &filled(&asked, button, &[("backupCode", "x")])).await;
    assert!(wrong.status == 401 && wrong.page().contains("<details open"), "{wrong:?}");
    let done = submit(&world, &cookie, "/signin", &filled(&wrong, button, &[("backupCode", &codes[0])])).await;
    assert_eq!(location(&done), "/console");
    // An expired sign-in starts over with the password.
    let late = submit(&world, &cookie, "/signin", &filled(&asked, "Sign in", &[("code", "123456")])).await;
    assert!(late.status == 401 && late.page().contains("This sign-in has expired"), "{late:?}");
    assert!(late.page().contains("name=\"password\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_approved_after_the_second_step() {
    let world = World::start().await;
    let (jo, app, _) = protected(&world).await;
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    let text = |name: &str| login[name].as_str().expect("a string").to_owned();
    let query = format!("?cliLoginId={}&cliLoginSecret={}", text("requestId"), text("secret"));
    let (asked, cookie) = begin(&world, &query, &jo.email).await;
    let done = submit(&world, &cookie, "/signin", &filled(&asked, "Sign in", &[("code", &app.code(0))])).await;
    let session = set_cookie(&done, "session_token");
    let page = open(&world, &session, &format!("/signin{}", location(&done))).await;
    let approved = submit(&world, &session, "/signin", &filled(&page, "Approve sign-in", &[("sure", "yes")])).await;
    assert!(approved.page().contains("is signed in"), "{approved:?}");
    let poll = json!({"requestId": login["requestId"], "secret": login["secret"]});
    let polled = world.rpc("", "auth/cliLoginPoll", poll).await.ok().clone();
    assert_eq!(world.is_protected(polled["cookieHeader"].as_str().expect("a cookie")).await, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_requires_a_second_factor_on_the_settings_page() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let settings = open(&world, &owner.cookie, "/console/settings").await;
    assert!(settings.page().contains("Set up your own second factor first"), "{settings:?}");
    let session = world.protect(&owner).await.cookie;
    let settings = open(&world, &session, "/console/settings").await;
    let form = filled(&settings, "Save two-factor setting", &[("requireTwoFactor", "on")]);
    let saved = submit(&world, &session, "/console/settings", &form).await;
    assert_eq!(location(&saved), "/console/settings?did=required");
    for path in ["/console", "/console/keys", "/console/account", "/console/deliveries"] {
        assert_eq!(location(&open(&world, &member.cookie, path).await), PAGE, "{path}");
    }
    let page = open(&world, &member.cookie, PAGE).await;
    assert!(page.page().contains("Your organization requires two-factor authentication."), "{page:?}");
    assert!(!page.page().contains("<nav"), "links in the navigation would lead back here");
    let out = submit(&world, &member.cookie, "/signin", &filled(&page, "Sign out", &[])).await;
    assert_eq!(out.status, 303);
    assert!(!world.is_signed_in(&member.cookie).await);
}
