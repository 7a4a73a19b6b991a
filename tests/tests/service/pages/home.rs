//! `GET /`: what somebody sees who opens the address of the API.

use serde_json::{Value, json};
use tests::{Answer, World};

async fn open(world: &World, accept: &str) -> Answer {
    world.send(world.http.get(world.url("/")).header("accept", accept)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_a_page_whose_links_work() {
    let world = World::start().await;
    let page = open(&world, "text/html,application/xhtml+xml,*/*;q=0.8").await;
    assert_eq!(page.status, 200);
    let html = page.page();
    assert!(html.contains("<h1>This service is up</h1>"), "{html}");
    let links: Vec<_> = html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links, ["/signin", "/signin?mode=signup", "/openapi.json"]);
    for link in links {
        let linked = world.send(world.http.get(world.url(link)).header("accept", "text/html")).await;
        assert_eq!(linked.status, 200, "{link}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_the_links_as_json() {
    let world = World::start().await;
    let links = open(&world, "*/*").await;
    assert_eq!((links.status, links.headers["content-type"].as_bytes()), (200, b"application/json".as_slice()));
    let expected =
        json!({"message": "This service is up", "signIn": world.url("/signin"), "docs": world.url("/openapi.json")});
    assert_eq!(links.body, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_is_where_the_deployment_says_if_it_does() {
    for (setting, docs) in [("https://docs.example.com/a?b=c&d", Some("https://docs.example.com/a?b=c&d")), ("", None)]
    {
        let world = World::with(&[("DOCS_URL", setting)]).await;
        assert_eq!(open(&world, "application/json").await.body.get("docs").and_then(Value::as_str), docs);
        let page = open(&world, "text/html").await;
        let html = page.page();
        assert_eq!(html.contains("href=\"https://docs.example.com/a?b=c&amp;d\""), docs.is_some(), "{html}");
        assert!(!html.contains("/openapi.json"), "a deployment does not have it: {html}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_paths_without_a_route_are_still_not_found() {
    let world = World::start().await;
    for path in ["/index.html", "//", "/v1", "/console"] {
        assert_eq!(world.send(world.http.get(world.url(path))).await.status, 404, "{path}");
    }
    assert_eq!(world.send(world.http.post(world.url("/"))).await.status, 404);
}
