//! Rules that apply to all pages.

use serde_json::json;
use tests::{Answer, World, world::BROWSER};

use super::open;

/// The address of each public page.
const PAGES: [&str; 8] = [
    "/signin",
    "/signin?mode=signup",
    "/signin?cliLoginId=x",
    "/verify-email?token=x",
    "/reset-password",
    "/reset-password?token=x",
    "/invite",
    "/api/auth/verify-email",
];

/// The console's pages for a new organization.
const CONSOLE: [&str; 10] = [
    "/console",
    "/console/deliveries",
    "/console/endpoints/new",
    "/console/recovery",
    "/console/keys",
    "/console/team",
    "/console/audit",
    "/console/settings",
    "/console/account",
    "/console/two-factor",
];

/// All pages that an owner can open.
async fn every_page(world: &World) -> Vec<(&'static str, Answer)> {
    let (cookie, mut pages) = (world.tenant("acme").await.cookie, Vec::new());
    for path in PAGES {
        pages.push((path, world.open(&world.url(path)).await));
    }
    for path in CONSOLE {
        pages.push((path, open(world, &cookie, path).await));
    }
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_runs_nothing_loads_nothing_and_cannot_be_framed() {
    let world = World::start().await;
    for (path, page) in every_page(&world).await {
        let header = |name: &str| page.headers[name].to_str().expect("a string").to_owned();
        assert_eq!(header("content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
        // With `no-referrer`, the browser would send `Origin: null` with a form.
        assert_eq!(header("referrer-policy"), "same-origin");
        assert_eq!(header("cross-origin-opener-policy"), "same-origin");
        let policy = header("content-security-policy");
        let mut rules: Vec<_> = policy.split("; ").collect();
        rules.retain(|rule| !rule.starts_with("style-src"));
        let strict = ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"];
        assert_eq!(rules, strict);
        for active in ["<script", "<link", "<img", " src=", " style=", "javascript:", "=\"http"] {
            assert!(!page.page().contains(active), "{path}: {active}");
        }
    }
}

/// With this header, a browser that has visited over TLS never uses plain HTTP again. The local service does not use
/// TLS, so it must not send the header.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_requires_tls_if_the_base_url_is_https() {
    for (base, insists) in [("https://api.example.com", true), ("", true), ("http://api.example.com", false)] {
        let world = World::with(&[("BASE_URL", base)]).await;
        let strict = insists.then(|| "max-age=31536000".parse().expect("a header"));
        for path in PAGES {
            let page = world.open(&world.url(path)).await;
            assert_eq!(page.headers.get("strict-transport-security"), strict.as_ref(), "{base} {path}");
        }
        let form = world.http.post(world.url("/signin")).form(&[("action", "sign-out")]);
        let redirect = world.send(form).await;
        assert_eq!(redirect.status, 303);
        assert_eq!(redirect.headers.get("strict-transport-security"), strict.as_ref(), "{base}");
    }
}

/// Browsers hash the exact text between the tags, and compare the result with this hash.
#[tokio::test(flavor = "multi_thread")]
async fn the_policy_allows_the_style_of_the_page_by_its_hash() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use sha2::{Digest, Sha256};
    let world = World::start().await;
    let page = world.send(world.http.get(world.url("/reset-password"))).await;
    let (_, style) = page.page().split_once("<style>").expect("a style");
    let (style, rest) = style.split_once("</style>").expect("an end");
    assert!(style.contains("prefers-color-scheme: dark") && !rest.contains("<style"));
    let policy = page.headers["content-security-policy"].to_str().expect("a policy");
    assert!(policy.contains(&format!("style-src 'sha256-{}';", STANDARD.encode(Sha256::digest(style)))), "{policy}");
}

/// Accessibility: each page has a language, one heading, a viewport for phones, and a label for each field.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_one_heading_and_every_field_has_a_label() {
    let world = World::start().await;
    for (path, page) in every_page(&world).await {
        let html = page.page();
        assert!(html.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{html}");
        assert!(html.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
        assert_eq!(html.matches("<h1>").count(), 1, "{path}");
        let inputs = ["<input ", "<select ", "<textarea "].map(|tag| html.split(tag).skip(1)).into_iter().flatten();
        let inputs = inputs.filter_map(|input| input.split('>').next());
        for input in inputs.filter(|input| !input.starts_with("type=\"hidden\"")) {
            let id = input.split("id=\"").nth(1).and_then(|id| id.split('"').next()).expect("an id");
            assert!(html.contains(&format!("<label for=\"{id}\">")), "{path}: {id}");
            assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{path}: {id}");
            let is_typed = !html.contains(&format!("<select id=\"{id}\""))
                && !["checkbox", "radio"].iter().any(|kind| input.contains(&format!("type=\"{kind}\"")));
            assert!(!is_typed || input.contains(" autocomplete=\""), "{path}: {id}");
        }
        // Buttons of the same kind have different accessible names.
        let buttons: Vec<_> =
            html.split("<button").skip(1).filter_map(|button| button.split("</button>").next()).collect();
        assert_eq!(
            buttons.iter().collect::<std::collections::BTreeSet<_>>().len(),
            buttons.len(),
            "{path}: {buttons:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_a_page_for_any_refusal_and_programs_get_json() {
    let world = World::start().await;
    for (accept, is_page) in [(BROWSER, true), ("*/*", false)] {
        let post = |origin: &str, body: String| {
            let request = world.http.post(world.url("/verify-email")).header("accept", accept).header("origin", origin);
            world.send(request.body(body))
        };
        let foreign = post("https://evil.example.com", String::new()).await;
        let large = post(world.stack.api(), "x".repeat(70_000)).await;
        for (refused, status, code) in [(&foreign, 403, "INVALID_ORIGIN"), (&large, 413, "PAYLOAD_TOO_LARGE")] {
            assert_eq!(refused.status, status);
            if is_page {
                assert!(refused.page().contains("</svg> Request rejected</h1>"));
                assert!(refused.headers.contains_key("content-security-policy"));
            } else {
                assert_eq!(refused.body["code"], json!(code));
            }
        }
        let named = if is_page { foreign.page().to_owned() } else { foreign.body.to_string() };
        assert!(named.contains(world.stack.api()), "the expected origin is named: {named}");
    }
}
