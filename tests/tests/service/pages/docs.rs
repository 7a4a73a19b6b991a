//! The pages of the documentation, `/docs`.

use std::collections::BTreeSet;

use serde_json::json;
use tests::{World, world::BROWSER};

use super::{location, open};

/// The guides that the index lists.
const GUIDES: [&str; 7] = ["quick-start", "receivers", "events", "listening", "receiving", "servers", "job-events"];

/// The calls that the index links to.
fn linked(html: &str) -> BTreeSet<String> {
    let links = html.split(" href=\"/docs/").skip(1);
    links.filter_map(|rest| rest.split_once('"')).map(|(call, _)| call.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_links_to_a_page_of_every_call() {
    let world = World::start().await;
    let index = world.open(&world.url("/docs")).await;
    assert_eq!(index.status, 200);
    let mut calls = linked(index.page());
    assert!(GUIDES.iter().all(|guide| calls.remove(*guide)), "{calls:?}");
    let document = local::openapi().expect("a description");
    let paths = document["paths"].as_object().expect("paths").iter();
    let expected = paths.filter(|(path, _)| path.starts_with("/v1/") || path.starts_with("/api/auth/"));
    let expected = expected.flat_map(|(_, methods)| methods.as_object().expect("methods").values());
    let expected = expected.filter(|operation| operation["tags"][0] != "pages");
    let expected: BTreeSet<_> = expected.map(|operation| tests::text(&operation["operationId"]).to_owned()).collect();
    assert_eq!(calls, expected);
    for call in &calls {
        let page = world.open(&world.url(&format!("/docs/{call}"))).await;
        assert_eq!(page.status, 200, "{call}");
        for part in ["<h2>Fields</h2>", "<h2>Response</h2>", "<h2>Errors</h2>", "curl http://127.0.0.1:"] {
            assert!(page.page().contains(part), "{call}: {part} is missing from {}", page.page());
        }
        assert!(!page.page().contains('`') && !page.page().contains("$ref"), "{call}: {}", page.page());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_begins_with_the_guides_and_ends_with_producers() {
    let world = World::start().await;
    let index = world.open(&world.url("/docs")).await;
    let (_, content) = index.page().split_once("<main").expect("content");
    let links: Vec<_> = content.split(" href=\"/docs/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links[..6], GUIDES[..6]);
    assert_eq!(links[6..9], ["webhooksCreate", "webhooksList", "webhooksUpdate"]);
    assert_eq!(links.last(), Some(&"job-events"));
}

#[tokio::test(flavor = "multi_thread")]
async fn guides_show_the_address_of_the_service() {
    let world = World::start().await;
    let page = world.open(&world.url("/docs/quick-start")).await;
    assert!(page.page().contains(&format!("fanfare --api {} login", world.stack.api())), "{}", page.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_page_links_to_the_index() {
    let world = World::start().await;
    for path in ["/docs/nope", "/docs/getConsoleKeys", "/docs/receiving.md"] {
        let page = world.open(&world.url(path)).await;
        assert_eq!((page.status, page.headers["cache-control"].as_bytes()), (404, b"no-store".as_slice()), "{path}");
        assert!(page.page().contains("<a href=\"/docs\">"), "{}", page.page());
    }
    let program = world.send(world.http.get(world.url("/docs/nope"))).await;
    assert_eq!((program.status, &program.body["code"]), (404, &json!("NOT_FOUND")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guide_has_no_broken_link() {
    let world = World::start().await;
    for guide in GUIDES {
        let page = world.open(&world.url(&format!("/docs/{guide}"))).await;
        assert_eq!(page.status, 200);
        let html = page.page();
        assert!(!html.contains("cargo local") && !html.contains(".md"), "{guide}: {html}");
        let links: Vec<_> = html.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(links.len() > 6, "{links:?}");
        for link in links.iter().filter(|link| !link.starts_with("https://") && !link.starts_with("/console")) {
            let (path, id) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                page.page().to_owned()
            } else {
                let target = world.open(&world.url(path)).await;
                assert_eq!(target.status, 200, "{link}");
                target.page().to_owned()
            };
            assert!(id.is_empty() || target.contains(&format!(" id=\"{id}\"")), "{guide}: {link}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_for_receivers_has_the_text_of_its_source() {
    let world = World::start().await;
    let page = world.open(&world.url("/docs/receiving")).await;
    let source = include_str!("../../../../docs/receiving.md");
    for part in ["x-webhook-signature", "hmac.compare_digest(one, expected)", "After a failure", "Slow receivers"] {
        assert!(source.contains(part) && page.page().contains(part), "{part} is missing from {}", page.page());
    }
    assert!(page.page().contains("<h1>Receiving webhooks</h1>") && page.page().contains("<h2 id=\"verify-it\">"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_documentation_are_public_and_run_nothing() {
    let world = World::start().await;
    for path in ["/docs", "/docs/webhooksCreate", "/docs/receiving", "/docs/job-events"] {
        for accept in [BROWSER, "*/*"] {
            let page = world.send(world.http.get(world.url(path)).header("accept", accept)).await;
            assert_eq!(page.headers["cache-control"], "public, max-age=300", "{path}");
            let policy = page.headers["content-security-policy"].to_str().expect("a policy");
            assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
            for active in ["<script", "<link", "<img", " src=", " style=", "javascript:", "%API%"] {
                assert!(!page.page().contains(active), "{path}: {active}");
            }
            assert!(!page.headers.contains_key("set-cookie"), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_redirects_to_documentation_elsewhere() {
    let world = World::with(&[("DOCS_URL", "https://docs.example.com/x")]).await;
    for path in ["/docs", "/docs/webhooksCreate", "/docs/receiving", "/docs/nope"] {
        let page = world.open(&world.url(path)).await;
        assert_eq!(location(&page), "https://docs.example.com/x", "{path}");
        assert_eq!(page.headers["cache-control"], "no-store", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_about_webhooks_link_to_the_guide() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"url": "https://example.com/hook"})).await;
    let id = tests::text(&created.ok()["webhook_endpoint_id"]).to_owned();
    let page = open(&world, &tenant.cookie, &format!("/console/endpoints/{id}")).await;
    assert!(page.page().contains(" href=\"/docs/receiving\""), "{}", page.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_call_has_its_fields_errors_and_example() {
    let world = World::start().await;
    let page = world.open(&world.url("/docs/webhooksCreate")).await;
    for part in [
        "<h1>webhooks/create</h1>",
        "POST /v1/webhooks/create",
        "an API key with the scope webhooks:write or a session",
        "<code>signing_secret</code>",
        "<code>kind</code></dt><dd><span class=\"soft\">push or pull</span>",
        "<code>url</code></dt><dd><span class=\"soft\">URL</span>",
        "<code>events</code></dt><dd><span class=\"soft\">list of ",
        "<code>webhook_endpoint_id</code>",
        "<dt>409</dt>",
        "/v1/webhooks/create \\\n  -H &quot;x-api-key: $KEY&quot; \\\n  -d '{",
    ] {
        assert!(page.page().contains(part), "{part} is missing from {}", page.page());
    }
    let (request, response) = page.page().split_once("aria-label=\"Response\"").expect("two examples");
    let (_, request) = request.split_once("aria-label=\"Request\"").expect("a request");
    assert!(!request.contains("signing_secret") && response.contains("signing_secret"), "{request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_call_for_people_has_a_session() {
    let world = World::start().await;
    let page = world.open(&world.url("/docs/postApiKeyCreate")).await;
    let example = format!("-H &quot;cookie: $COOKIE&quot; -H &quot;origin: {}&quot;", world.stack.api());
    assert!(page.page().contains(&example), "{}", page.page());
    assert!(page.page().matches("Build server").count() >= 2, "request and response have the same key");
    let public = world.open(&world.url("/docs/postSignInEmail")).await;
    assert!(!public.page().contains("$KEY") && !public.page().contains("$COOKIE"), "{}", public.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn required_fields_come_first() {
    let world = World::start().await;
    let page = world.open(&world.url("/docs/webhooksUpdate")).await;
    let (_, fields) = page.page().split_once("<dl class=\"fields\">").expect("fields");
    assert!(fields.starts_with("<dt><code>id</code></dt><dd><span class=\"soft\">UUID, required"), "{fields}");
}
