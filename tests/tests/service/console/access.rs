//! Access to the console's pages.

use serde_json::json;
use tests::{Answer, Browser, World, event, world::cookie};

use super::{disable, says, text};

/// The pages without an id in their path.
const PAGES: [&str; 4] = ["/console", "/console/endpoints/new", "/console/deliveries", "/console/recovery"];

#[tokio::test(flavor = "multi_thread")]
async fn signed_out_visitors_are_sent_to_the_sign_in_and_back() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let visitor = Browser::new(&world, "");
    for path in ["/console", "/console/deliveries?status=failed&job_id=a%26b+c%C3%A9", "/console/endpoints/x?did=saved"]
    {
        let led = visitor.open(path).await;
        assert_eq!(led.status, 303, "{path}");
        let to = led.headers["location"].to_str().expect("a path").to_owned();
        assert!(to.starts_with("/signin?next=%2Fconsole"), "{to}");
        let form = visitor.open(&to).await;
        let typed = [("email", tenant.email.as_str()), ("password", tests::world::people::PASSWORD)];
        let back = visitor.submit(&to, &form, "Sign in", &typed).await;
        assert_eq!((back.status, back.headers["location"].to_str().expect("a path")), (303, path));
    }
    // A program gets JSON, and an API key does not count as a session.
    let key = world.http.get(world.url("/console")).header("x-api-key", &tenant.key);
    assert_eq!(world.send(key).await.refused(), (401, "UNAUTHORIZED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unverified_users_are_sent_to_the_welcome_page() {
    let world = World::start().await;
    let account = world.sign_up("acme").await;
    let browser = Browser::new(&world, &cookie(&account));
    for path in PAGES {
        let led = browser.open(path).await;
        assert_eq!(
            (led.status, led.headers["location"].to_str().expect("a path")),
            (303, "/console/welcome"),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_another_tenant_is_not_found() {
    let world = World::start().await;
    let (owner, stranger) = (world.tenant("acme").await, world.tenant("evil").await);
    let endpoint = world.endpoint(&owner, "http://127.0.0.1:9/hook", "s").await;
    world.deliver(event(&owner.id, "job-1")).await;
    let delivery = world.only_logged(&owner.id).await.id;
    let browser = Browser::new(&world, &stranger.cookie);
    for path in [
        format!("/console/endpoints/{endpoint}"),
        format!("/console/deliveries/{delivery}"),
        "/console/endpoints/x".to_owned(),
        "/console/deliveries/%3Cscript%3E".to_owned(),
    ] {
        let page = browser.open(&path).await;
        assert_eq!(page.status, 404, "{path}");
        says(&page, &["Not found"]);
        for action in ["test", "activate", "deactivate", "recover", "rotate", "delete", "edit", "resend"] {
            let form = [
                ("action", action),
                ("sure", "yes"),
                ("since", "2026-01-01T00:00:00Z"),
                ("url", "http://127.0.0.1:9/other"),
                ("completed", "yes"),
                ("secret", "another secret"),
            ];
            let request = world.http.post(world.url(&path)).header("accept", "text/html").form(&form);
            let request = request.header("origin", world.stack.api()).header("cookie", &stranger.cookie);
            assert_eq!(world.send(request).await.status, 404, "{path} {action}");
        }
    }
    let filtered = browser.open(&format!("/console/deliveries?endpoint={endpoint}")).await;
    assert_eq!(filtered.status, 404);
    for path in PAGES {
        assert!(!text(&browser.open(path).await).contains("127.0.0.1:9"), "{path}");
    }
    let untouched = world.only_endpoint(&owner).await;
    assert_eq!((&untouched["active"], &untouched["url"]), (&json!(true), &json!("http://127.0.0.1:9/hook")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_site_does_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "http://127.0.0.1:9/hook", "s").await;
    for origin in [Some("https://evil.example.com"), Some("null"), None] {
        let form = [("action", "delete"), ("sure", "yes")];
        let request = world.http.post(world.url(&format!("/console/endpoints/{endpoint}"))).form(&form);
        let request = request.header("accept", "text/html").header("cookie", &tenant.cookie);
        let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
        assert_eq!(world.send(request).await.status, 403, "{origin:?}");
    }
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
}

/// As in the API, members have the same rights to webhooks as owners.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_sees_and_changes_the_endpoints() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "kim@example.com", "member").await;
    let endpoint = world.endpoint(&owner, "http://127.0.0.1:9/hook", "s").await;
    let (browser, path) = (Browser::new(&world, &member.cookie), format!("/console/endpoints/{endpoint}"));
    says(&disable(&browser, &path).await, &["Endpoint disabled", "Disabled by your team"]);
    assert_eq!(world.only_endpoint(&owner).await["active"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_an_ended_session_is_shown_again_after_sign_in() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (browser, visitor) = (Browser::new(&world, &tenant.cookie), Browser::new(&world, ""));
    let path = "/console/endpoints/new";
    let form = browser.open(path).await;
    let typed =
        [("url", "http://127.0.0.1:9/kept"), ("headers", "x-key: canary"), ("completed", "yes"), ("failed", "yes")];
    let asked = visitor.submit(path, &form, "Add endpoint", &typed).await;
    assert_eq!(asked.status, 401);
    says(&asked, &["Your session has ended", "Nothing was saved or sent."]);
    assert!(!asked.page().contains("canary"), "the page does not contain the secret, not even in a hidden field");
    let wrong = [("email", tenant.email.as_str()), ("password", "the password is not in the page")];
    let again = visitor.submit(path, &asked, "Sign in", &wrong).await;
    assert_eq!(again.status, 401);
    let right = [("email", tenant.email.as_str()), ("password", tests::world::people::PASSWORD)];
    let back = visitor.submit("/signin", &again, "Sign in", &right).await;
    says(
        &back,
        &[
            "You are signed in again",
            "Nothing was saved or sent.",
            "URL http://127.0.0.1:9/kept",
            "Secrets are not kept. Enter them again:",
        ],
    );
    assert!(!back.page().contains("canary"), "the page does not contain the secret after the sign-in");
    assert!(world.endpoints(&tenant).await.is_empty());
    let cookie = back.headers["set-cookie"].to_str().expect("a cookie").split(';').next().unwrap_or_default();
    let added = Browser::new(&world, cookie).press(path, &back, "Add endpoint", &[("headers", "x-key: canary")]).await;
    says(&added, &["Endpoint added"]);
    let stored = world.only_endpoint(&tenant).await;
    assert_eq!((&stored["url"], &stored["header_names"]), (&json!("http://127.0.0.1:9/kept"), &json!(["x-key"])));
}

/// A link cannot fill in a form, and pages never repeat a password.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_form_without_a_password_is_kept() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let visitor = Browser::new(&world, "");
    let link = "/signin?next=/console/endpoints/new&kept=url%3Dhttp%253A%252F%252Fevil.example";
    let form = visitor.open(link).await;
    assert!(!form.page().contains("evil.example"), "{}", form.page());
    let right = [("email", tenant.email.as_str()), ("password", tests::world::people::PASSWORD)];
    assert_eq!(visitor.submit(link, &form, "Sign in", &right).await.headers["location"], "/console/endpoints/new");
    let fields = [("action", "password"), ("currentPassword", "canary-1"), ("newPassword", "canary-2")];
    let large = "x".repeat(20_000);
    for fields in [&fields[..], &[("url", large.as_str())]] {
        let request = world.http.post(world.url("/console/account")).header("accept", "text/html");
        let led = world.send(request.header("origin", world.stack.api()).form(fields)).await;
        assert_eq!(
            (led.status, &led.headers["location"]),
            (303, &"/signin?next=%2Fconsole%2Faccount&did=lost".parse().expect("a header"))
        );
    }
    let page = visitor.open("/signin?next=%2Fconsole%2Faccount&did=lost").await;
    says(&page, &["Your session had ended. Nothing was saved or sent."]);
}

/// Submits a form without a session, and signs in on the page that asks for it.
async fn sent_too_late(world: &World, path: &str, fields: &[(&str, &str)], email: &str) -> Answer {
    let request = world.http.post(world.url(path)).header("accept", "text/html");
    let asked = world.send(request.header("origin", world.stack.api()).form(fields)).await;
    says(&asked, &["Your session has ended", "Nothing was saved or sent. Sign in to continue."]);
    let right = [("email", email), ("password", tests::world::people::PASSWORD)];
    Browser::new(world, "").submit(path, &asked, "Sign in", &right).await
}

/// A row's button without the row could be that of another row.
#[tokio::test(flavor = "multi_thread")]
async fn a_button_without_input_is_pressed_again_on_its_page() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = format!("/console/endpoints/{}", world.endpoint(&tenant, "http://127.0.0.1:9/hook", "s").await);
    let id = tenant.user.as_str();
    for (path, fields, button) in [
        ("/console/keys", &[("action", "delete"), ("keyId", id)][..], "Delete key"),
        ("/console/team", &[("action", "role"), ("memberId", id), ("role", "owner")], "Change role"),
        ("/console/account", &[("action", "end-others")], "End all other sessions"),
        (&endpoint, &[("action", "delete"), ("sure", "yes")], "Delete endpoint"),
    ] {
        let back = sent_too_late(&world, path, fields, &tenant.email).await;
        says(&back, &["You are signed in again", &format!("then press “{button}”."), "Open the page"]);
        assert!(back.page().contains(&format!("href=\"{path}\"")) && !back.page().contains("<form"), "{back:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_form_shows_what_its_button_does() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let all = [("since", "2026-01-31T12:00:00.000Z")];
    let back = sent_too_late(&world, "/console/recovery", &all, &tenant.email).await;
    says(&back, &["press “Resend all failed deliveries”", "From 2026-01-31 12:00:00 UTC"]);
    let key = [
        ("action", "issue"),
        ("form", "x"),
        ("name", "CI"),
        ("expires", "30"),
        ("access", "chosen"),
        ("kind", "organization"),
        ("deliveries:read", "yes"),
        ("deliveries:write", "yes"),
    ];
    let back = sent_too_late(&world, "/console/keys", &key, &tenant.email).await;
    says(&back, &["Expires In 30 days", "May use Only the scopes checked below", "Acts for The organization"]);
    says(&back, &["Scopes deliveries:read, deliveries:write"]);
    let settings =
        [("url", "http://127.0.0.1:9/hook"), ("keep_payload", "false"), ("payload", "thin"), ("kind", "pull")];
    let back = sent_too_late(&world, "/console/endpoints/new", &settings, &tenant.email).await;
    says(&back, &["Payload Without result", "In the log Erase payloads and responses after each success"]);
    assert!(!text(&back).contains("Acts for"), "{}", text(&back));
}

/// Several people share a browser, and several organizations a person.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_page_may_belong_to_another_account() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let endpoint = world.endpoint(&other, "http://127.0.0.1:9/hook", "s").await;
    let page = Browser::new(&world, &tenant.cookie).open(&format!("/console/endpoints/{endpoint}")).await;
    assert_eq!(page.status, 404);
    says(
        &page,
        &["Not found", "endpoint not found.", "belong to the organization of another account.", "View your account"],
    );
}

/// Two accounts can be used in one browser, one after the other, with tabs of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_changes_only_the_account_of_its_page() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (browser, later) = (Browser::new(&world, &tenant.cookie), Browser::new(&world, &other.cookie));
    let path = "/console/settings";
    let page = browser.open(path).await;
    let typed = [("name", "Renamed")];
    let refused = later.press(path, &page, "Change name", &typed).await;
    assert_eq!(refused.status, 403);
    says(&refused, &["Nothing was saved or sent, because this page showed another account. Open the page again."]);
    // Someone else may also sign in after the session has ended, and get the form again.
    let asked = Browser::new(&world, "").press(path, &page, "Change name", &typed).await;
    let right = [("email", other.email.as_str()), ("password", tests::world::people::PASSWORD)];
    let kept = Browser::new(&world, "").submit(path, &asked, "Sign in", &right).await;
    says(&later.press(path, &kept, "Change name", &[]).await, &["because this page showed another account."]);
    for browser in [&browser, &later] {
        assert!(!text(&browser.open(path).await).contains("Renamed"));
    }
    browser.press(path, &page, "Change name", &typed).await;
    says(&browser.open(path).await, &["Renamed"]);
}

/// Two members of an organization share a browser, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_about_an_account_changes_only_that_account() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "bo@example.com", "member").await;
    let (browser, later) = (Browser::new(&world, &tenant.cookie), Browser::new(&world, &member.cookie));
    let path = "/console/account";
    let page = browser.open(path).await;
    let typed = [("name", "Renamed")];
    let refused = later.press(path, &page, "Change name", &typed).await;
    assert_eq!(refused.status, 403);
    says(&refused, &["because this page showed another account."]);
    assert!(!text(&later.open(path).await).contains("Renamed"));
    browser.press(path, &page, "Change name", &typed).await;
    says(&browser.open(path).await, &["Renamed"]);
    // The page for a user without a verified address has no frame.
    let accounts = [world.sign_up("early").await, world.sign_up("later").await].map(|account| cookie(&account));
    let [early, later] = accounts.each_ref().map(|cookie| Browser::new(&world, cookie));
    let path = "/console/welcome";
    let page = early.open(path).await;
    let refused = later.press(path, &page, "Change address", &[("email", "new@example.com")]).await;
    assert_eq!(refused.status, 403);
    says(&refused, &["because this page showed another account."]);
}
