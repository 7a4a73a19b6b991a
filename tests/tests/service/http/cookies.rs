//! The places where a request's cookies can be: a separate list in API Gateway events, and the headers in other events.

use serde_json::{Value, json};
use tests::{Tenant, World, sample_event};

/// The status and body with which a function under `/api/auth` responds to an event with these cookies and headers.
async fn call(world: &World, method: &str, route: &str, cookies: Value, headers: Value) -> (u64, Value) {
    let mut event = sample_event("auth-cli");
    event["rawPath"] = json!(format!("/api/auth/{route}"));
    event["requestContext"]["http"]["method"] = json!(method);
    event["cookies"] = cookies;
    event["headers"] = headers;
    let answer = world.stack.invoke("auth-cli", event).await.expect("an answer");
    let body = serde_json::from_str(answer["body"].as_str().expect("a string")).expect("JSON");
    (answer["statusCode"].as_u64().expect("a status"), body)
}

/// The user whose session is in these cookies and headers.
async fn who(world: &World, cookies: Value, headers: Value) -> Value {
    let (status, body) = call(world, "GET", "get-session", cookies, headers).await;
    assert_eq!(status, 200);
    body["user"]["email"].clone()
}

fn cookie(of: &Tenant) -> &str {
    &of.cookie
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_found_wherever_the_event_has_the_cookie() {
    let world = World::start().await;
    let (jo, al) = (world.tenant("acme").await, world.tenant("other").await);
    let (own, others) = (cookie(&jo), cookie(&al));
    for (cookies, headers) in [
        (json!([own]), json!({})),
        (json!(["a=b", own]), json!({})),
        (json!([format!("a=b; {own}")]), json!({})),
        (json!(null), json!({"cookie": own})),
        (json!([]), json!({"Cookie": own})),
        (json!([]), json!({"cookie": format!("a=b; {own}; c=d")})),
        (json!([]), json!({"cookie": format!("a=é;;=; ={{}} ;{own}")})),
        (json!([own]), json!({"cookie": own})),
        (json!(["a=b"]), json!({"cookie": own})),
        (json!(["session_token=x", ""]), json!({"cookie": own})),
        // The first of two cookies counts, and the headers are read last.
        (json!([own]), json!({"cookie": others})),
        (json!([own, others]), json!({})),
        (json!([]), json!({"cookie": format!("{own}; {others}")})),
    ] {
        assert_eq!(who(&world, cookies.clone(), headers.clone()).await, json!(jo.email), "{cookies} {headers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_in_the_headers_and_outside_are_equivalent() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let own = cookie(&jo);
    // Similar cookies, which other sites may set, do not count as the session cookie.
    for header in [format!("a=1,{own}"), format!("a=\"{own}\""), format!("a={own}"), format!("x{own}"), "é".to_owned()]
    {
        assert_eq!(who(&world, json!([]), json!({"cookie": header})).await, Value::Null, "{header}");
    }
    // A call with a cookie but without an `Origin` may come from any page, wherever the event contains the cookie.
    for (cookies, headers) in
        [(json!([own]), json!({})), (json!([]), json!({"cookie": own})), (json!([]), json!({"cookie": "a=b"}))]
    {
        let (status, body) = call(&world, "POST", "sign-out", cookies, headers).await;
        assert_eq!((status, &body["code"]), (403, &json!("INVALID_ORIGIN")));
    }
    assert_eq!(who(&world, json!([own]), json!({})).await, json!(jo.email), "no user was signed out");
    // An empty cookie does not count as a session cookie.
    assert_eq!(call(&world, "POST", "sign-out", json!([""]), json!({"cookie": " "})).await.0, 200);
    let signed_out = json!({"cookie": own, "origin": world.stack.api()});
    assert_eq!(call(&world, "POST", "sign-out", json!([]), signed_out).await.0, 200);
    assert_eq!(who(&world, json!([own]), json!({})).await, Value::Null);
}
