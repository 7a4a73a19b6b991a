//! `GET /`: the page at the API's address.

use serde_json::{Value, json};
use tests::{Answer, World, world::BROWSER};

use super::location;

async fn open(world: &World, accept: &str) -> Answer {
    world.send(world.http.get(world.url("/")).header("accept", accept)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_redirected_to_the_console_or_its_sign_in() {
    let world = World::start().await;
    let root = open(&world, BROWSER).await;
    assert_eq!(location(&root), "/console");
    let console = world.open(&world.url("/console")).await;
    assert_eq!(location(&console), "/signin?next=%2Fconsole");
    let page = world.open(&world.url(location(&console))).await;
    assert!(page.page().contains("<h1>Sign in</h1>") && page.page().contains(" href=\"/docs\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_the_links_as_json() {
    let world = World::start().await;
    let links = open(&world, "*/*").await;
    assert_eq!((links.status, links.headers["content-type"].as_bytes()), (200, b"application/json".as_slice()));
    let expected = json!({"message": "This service is up", "signIn": world.url("/signin"), "docs": world.url("/docs")});
    assert_eq!(links.body, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deployment_sets_the_address_of_the_documentation() {
    let docs = "https://docs.example.com/a?b=c&d";
    let world = World::with(&[("DOCS_URL", docs)]).await;
    assert_eq!(open(&world, "application/json").await.body["docs"], docs);
    let page = world.open(&world.url("/signin")).await;
    assert!(page.page().contains("href=\"https://docs.example.com/a?b=c&amp;d\""), "{}", page.page());
    assert_eq!(location(&world.open(&world.url("/docs")).await), docs);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_paths_without_a_route_are_still_not_found() {
    let world = World::start().await;
    for path in ["/index.html", "/v1", "/v1/", "/consoles", "/console/x/"] {
        assert_eq!(world.send(world.http.get(world.url(path))).await.status, 404, "{path}");
    }
    assert_eq!(world.send(world.http.post(world.url("/"))).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_a_page_for_unknown_paths_and_programs_json() {
    let world = World::start().await;
    for path in ["/console/endpoints/x/y", "/sigin", "/signup/x", "/v1/webhooks/list", "/a/b%zz"] {
        let page = world.open(&world.url(path)).await;
        assert_eq!(
            (page.status, page.headers["content-type"].as_bytes()),
            (404, b"text/html; charset=utf-8".as_slice())
        );
        assert!(page.page().contains("Page not found") && page.page().contains("href=\"/console\""), "{path}");
        let json = world.send(world.http.get(world.url(path))).await;
        let message = if path.starts_with("/v1/") { "Not found. Calls under /v1 use POST" } else { "Not Found" };
        assert_eq!((json.status, &json.body["message"]), (404, &Value::from(message)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_users_type_redirect_to_their_pages() {
    let world = World::start().await;
    for (typed, page) in [
        ("/signup", "/signin?mode=signup"),
        ("/login", "/signin"),
        ("/login/", "/signin"),
        ("/console/endpoints", "/console"),
    ] {
        assert_eq!(location(&world.open(&world.url(typed)).await), page, "{typed}");
        assert_eq!(world.send(world.http.get(world.url(typed))).await.status, 404, "a program: {typed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sign_in_page_describes_the_service() {
    let world = World::start().await;
    for path in ["/signin", "/signin?mode=signup"] {
        let page = world.open(&world.url(path)).await;
        assert!(page.page().contains("signed webhook whenever one of your organization"), "{}", page.page());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_an_icon() {
    let world = World::start().await;
    let icon = world.open(&world.url("/favicon.ico")).await;
    assert_eq!((icon.status, icon.headers["content-type"].as_bytes()), (200, b"image/svg+xml".as_slice()));
    assert!(icon.body.as_str().is_some_and(|svg| svg.starts_with("<svg") && svg.ends_with("</svg>")), "{icon:?}");
}
