//! The pages of the documentation, `/docs`.

use std::collections::BTreeSet;

use tests::World;

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
    let calls = linked(index.page());
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
            assert!(page.page().contains(part), "{call}: {part} is missing in {}", page.page());
        }
        assert!(!page.page().contains('`') && !page.page().contains("$ref"), "{call}: {}", page.page());
    }
    assert_eq!(world.open(&world.url("/docs/nope")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_call_has_its_fields_errors_and_example() {
    let world = World::start().await;
    let page = world.open(&world.url("/docs/webhooksCreate")).await;
    for part in [
        "<h1>webhooks/create</h1>",
        "POST /v1/webhooks/create",
        "an API key or a session",
        "<code>signing_secret</code>",
        "<code>kind</code></dt><dd><span class=\"soft\">push or pull</span>",
        "<code>url</code></dt><dd><span class=\"soft\">URL, required</span>",
        "<span class=\"soft\">list of job.completed or job.failed or null</span>",
        "<code>webhook_endpoint_id</code>",
        "<dt>409</dt>",
        "/v1/webhooks/create \\\n  -H &quot;x-api-key: $KEY&quot; \\\n  -d '{",
    ] {
        assert!(page.page().contains(part), "{part} is missing in {}", page.page());
    }
}
