//! The page `/signin`, as a browser without scripts uses it.

use serde_json::{Value, json};
use tests::{
    Answer, World,
    world::{cookie, link},
};

use super::{SCRIPT, filled, harmless, location, open, set};

const EMAIL: &str = "jo@acme.example.com";
const RIGHT: &str = "correct horse battery";
const WRONG: &str = "wrong horse battery";

/// The checkbox that an approval requires.
const SURE: &[(&str, &str)] = &[("sure", "yes")];

async fn get(world: &World, cookie: &str, query: &str) -> Answer {
    let request = world.http.get(world.url(&format!("/signin{query}")));
    world.send(if cookie.is_empty() { request } else { request.header("cookie", cookie) }).await
}

/// Sends a form of the page from the service's origin.
async fn post(world: &World, cookie: &str, fields: &[(String, String)]) -> Answer {
    let request = world.http.post(world.url("/signin")).header("origin", world.stack.api()).form(fields);
    world.send(if cookie.is_empty() { request } else { request.header("cookie", cookie) }).await
}

async fn sign_in(world: &World, query: &str, email: &str, password: &str) -> Answer {
    let page = get(world, "", query).await;
    post(world, "", &filled(&page, "Sign in", &[("email", email), ("password", password)])).await
}

/// Creates a login request by a client with this name. Returns the query for the page, and the fields for the poll.
async fn ask(world: &World, agent: &str) -> (String, Value) {
    let request = world.http.post(world.url("/v1/auth/cliLoginCreate")).header("user-agent", agent);
    let made = world.send(request.json(&json!({"json": {}}))).await.ok().clone();
    let text = |name: &str| made[name].as_str().expect("a string").to_owned();
    let query = format!("?mode=signin&cliLoginId={}&cliLoginSecret={}", text("requestId"), text("secret"));
    (query, json!({"requestId": made["requestId"], "secret": made["secret"]}))
}

async fn poll(world: &World, login: &Value) -> String {
    let answer = world.rpc("", "auth/cliLoginPoll", login.clone()).await;
    answer.ok()["status"].as_str().expect("a status").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_shows_the_user_and_a_way_to_sign_out() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = get(&world, "", "").await;
    assert_eq!(page.status, 200);
    assert!(page.page().contains("<a href=\"/reset-password\">") && page.page().contains("<a href=\"?mode=signup\">"));
    let signed_in = sign_in(&world, "", " JO@acme.example.com", RIGHT).await;
    assert_eq!(location(&signed_in), "/console");
    let cookie = set(&signed_in);
    assert!(world.is_signed_in(&cookie).await && cookie != tenant.cookie);

    let page = get(&world, &cookie, "").await;
    assert!(page.page().contains("You are signed in") && page.page().contains("<dd>jo@acme.example.com</dd>"));
    assert!(!page.page().contains("is not confirmed yet"));
    let out = post(&world, &cookie, &filled(&page, "Sign out", &[])).await;
    assert_eq!(out.status, 303);
    assert!(out.headers["set-cookie"].to_str().expect("a cookie").starts_with("session_token=; Path=/;"));
    assert!(!world.is_signed_in(&cookie).await && world.is_signed_in(&tenant.cookie).await);
    for ended in ["", &cookie, "session_token=x"] {
        assert!(get(&world, ended, "").await.page().contains("<h1>Sign in</h1>"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_return_the_same_form_for_any_address() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let mut pages = Vec::new();
    for (email, password) in
        [(EMAIL, WRONG), ("nobody@example.com", RIGHT), (SCRIPT, RIGHT), (EMAIL, ""), (EMAIL, "short")]
    {
        let page = sign_in(&world, "", email, password).await;
        assert_eq!(page.status, 401, "{email}");
        assert!(!page.headers.contains_key("set-cookie"));
        let escaped = email.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
        let kept = format!(" value=\"{escaped}\"");
        assert!(harmless(&page).contains(&kept), "{page:?}");
        assert!(password.is_empty() || !page.page().contains(password));
        assert!(page.page().contains("<p class=\"error\" role=\"alert\">Invalid email or password.</p>"));
        pages.push(page.page().replace(&kept, ""));
    }
    pages.dedup();
    assert_eq!(pages.len(), 1);
    // Browsers never send requests like these.
    for fields in [vec![], vec![("action".to_owned(), "x".to_owned())]] {
        assert_eq!(post(&world, "", &fields).await.status, 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_on_the_page_and_by_the_api_count_together() {
    let world = World::start().await;
    world.sign_up("acme").await;
    for round in 0..10 {
        if round % 2 == 0 {
            assert_eq!(sign_in(&world, "", EMAIL, WRONG).await.status, 401);
        } else {
            let credentials = json!({"email": EMAIL, "password": WRONG});
            assert_eq!(world.cli("", "sign-in/email", credentials).await.status, 401);
        }
    }
    let refused = sign_in(&world, "", EMAIL, RIGHT).await;
    assert_eq!(refused.status, 429);
    assert!(refused.page().contains("Too many attempts") && refused.page().contains(&format!("value=\"{EMAIL}\"")));
    let wait: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
    assert!((1..=600).contains(&wait), "{wait}");
    let credentials = json!({"email": EMAIL, "password": RIGHT});
    assert_eq!(world.cli("", "sign-in/email", credentials).await.status, 429);
}

/// The fields of the sign-up form.
fn founder<'a>(slug: &'a str, email: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("name", "Jo Doe"),
        ("email", email),
        ("password", RIGHT),
        ("organizationName", "Doe & Co"),
        ("organizationSlug", slug),
    ]
}

/// A stranger's link can have any mode, and API Gateway answers with an error if a redirect's address is too long.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_mode_is_dropped_from_the_address() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let mode = "x".repeat(4000);
    let page = get(&world, "", &format!("?mode={mode}")).await;
    assert!(page.page().contains("<h1>Sign in</h1>") && !page.page().contains(&mode));
    let mut fields = filled(&page, "Sign in", &[("email", EMAIL), ("password", RIGHT)]);
    fields.push(("mode".to_owned(), mode));
    assert_eq!(location(&post(&world, "", &fields).await), "/console");
    let out =
        post(&world, "", &[("action".to_owned(), "sign-out".to_owned()), ("mode".to_owned(), "x".to_owned())]).await;
    assert_eq!(location(&out), "?");
}

/// A visitor opens a console page without a session, signs in, perhaps with a mistake, and is redirected to the page.
#[tokio::test(flavor = "multi_thread")]
async fn signing_in_returns_to_the_requested_page() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    for (path, next) in [
        ("/console/keys", "%2Fconsole%2Fkeys"),
        ("/console/team?part=1&x=%22", "%2Fconsole%2Fteam%3Fpart%3D1%26x%3D%2522"),
        ("/console/settings", "%2Fconsole%2Fsettings"),
        ("/console/account", "%2Fconsole%2Faccount"),
    ] {
        let refused = open(&world, "session_token=x", path).await;
        assert_eq!(location(&refused), format!("/signin?next={next}"));
        let query = location(&refused).trim_start_matches("/signin").to_owned();
        let mistaken = sign_in(&world, &query, EMAIL, WRONG).await;
        assert_eq!(mistaken.status, 401);
        let again = filled(&mistaken, "Sign in", &[("email", EMAIL), ("password", RIGHT)]);
        assert_eq!(location(&post(&world, "", &again).await), path);
        // A form that is sent without a session has no effect. After signing in, the visitor is redirected to the
        // form's page.
        let form = world.http.post(world.url(path)).header("accept", tests::world::BROWSER);
        let form = world.send(form.header("origin", world.stack.api()).form(&[("action", "x")])).await;
        let back = format!("name=\"next\" value=\"{}\"", path.split('?').next().unwrap_or_default());
        assert!(form.status == 401 && form.page().contains(&back), "{}", form.page());
    }
    // The same applies to a sign-up.
    let page = get(&world, "", "?next=%2Fconsole%2Fkeys").await;
    let link = page.page().split("<a href=\"").find(|link| link.contains("mode=signup")).expect("a link");
    let query = link.split('"').next().expect("an address").replace("&amp;", "&");
    let page = get(&world, "", &query).await;
    let signed_up = post(&world, "", &filled(&page, "Sign up", &founder("second", "jo@second.example.com"))).await;
    assert_eq!(location(&signed_up), "/console/keys");
    // Programs get an error instead of a redirect.
    let program = world.send(world.http.get(world.url("/console/keys"))).await;
    assert_eq!((program.status, &program.body["code"]), (401, &json!("UNAUTHORIZED")));
    assert!(world.is_signed_in(&cookie).await);
}

/// Any link can have a parameter `next`.
#[tokio::test(flavor = "multi_thread")]
async fn signing_in_redirects_only_to_the_console() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let long = format!("/console/{}", "x".repeat(2048));
    let bad = [
        "//evil.example.com",
        "https://evil.example.com",
        "https://evil.example.com/console",
        "/console\\evil",
        "/consoleevil",
        "/console@evil.example.com",
        "/console\n/x",
        "/console/\r\nset-cookie: a=b",
        "/console/ x",
        "/console/ß",
        "/console/../demo",
        "/console/..//evil.example.com",
        "/console/%2e%2E/demo",
        "/console/.%2e/demo",
        "/signin",
        "/signin?next=/console",
        "console",
        "javascript:alert(1)",
        "",
        &long,
    ];
    for next in bad {
        let query = url::form_urlencoded::Serializer::new("?".to_owned()).append_pair("next", next).finish();
        let query = query.replace("?&", "?");
        let page = get(&world, "", &query).await;
        assert!(!page.page().contains("name=\"next\""), "{next}: {}", page.page());
        let mut fields = filled(&page, "Sign in", &[("email", EMAIL), ("password", RIGHT)]);
        fields.push(("next".to_owned(), next.to_owned()));
        assert_eq!(location(&post(&world, "", &fields).await), "/console", "{next}");
    }
    for good in ["/console", "/console?x=1", "/console/endpoints/a%20b", "/console/deliveries?status=failed&x=//y"] {
        let page = get(&world, "", "").await;
        let mut fields = filled(&page, "Sign in", &[("email", EMAIL), ("password", RIGHT)]);
        fields.push(("next".to_owned(), good.to_owned()));
        assert_eq!(location(&post(&world, "", &fields).await), good);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_up_redirects_to_the_email_verification() {
    let world = World::start().await;
    let page = get(&world, "", "?mode=signup").await;
    assert!(page.page().contains("<h1>Sign up</h1>") && page.page().contains("<a href=\"?mode=signin\">"));
    let mut typed = founder("acme", EMAIL);
    typed.push(("debugNotificationEmail", ""));
    let signed_up = post(&world, "", &filled(&page, "Sign up", &typed)).await;
    assert_eq!(location(&signed_up), "/console");
    let cookie = set(&signed_up);
    let page = get(&world, &cookie, "?mode=signup").await;
    assert!(page.page().contains("You are signed in") && page.page().contains("is not confirmed yet"));
    assert_eq!(world.confirm(&link(&world.mail_to(EMAIL).await)).await.status, 200);
    assert!(!get(&world, &cookie, "").await.page().contains("is not confirmed yet"));
    assert_eq!(world.cli_get(&cookie, "organization/list").await.body[0]["slug"], "acme");
    let organizations = world.items("organizations").await;
    let notified = organizations.iter().find_map(|item| item.get("debug_notification_email")).expect("an address");
    assert_eq!(notified.as_s().expect("a string"), EMAIL, "the user's own address, because no other was given");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_up_with_mistakes_returns_the_form_with_its_input() {
    let world = World::start().await;
    world.sign_up("taken").await;
    let page = get(&world, "", "?mode=signup&cliLoginId=x").await;
    assert_eq!(page.status, 404, "the request does not exist");
    let page = get(&world, "", "?mode=signup").await;
    let typed = [
        ("name", SCRIPT),
        ("email", "no address"),
        ("password", "short"),
        ("organizationName", ""),
        ("organizationSlug", "Upper"),
    ];
    let again = post(&world, "", &filled(&page, "Sign up", &typed)).await;
    assert_eq!(again.status, 400);
    let says = harmless(&again);
    assert!(
        says.contains("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\"") && says.contains("value=\"Upper\"")
    );
    assert!(!says.contains("short"), "the password");
    for (field, problem) in [
        ("email", "Must be an email address."),
        ("password", "Must have at least 8 characters."),
        ("organizationName", "Must have at least 1 character."),
        ("organizationSlug", "Must contain only lowercase letters, digits and hyphens."),
    ] {
        assert!(says.contains(&format!("<p class=\"error\" id=\"{field}-error\">{problem}</p>")), "{field}: {says}");
        let input =
            says.split("<input ").find(|input| input.starts_with(&format!("id=\"{field}\""))).expect("an input");
        let described = input.split("aria-describedby=\"").nth(1).and_then(|ids| ids.split('"').next());
        assert!(described.is_some_and(|ids| ids.split(' ').any(|id| id == format!("{field}-error"))), "{field}");
        assert!(input.contains("aria-invalid=\"true\""));
    }
    assert_eq!(says.matches("aria-invalid").count(), 4 + 1, "four fields, and once in the style: {says}");

    for (slug, email, field, says) in [
        ("taken", EMAIL, "organizationSlug", "The organization slug &quot;taken&quot; is already taken."),
        ("free", "jo@taken.example.com", "email", "An account with this email already exists."),
    ] {
        let refused = post(&world, "", &filled(&page, "Sign up", &founder(slug, email))).await;
        assert_eq!(refused.status, 409);
        let error = format!("<p class=\"error\" id=\"{field}-error\">{says}</p>");
        assert!(refused.page().contains(&error), "{refused:?}");
        assert!(refused.page().contains(&format!("value=\"{slug}\"")) && refused.page().contains("value=\"Jo Doe\""));
        assert!(!refused.page().contains(RIGHT) && !refused.headers.contains_key("set-cookie"));
    }
    assert_eq!(world.items("users").await.len(), 2, "a user, and the guard of their email");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slug_left_empty_follows_from_the_name() {
    let world = World::start().await;
    let page = get(&world, "", "?mode=signup").await;
    let first = post(&world, "", &filled(&page, "Sign up", &founder("", EMAIL))).await;
    assert_eq!(location(&first), "/console");
    assert_eq!(world.cli_get(&set(&first), "organization/list").await.body[0]["slug"], "doe-co");
    // The proposal is taken. The form contains it, so that it can be changed.
    let refused = post(&world, "", &filled(&page, "Sign up", &founder("", "other@example.com"))).await;
    assert_eq!(refused.status, 409);
    assert!(refused.page().contains("value=\"doe-co\"") && refused.page().contains("id=\"organizationSlug-error\""));
}

/// Otherwise, a page on another site could sign a visitor in to an account that belongs to the site's owner, or approve
/// a request in the visitor's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_site_does_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (query, login) = ask(&world, "a client").await;
    let (page, anonymous) = (get(&world, &tenant.cookie, &query).await, get(&world, "", "").await);
    let forms = [
        filled(&page, "Approve sign-in", SURE),
        filled(&page, "Sign out", &[]),
        filled(&anonymous, "Sign in", &[("email", EMAIL), ("password", RIGHT)]),
    ];
    for form in &forms {
        for origin in [Some("https://evil.example.com"), Some("null"), Some(""), None] {
            let request = world.http.post(world.url("/signin")).header("cookie", &tenant.cookie).form(form);
            let request = match origin {
                Some(origin) => request.header("origin", origin),
                None => request,
            };
            let refused = world.send(request).await;
            assert_eq!((refused.status, &refused.body["code"]), (403, &json!("INVALID_ORIGIN")), "{origin:?}");
            assert!(!refused.headers.contains_key("set-cookie"));
        }
    }
    assert!(world.is_signed_in(&tenant.cookie).await);
    assert_eq!(poll(&world, &login).await, "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_approved_only_by_a_button() {
    let world = World::start().await;
    world.tenant("acme").await;
    let (query, login) = ask(&world, &format!("evil/1 {SCRIPT}")).await;
    let page = get(&world, "", &query).await;
    assert!(page.page().contains("<h1>Sign in</h1>") && page.page().contains("A command-line client wants to sign in"));
    assert_eq!(sign_in(&world, &query, EMAIL, WRONG).await.status, 401);
    let signed_in = sign_in(&world, &query, EMAIL, RIGHT).await;
    assert_eq!(signed_in.status, 303);
    assert_eq!(signed_in.headers["location"].to_str().expect("a string"), query, "back to the same address");
    let cookie = set(&signed_in);

    let mut page = get(&world, &cookie, &query).await;
    for _ in 0..2 {
        page = get(&world, &cookie, &query).await;
        assert_eq!(page.status, 200);
    }
    let says = harmless(&page);
    assert!(says.contains("wants to sign in as <strong>jo@acme.example.com</strong>"));
    assert!(says.contains("<dd>evil/1 &quot;&gt;&lt;script&gt;") && says.contains("<dd>127.0.0.1</dd>"), "{says}");
    assert!(says.contains("Approve only if you just started this sign-in yourself."));
    let code = api::auth::comparison_code(&login["requestId"].as_str().expect("an id").into());
    assert!(says.contains(&format!("<dt>Code</dt><dd>{code}</dd>")), "{code} is missing from {says}");
    assert!(
        says.contains("If someone else sent you this link, approving the request gives them access to your account.")
    );
    assert!(!says.contains("comes from a different IP address"));
    assert_eq!(poll(&world, &login).await, "pending", "opening the page changes nothing");

    let approve = filled(&page, "Approve sign-in", SURE);
    let unsure = post(&world, &cookie, &filled(&page, "Approve sign-in", &[])).await;
    assert!(unsure.page().contains("I just started this sign-in myself"), "a click alone shows the page again");
    for value in ["", "no", "on"] {
        let untrue = post(&world, &cookie, &filled(&page, "Approve sign-in", &[("sure", value)])).await;
        assert!(untrue.page().contains("I just started this sign-in myself"), "{value}: no checkbox sends this");
    }
    assert_eq!(poll(&world, &login).await, "pending");
    let without_session = post(&world, "", &approve).await;
    assert!(without_session.page().contains("<h1>Sign in</h1>"));
    let by_key = world.http.post(world.url("/signin")).header("x-api-key", "ak_x").form(&approve);
    assert!(world.send(by_key).await.page().contains("<h1>Sign in</h1>"));
    assert_eq!(poll(&world, &login).await, "pending");

    for _ in 0..2 {
        let approved = post(&world, &cookie, &approve).await;
        assert_eq!(approved.status, 200);
        assert!(approved.page().contains("go back to your terminal") && !approved.page().contains("<form"));
    }
    assert_eq!(poll(&world, &login).await, "approved");
    for gone in [get(&world, &cookie, &query).await, post(&world, &cookie, &approve).await] {
        assert_eq!(gone.status, 404, "the session was already fetched");
        assert!(gone.page().contains("This sign-in request is not valid"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_approves_only_for_the_account_that_it_showed() {
    let world = World::start().await;
    let (shown, other) = (world.tenant("shown").await, world.tenant("other").await);
    let (query, login) = ask(&world, "a client").await;
    let approve = filled(&get(&world, &shown.cookie, &query).await, "Approve sign-in", SURE);
    // The user signs in to a different account in another window.
    let page = post(&world, &other.cookie, &approve).await;
    assert!(page.page().contains("wants to sign in as <strong>jo@other.example.com</strong>"));
    assert_eq!(poll(&world, &login).await, "pending");
    let out = post(&world, &other.cookie, &filled(&page, "Sign out", &[])).await;
    assert_eq!(out.headers["location"].to_str().expect("a string"), query, "to continue with another account");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_up_for_a_client_continues_after_verification() {
    let world = World::start().await;
    let (query, login) = ask(&world, "a client").await;
    let query = query.replace("mode=signin", "mode=signup");
    let page = get(&world, "", &query).await;
    let signed_up = post(&world, "", &filled(&page, "Sign up", &founder("acme", EMAIL))).await;
    assert_eq!(signed_up.headers["location"].to_str().expect("a string"), query);
    let cookie = set(&signed_up);
    let page = get(&world, &cookie, &query).await;
    let approved = post(&world, &cookie, &filled(&page, "Approve sign-in", SURE)).await;
    assert_eq!(approved.status, 200);
    assert!(approved.page().contains("Confirm your email address first"));
    assert_eq!(poll(&world, &login).await, "pending");
    assert_eq!(world.confirm(&link(&world.mail_to(EMAIL).await)).await.status, 200);
    assert_eq!(poll(&world, &login).await, "approved");
}

/// The number of emails to the user so far.
async fn mails(world: &World) -> usize {
    world.mails().await.iter().filter(|mail| mail["to"] == json!([EMAIL])).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_before_verification_sends_a_fresh_link() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let old = link(&world.mail_to(EMAIL).await);
    let now = common::timestamp::Timestamp::now().as_second();
    world.set("tokens", ("kind", "email_verification"), json!({"expires_at": now})).await;
    assert_eq!(world.confirm(&old).await.status, 400, "a day later");
    let (query, login) = ask(&world, "a client").await;
    let page = get(&world, &cookie, &query).await;
    let before = mails(&world).await;
    let approved = post(&world, &cookie, &filled(&page, "Approve sign-in", SURE)).await;
    assert!(approved.page().contains("We sent an email to <strong>jo@acme.example.com</strong>"), "{approved:?}");
    assert_eq!((mails(&world).await, poll(&world, &login).await), (before + 1, "pending".to_owned()));
    // The first email may have been lost.
    let again = post(&world, &cookie, &filled(&approved, "Resend confirmation email", &[])).await;
    assert_eq!((again.status, mails(&world).await), (200, before + 2));
    assert!(again.page().contains("the command-line client continues automatically"));
    assert_eq!(world.confirm(&link(&world.mail_to(EMAIL).await)).await.status, 200);
    assert_eq!(poll(&world, &login).await, "approved");
    // Now that the client is signed in, there is no link to send.
    let confirmed = post(&world, &cookie, &filled(&approved, "Resend confirmation email", &[])).await;
    assert_eq!(
        (confirmed.status, mails(&world).await),
        (404, before + 3),
        "the client is signed in, and an email reports it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmation_emails_of_the_sign_in_page_are_limited() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let page = get(&world, &cookie, "").await;
    let resend = filled(&page, "Resend confirmation email", &[]);
    let before = mails(&world).await;
    for _ in 0..5 {
        let sent = post(&world, &cookie, &resend).await;
        assert!(sent.status == 200 && !sent.page().contains("command line"), "{sent:?}");
    }
    // An approval counts toward the limit, but still succeeds.
    let (query, login) = ask(&world, "a client").await;
    let approve = filled(&get(&world, &cookie, &query).await, "Approve sign-in", SURE);
    for (form, says) in [(&resend, ""), (&approve, "the command-line client continues automatically")] {
        let limited = post(&world, &cookie, form).await;
        assert_eq!(limited.status, 429);
        for says in [says, "Try again in", "We already sent several emails to <strong>jo@acme.example.com</strong>"] {
            assert!(limited.page().contains(says), "{says}: {limited:?}");
        }
    }
    assert_eq!(mails(&world).await, before + 5);
    assert_eq!(world.confirm(&link(&world.mail_to(EMAIL).await)).await.status, 200);
    assert_eq!(poll(&world, &login).await, "approved");
    // A visitor without a session gets the sign-in form, and no email is sent.
    assert!(post(&world, "", &resend).await.page().contains("<h1>Sign in</h1>"));
    assert_eq!(mails(&world).await, before + 6, "six emails, one of them about the signed-in client");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_or_expired_request_gets_an_explanation() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let (query, _) = ask(&world, "a client").await;
    let other = ask(&world, "another client").await.0;
    let (id, secret) = (query.split(['=', '&']).nth(3).expect("an id"), other.rsplit('=').next().expect("a secret"));
    let now = common::timestamp::Timestamp::now().as_second();
    world.set("tokens", ("request_id", id), json!({"expires_at": now})).await;
    let of_another = format!("?cliLoginId={id}&cliLoginSecret={secret}");
    let bad = ["?cliLoginId=x&cliLoginSecret=%3Cscript%3E", "?cliLoginId=", "?cliLoginSecret=", &of_another, &query];
    for query in bad {
        for cookie in ["", &cookie] {
            let page = get(&world, cookie, query).await;
            assert_eq!(page.status, 404, "{query}");
            assert!(harmless(&page).contains("This sign-in request is not valid") && !page.page().contains("<form"));
        }
    }
}

/// The page must not make a stranger's login request look trustworthy.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_from_elsewhere_gets_a_stronger_warning() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (query, _) = ask(&world, "a client").await;
    for (client, is_elsewhere) in [("127.0.0.1", false), ("203.0.113.7", true)] {
        let mut event = tests::sample_event("console");
        event["rawPath"] = json!("/signin");
        event["rawQueryString"] = json!(query.trim_start_matches('?'));
        event["cookies"] = json!([tenant.cookie]);
        event["requestContext"]["http"]["sourceIp"] = json!(client);
        let answer = world.stack.invoke("console", event).await.expect("an answer");
        let body = answer["body"].as_str().expect("a page");
        assert!(body.contains("Approve only if"), "{body}");
        assert_eq!(body.contains("comes from a different IP address"), is_elsewhere, "{client}");
    }
}
