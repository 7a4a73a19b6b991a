//! `HEAD` on every route that has a `GET`, and the route for monitors.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use reqwest::{Method, header::HeaderMap};
use serde_json::json;
use tests::{Answer, World, world::BROWSER};

/// The response to a request with this cookie.
async fn ask(world: &World, method: Method, path: &str, accept: &str, cookie: &str) -> Answer {
    let request = world.http.request(method, world.url(path)).header("accept", accept);
    world.send(if cookie.is_empty() { request } else { request.header("cookie", cookie) }).await
}

/// The headers that are the same in every response.
fn lasting(mut headers: HeaderMap) -> HeaderMap {
    for name in ["content-length", "date", "x-request-id"] {
        headers.remove(name);
    }
    headers
}

/// Every `GET` in the description, with a path that exists.
fn gets() -> Vec<String> {
    let gets =
        tests::description::routes().into_iter().filter_map(|(name, _)| Some(name.strip_prefix("GET ")?.to_owned()));
    gets.map(|path| path.replace("{id}", "01a1fd8f-0d9d-7467-9431-944eedd69c67")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn head_gets_the_status_and_headers_of_every_get() {
    let world = World::start().await;
    let cookie = world.tenant("acme").await.cookie;
    let gets = gets();
    assert!(gets.len() > 20, "{gets:?}");
    for path in &gets {
        for (accept, cookie) in [(BROWSER, ""), ("*/*", ""), (BROWSER, cookie.as_str())] {
            let get = ask(&world, Method::GET, path, accept, cookie).await;
            let head = ask(&world, Method::HEAD, path, accept, cookie).await;
            assert_eq!((head.status, &head.body), (get.status, &json!("")), "{path} {accept}");
            assert!(head.headers.contains_key("x-request-id"), "{path}: a function answered");
            let length = head.headers.get("content-length");
            assert!(
                length.is_none_or(|length| get.headers.get("content-length") == Some(length)),
                "{path}: {length:?}"
            );
            assert_eq!(lasting(head.headers), lasting(get.headers), "{path} {accept}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_reads_the_query_and_changes_nothing() {
    let world = World::start().await;
    world.sign_up("acme").await;
    let link = tests::world::link(&world.mail_to("jo@acme.example.com").await);
    let token = link.split('?').nth(1).expect("a query");
    for (path, status) in [(format!("/verify-email?{token}"), 200), ("/verify-email?token=x".to_owned(), 400)] {
        assert_eq!(ask(&world, Method::HEAD, &path, BROWSER, "").await.status, status, "{path}");
    }
    assert_eq!(world.confirm(&link).await.status, 200, "the token is still valid");
    let signed_out = ask(&world, Method::HEAD, "/console/keys?did=x", BROWSER, "").await;
    assert_eq!(signed_out.headers["location"], "/signin?next=%2Fconsole%2Fkeys%3Fdid%3Dx");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_of_a_path_without_a_get_is_refused_without_a_body() {
    let world = World::start().await;
    for (path, status) in
        [("/v1/webhooks/list", 404), ("/api/auth/sign-out", 405), ("/api/auth/nothing", 404), ("/nothing", 404)]
    {
        let head = ask(&world, Method::HEAD, path, "*/*", "").await;
        assert_eq!((head.status, &head.body), (status, &json!("")), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_line_of_a_head_names_its_method_and_route() {
    let world = World::start().await;
    let head = ask(&world, Method::HEAD, "/health", "*/*", "").await;
    let id = head.headers["x-request-id"].to_str().expect("a string");
    let log = tests::log::of_this_test().0;
    let line = log.iter().find(|line| line["request_id"] == id).expect("a line");
    assert_eq!([&line["method"], &line["route"], &line["status"]], [&json!("HEAD"), &json!("/health"), &json!(200)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_answers_any_caller_without_a_call_of_aws() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let (world, tables_fail) = World::failing(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        true
    })
    .await;
    tables_fail.on();
    for headers in [&[][..], &[("x-api-key", "ak_x")], &[("cookie", "session_token=x")], &[("accept", BROWSER)]] {
        let request = world.http.get(world.url("/health"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let health = world.send(request).await;
        assert_eq!((health.status, &health.body), (200, &json!({"status": "ok"})), "{headers:?}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(world.sign_in("jo@acme.example.com", "x").await.status, 500, "other routes need the tables");
    assert!(calls.load(Ordering::Relaxed) > 0);
}
