//! Calls from pages on other origins: the local runner answers as API Gateway does with the template's settings.

use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use tests::{Answer, World, world::cookie};

const FOREIGN: &str = "https://evil.example.com";

/// The service under its other host name, which browsers consider a different origin.
fn localhost(world: &World) -> String {
    world.stack.api().replace("127.0.0.1", "localhost")
}

async fn call(world: &World, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request = world.http.request(method, world.url(path));
    world.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

async fn preflight(world: &World, path: &str, origin: &str) -> Answer {
    let headers = [("origin", origin), ("access-control-request-method", "POST")];
    call(world, Method::OPTIONS, path, &headers).await
}

/// The headers related to origins.
fn cors(headers: &HeaderMap) -> Value {
    let text = |value: &reqwest::header::HeaderValue| value.to_str().expect("a string").to_owned();
    let about = |name: &str| name == "vary" || name.starts_with("access-control-");
    headers
        .iter()
        .filter(|(name, _)| about(name.as_str()))
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn localhost_is_the_same_service() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let sign_out = async |origin: &str| {
        call(&world, Method::POST, "/api/auth/sign-out", &[("cookie", &cookie), ("origin", origin)]).await
    };
    assert_eq!(sign_out("http://localhost:1").await.status, 403, "a different port is a different service");
    let signed_out = sign_out(&localhost(&world)).await;
    assert_eq!((signed_out.status, &signed_out.body), (200, &json!({"success": true})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_is_answered_by_the_templates_configuration() {
    let world = World::start().await;
    let origin = localhost(&world);
    let template = local::template(&[("MailFrom", "a@b.c"), ("MailIdentity", "b.c"), ("TrustedOrigins", &origin)]);
    let configured = template.expect("a template")["Resources"]["HttpApi"]["Properties"]["CorsConfiguration"].clone();
    let list = |name: &str| {
        let values = configured[name].as_array().expect("a list").iter();
        values.map(|value| value.as_str().expect("a string")).collect::<Vec<_>>().join(",")
    };
    // A path that accepts only POST, a path that accepts every method, and a path without a function.
    for path in ["/v1/webhooks/create", "/api/auth/sign-in/email", "/nothing"] {
        let answer = preflight(&world, path, &origin).await;
        assert_eq!((answer.status, &answer.body), (204, &json!("")), "{path}");
        let expected = json!({
            "access-control-allow-credentials": configured["AllowCredentials"].to_string(),
            "access-control-allow-headers": list("AllowHeaders"),
            "access-control-allow-methods": list("AllowMethods"),
            "access-control-allow-origin": origin,
            "access-control-max-age": configured["MaxAge"].to_string(),
            "vary": "origin",
        });
        assert_eq!(cors(&answer.headers), expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_origins_and_preflights_get_cors_headers() {
    let world = World::start().await;
    let origin = localhost(&world);
    for path in ["/v1/webhooks/create", "/api/auth/get-session", "/nothing"] {
        let answers = [
            preflight(&world, path, FOREIGN).await,
            preflight(&world, path, "null").await,
            call(&world, Method::OPTIONS, path, &[("origin", &origin)]).await,
            call(&world, Method::OPTIONS, path, &[("access-control-request-method", "POST")]).await,
            call(&world, Method::OPTIONS, path, &[]).await,
        ];
        for answer in answers {
            assert_eq!((answer.status, cors(&answer.headers)), (204, json!({})), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_pages_may_read_responses() {
    let world = World::start().await;
    let origin = localhost(&world);
    let told = json!({
        "access-control-allow-credentials": "true",
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "retry-after,x-request-id",
        "vary": "origin",
    });
    for (method, path, status) in [
        (Method::GET, "/api/auth/get-session", 200),
        (Method::POST, "/v1/webhooks/list", 401),
        (Method::GET, "/v1/webhooks/list", 404),
    ] {
        let answer = call(&world, method.clone(), path, &[("origin", &origin)]).await;
        assert_eq!((answer.status, cors(&answer.headers)), (status, told.clone()), "{method} {path}");
        for headers in [&[("origin", FOREIGN)][..], &[]] {
            let answer = call(&world, method.clone(), path, headers).await;
            assert_eq!(cors(&answer.headers), json!({}), "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_origins_of_the_environment_add_to_localhost() {
    let world = World::with(&[("TRUSTED_ORIGINS", "https://app.example.com, http://127.0.0.1:5173/")]).await;
    let cookie = cookie(&world.sign_up("acme").await);
    for origin in ["https://app.example.com", "http://127.0.0.1:5173", &localhost(&world)] {
        assert_eq!(
            cors(&preflight(&world, "/api/auth/sign-out", origin).await.headers)["access-control-allow-origin"],
            origin
        );
        let signed_out =
            call(&world, Method::POST, "/api/auth/sign-out", &[("cookie", &cookie), ("origin", origin)]).await;
        assert_eq!(
            (signed_out.status, &cors(&signed_out.headers)["access-control-allow-origin"]),
            (200, &json!(origin))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_trusted_origin_prevents_the_start() {
    let env = [("TRUSTED_ORIGINS".to_owned(), "app.example.com".to_owned())];
    let options = local::Options { env: env.into(), poll: false, ..Default::default() };
    let error = local::Stack::start(options).await.err().expect("it does not start");
    assert!(format!("{error:#}").contains("TRUSTED_ORIGINS"), "{error:#}");
}
