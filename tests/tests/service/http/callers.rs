//! Two kinds of callers may act for a tenant: the holder of a key, and a signed-in user with a verified email.

use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use tests::{
    Answer, World,
    world::{cookie, link},
};

/// The routes under `/v1` that accept a key.
fn routes() -> Vec<String> {
    let all = tests::description::routes().into_iter();
    let by_key = all.filter(|(_, route)| {
        route["security"].as_array().is_some_and(|all| all.iter().any(|one| !one["key"].is_null()))
    });
    let routes: Vec<_> = by_key.filter_map(|(name, _)| Some(name.strip_prefix("POST /v1/")?.to_owned())).collect();
    assert!(routes.len() >= 10, "{routes:?}");
    routes
}

const FOREIGN: &str = "https://evil.example.com";

async fn call(world: &World, route: &str, headers: &[(&'static str, &str)], fields: Value) -> Answer {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a header"))
    };
    let headers: HeaderMap = headers.iter().map(header).collect();
    let request = world.http.post(world.url(&format!("/v1/{route}"))).headers(headers);
    world.send(request.json(&json!({ "json": fields }))).await
}

fn listed(answer: &Answer) -> Vec<&str> {
    let endpoints = answer.ok()["webhook_endpoints"].as_array().expect("a list");
    endpoints.iter().map(|endpoint| endpoint["webhook_endpoint_id"].as_str().expect("an id")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_acts_for_the_users_organization() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let by_session = async |route: &str, fields| world.rpc_by_session(&tenant.cookie, route, fields).await;
    let fields = json!({"url": "https://example.com/1", "signing_secret": "correct-horse-battery"});
    let created = by_session("webhooks/create", fields).await;
    let id = created.ok()["webhook_endpoint_id"].as_str().expect("an id");
    by_session("webhooks/update", json!({"id": id, "active": false})).await.ok();
    by_session("webhooks/test", json!({"id": id})).await.ok();
    let theirs = by_session("webhooks/list", json!({})).await;
    assert_eq!(listed(&theirs), [id]);
    assert_eq!(theirs.ok()["webhook_endpoints"][0]["active"], false);
    // The key also belongs to this tenant.
    assert_eq!(world.rpc(&tenant.key, "webhooks/list", json!({})).await.body, theirs.body);
    by_session("webhooks/delete", json!({"id": id})).await.ok();
    assert!(listed(&by_session("webhooks/list", json!({})).await).is_empty());
}

/// API Gateway renames the challenge.
#[tokio::test(flavor = "multi_thread")]
async fn every_401_names_a_challenge() {
    let world = World::start().await;
    let wrong = json!({"email": "ada@example.com", "password": "wrong horse"});
    let answers = [
        call(&world, "webhooks/list", &[], json!({})).await,
        call(&world, "webhooks/list", &[("x-api-key", "wrong")], json!({})).await,
        world.send(world.http.get(world.url("/api/auth/list-sessions"))).await,
        world.send(world.http.post(world.url("/api/auth/sign-in/email")).json(&wrong)).await,
    ];
    for answer in answers {
        let challenge = answer.headers.get("x-amzn-remapped-www-authenticate").map(HeaderValue::as_bytes);
        assert_eq!((answer.status, challenge), (401, Some("ApiKey".as_bytes())), "{answer:?}");
        assert_eq!(answer.headers.get("www-authenticate"), None);
    }
    let allowed = world.send(world.http.get(world.url("/api/auth/get-session"))).await;
    assert_eq!((allowed.status, allowed.headers.get("x-amzn-remapped-www-authenticate")), (200, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invited_member_acts_for_the_organization_too() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let expires_at = common::timestamp::Timestamp::now().as_second() + 60;
    let invitation = world.invitation(&tenant.id, "bo@example.com", expires_at).await;
    let accepting =
        json!({"invitationId": invitation, "tenantSlug": "acme", "name": "Bo", "password": "correct horse"});
    let cookie = cookie(world.rpc("", "auth/acceptInviteAndSignup", accepting).await.ok());
    assert_eq!(world.confirm(&link(&world.mail_to("bo@example.com").await)).await.status, 200);
    assert_eq!(listed(&world.rpc_by_session(&cookie, "webhooks/list", json!({})).await), [&id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_user_is_rejected_until_verification() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    for route in &routes() {
        let answer = world.rpc_by_session(&cookie, route, json!({})).await;
        assert_eq!(answer.error(), (403, "FORBIDDEN", ""), "{route}");
        assert_eq!(answer.json()["message"], "Verify your email address first");
    }
    assert_eq!(world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await.status, 200);
    assert!(listed(&world.rpc_by_session(&cookie, "webhooks/list", json!({})).await).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_needs_a_trusted_origin() {
    let world = World::with(&[("TRUSTED_ORIGINS", "https://app.example.com")]).await;
    let tenant = world.tenant("acme").await;
    let cookie = ("cookie", tenant.cookie.as_str());
    for route in &routes() {
        for headers in [&[cookie][..], &[cookie, ("origin", FOREIGN)], &[cookie, ("origin", "null")]] {
            let answer = call(&world, route, headers, json!({})).await;
            assert_eq!(answer.error(), (403, "FORBIDDEN", ""), "{route} {headers:?}");
            let message = answer.json()["message"].as_str().expect("a string");
            assert!(message.contains(world.stack.api()), "{message}");
        }
        let trusted = call(&world, route, &[cookie, ("origin", "https://app.example.com")], json!({})).await;
        assert!([200, 400].contains(&trusted.status), "{route}: {trusted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_works_from_any_origin() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let (key, cookie) = (("x-api-key", tenant.key.as_str()), ("cookie", tenant.cookie.as_str()));
    for headers in [&[key, ("origin", FOREIGN)][..], &[key, cookie, ("origin", FOREIGN)], &[key, cookie]] {
        assert_eq!(listed(&call(&world, "webhooks/list", headers, json!({})).await), [&id], "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_takes_precedence_over_a_session() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let id = world.endpoint(&ours, "https://example.com/1", "s").await;
    let (cookie, origin) = (("cookie", theirs.cookie.as_str()), ("origin", world.stack.api()));
    let answer = call(&world, "webhooks/list", &[("x-api-key", &ours.key), cookie, origin], json!({})).await;
    assert_eq!(listed(&answer), [&id]);
    let unknown = format!("ak_{}", "a".repeat(43));
    for (route, key) in routes().iter().flat_map(|route| [(route, ""), (route, "x"), (route, &unknown)]) {
        let answer = call(&world, route, &[("x-api-key", key), cookie, origin], json!({})).await;
        assert_eq!(answer.error(), (401, "UNAUTHORIZED", ""), "{route} {key}");
    }
}

/// A client with a key in its environment sends that key with every call, even after its user has signed in.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_acts_on_account_routes_next_to_any_key() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let member = world.member(&ours, "al@example.com", "member").await;
    let unknown = format!("ak_{}", "a".repeat(43));
    for key in [&ours.key, &member.key, &theirs.key, &unknown, "x", ""] {
        let both = async |method: Method, path: &str, body: Value| {
            let request = world.http.request(method, world.url(path)).header("x-api-key", key);
            let request = request.header("cookie", &ours.cookie).header("origin", world.stack.api());
            world.send(if body.is_null() { request } else { request.json(&body) }).await
        };
        let auth = async |route: &str, body| both(Method::POST, &format!("/api/auth/{route}"), body).await;
        let issued = auth("api-key/create", json!({"name": "spare"})).await;
        let issued = issued.body["key"].as_str().unwrap_or_else(|| panic!("{key}: {issued:?}"));
        let request = world.http.get(world.url("/api/auth/get-session")).header("x-api-key", issued);
        assert_eq!(world.send(request).await.body["user"]["id"], json!(ours.user), "{key}");
        let session = both(Method::GET, "/api/auth/get-session", Value::Null).await.body;
        assert_eq!(session["user"]["id"], json!(ours.user), "{key}");
        assert!(session["session"]["expiresAt"].is_string(), "{key}: {session}");
        for (role, status) in [("owner", 200), ("member", 200)] {
            let member = json!({"memberId": member.user, "role": role});
            assert_eq!(auth("organization/update-member-role", member).await.status, status, "{key}");
        }
        assert_eq!(both(Method::GET, "/api/auth/list-sessions", Value::Null).await.status, 200, "{key}");
        assert_eq!(auth("revoke-other-sessions", json!({})).await.status, 200, "{key}");
        let status = both(Method::POST, "/v1/auth/status", json!({"json": {}})).await;
        assert_eq!(status.ok()["tenantId"], json!(ours.id), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_acts_next_to_a_session_that_has_ended() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    assert_eq!(world.cli(&tenant.cookie, "sign-out", Value::Null).await.status, 200);
    let both = |request: reqwest::RequestBuilder| {
        let request = request.header("cookie", &tenant.cookie).header("origin", world.stack.api());
        world.send(request.header("x-api-key", &tenant.key))
    };
    let listed = both(world.http.get(world.url("/api/auth/organization/list"))).await;
    assert_eq!(listed.body[0]["id"], json!(tenant.id), "{listed:?}");
    let refused = both(world.http.post(world.url("/api/auth/api-key/create")).json(&json!({"name": "x"}))).await;
    assert_eq!(refused.refused(), (401, "UNAUTHORIZED"));
    assert_eq!(refused.body["message"], "Sign in first: an API key is not enough for this");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_the_organization_of_the_credential_that_acts() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let both = [("x-api-key", theirs.key.as_str()), ("cookie", &ours.cookie), ("origin", world.stack.api())];
    for (route, tenant) in [("webhooks/list", &theirs.id), ("auth/status", &ours.id)] {
        let id = call(&world, route, &both, json!({})).await.headers["x-request-id"].clone();
        let log = tests::log::of_this_test().0;
        let line = log.iter().find(|line| line["request_id"] == id.to_str().expect("a string"));
        assert_eq!(line.expect("a line")["tenant"], json!(tenant), "{route}");
    }
}

/// A call with a key reads only the key and its user, not a session.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_works_without_the_table_of_sessions() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.stack.dynamodb_client().delete_table().table_name("tokens").send().await.expect("the deletion succeeds");
    let id = world.endpoint(&tenant, "https://example.com/1", "s").await;
    assert_eq!(listed(&world.rpc(&tenant.key, "webhooks/list", json!({})).await), [&id]);
    for route in ["webhooks/update", "webhooks/delete"] {
        world.rpc(&tenant.key, route, json!({"id": id})).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_endpoint_is_not_found_by_session_either() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let id = world.endpoint(&theirs, "https://example.com/1", "s").await;
    let unknown = uuid::Uuid::now_v7().to_string();
    for route in ["webhooks/update", "webhooks/delete"] {
        let answer = world.rpc_by_session(&ours.cookie, route, json!({"id": id})).await;
        assert_eq!(answer.error(), (404, "NOT_FOUND", ""));
        assert_eq!(answer.body, world.rpc_by_session(&ours.cookie, route, json!({"id": unknown})).await.body);
    }
    assert!(listed(&world.rpc_by_session(&ours.cookie, "webhooks/list", json!({})).await).is_empty());
    assert_eq!(listed(&world.rpc(&theirs.key, "webhooks/list", json!({})).await), [&id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_session_gets_the_same_response() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (name, token) = tenant.cookie.split_once('=').expect("a cookie");
    assert_eq!(world.cli(&tenant.cookie, "sign-out", Value::Null).await.status, 200);
    let cookies = [
        tenant.cookie.clone(),
        format!("{name}={}", "a".repeat(token.len())),
        format!("{name}=x"),
        format!("{name}="),
        format!("other={token}"),
    ];
    let own = ("origin", world.stack.api());
    let mut bodies = Vec::new();
    for route in &routes() {
        for cookie in &cookies {
            bodies.push(call(&world, route, &[("cookie", cookie), own], json!({})).await);
        }
        // Without a session, the origin does not matter.
        bodies.push(call(&world, route, &[("origin", FOREIGN)], json!({})).await);
        bodies.push(call(&world, route, &[("cookie", "other=1")], json!({})).await);
        bodies.push(call(&world, route, &[], json!({})).await);
        bodies.push(call(&world, route, &[("x-api-key", "x")], json!({})).await);
    }
    for answer in &bodies {
        assert_eq!(answer.error(), (401, "UNAUTHORIZED", ""));
        assert_eq!(answer.body, bodies[0].body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_endpoint_is_not_found() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let id = world.endpoint(&theirs, "https://example.com/1", "s").await;
    let unknown = uuid::Uuid::now_v7().to_string();
    for route in ["webhooks/update", "webhooks/delete"] {
        for fields in [json!({"active": false}), json!({})] {
            let mut bodies = Vec::new();
            for id in [&id, &unknown, "#count"] {
                let mut fields = fields.clone();
                fields["id"] = json!(id);
                bodies.push(world.rpc(&ours.key, route, fields).await);
            }
            assert_eq!(bodies[0].error(), (404, "NOT_FOUND", ""));
            assert_eq!(bodies[0].body, bodies[1].body);
            assert_eq!(bodies[2].issues(), [("id", "invalid_format")]);
        }
    }
    assert!(world.endpoints(&ours).await.is_empty());
    assert_eq!(world.endpoints(&theirs).await[0]["active"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_key_gets_the_same_response() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let unknown = format!("ak_{}", "a".repeat(43));
    let shorter = &tenant.key[..45];
    let mut bodies = Vec::new();
    for route in ["create", "list", "update", "delete"] {
        for key in ["", "x", &unknown, shorter, &tenant.cookie] {
            let answer = world.rpc(key, &format!("webhooks/{route}"), json!({})).await;
            assert_eq!(answer.error(), (401, "UNAUTHORIZED", ""), "{key}");
            bodies.push(answer.body);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
}
