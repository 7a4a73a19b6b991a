//! Paths with needless slashes, such as `/v1/...` joined to a base URL that ends in `/`.

use serde_json::json;
use tests::{World, sample_event, world::BROWSER};

/// Alternative spellings of a path.
fn spellings(path: &str) -> [String; 5] {
    let doubled = path.replace('/', "//");
    [format!("/{path}"), format!("{path}/"), format!("///{}//", &path[1..]), doubled.clone(), format!("{doubled}/")]
}

#[tokio::test(flavor = "multi_thread")]
async fn needless_slashes_do_not_change_the_route() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for path in spellings("/v1/webhooks/list") {
        assert_eq!(world.post(&tenant.key, &path, Vec::new()).await.ok(), &json!({"webhook_endpoints": []}), "{path}");
    }
    for path in spellings("/api/auth/get-session") {
        let session = world.send(world.http.get(world.url(&path)).header("cookie", &tenant.cookie)).await;
        assert_eq!(session.body["user"]["id"], json!(tenant.user), "{path}");
    }
    let endpoint = world.endpoint(&tenant, "https://example.com/hook", "correct-horse-battery").await;
    for path in
        ["/console/keys".to_owned(), format!("/console/endpoints/{endpoint}")].iter().flat_map(|path| spellings(path))
    {
        let page = world.http.get(world.url(&path)).header("accept", BROWSER).header("cookie", &tenant.cookie);
        assert_eq!(world.send(page).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn needless_slashes_do_not_bypass_checks() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let foreign = ("origin", "https://evil.example.com");
    for path in spellings("/v1/webhooks/list") {
        assert_eq!(world.post("", &path, Vec::new()).await.error(), (401, "UNAUTHORIZED", ""), "{path}");
        let by_session =
            world.http.post(world.url(&path)).header("cookie", &tenant.cookie).header(foreign.0, foreign.1);
        assert_eq!(world.send(by_session).await.error(), (403, "FORBIDDEN", ""), "{path}");
    }
    for path in spellings("/api/auth/api-key/create") {
        let request = || world.http.post(world.url(&path)).json(&json!({"name": "x"}));
        let refused = world.send(request().header("cookie", &tenant.cookie).header(foreign.0, foreign.1)).await;
        assert_eq!(refused.refused(), (403, "INVALID_ORIGIN"), "{path}");
        assert_eq!(
            world.send(request().header("x-api-key", &tenant.key)).await.refused(),
            (401, "UNAUTHORIZED"),
            "{path}"
        );
    }
    // The browser is redirected to a path of the service, not to a different host.
    for path in spellings("/console") {
        let page = world.open(&world.url(&path)).await;
        assert_eq!(page.headers["location"], "/signin?next=%2Fconsole", "{path}");
    }
    for path in
        ["/v1/webhooks/list/x", "/v1/webhooks//", "/v1/webhooks/list/%2e%2e", "//api/", "/console/endpoints/new/x/"]
    {
        let answer = world.send(world.http.post(world.url(path))).await;
        assert!([404, 405].contains(&answer.status), "{path}: {answer:?}");
    }
}

/// API Gateway passes the path unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_ignores_needless_slashes_in_the_raw_path() {
    let world = World::start().await;
    for path in spellings("/api/auth/get-session") {
        let mut event = sample_event("auth-cli");
        event["rawPath"] = json!(path);
        event["requestContext"]["http"]["method"] = json!("GET");
        let response = world.stack.invoke("auth-cli", event).await.expect("an answer");
        assert_eq!((&response["statusCode"], &response["body"]), (&json!(200), &json!("null")), "{path}: {response}");
    }
}
