//! Calls with an `idempotency-key` take effect once, regardless of repetitions.

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, world::tables::Item};

const ROUTES: [&str; 4] = ["webhooks/create", "webhooks/test", "deliveries/resend", "deliveries/recover"];
const DAY: i64 = 24 * 60 * 60;

/// An endpoint whose test has failed.
struct Setup {
    endpoint: String,
    delivery: String,
    receiver: Receiver,
}

impl Setup {
    async fn new(world: &World, tenant: &Tenant) -> Self {
        let receiver = Receiver::scripted(&[(500, &[])]).await;
        let endpoint = world.endpoint(tenant, &receiver.url("/"), "s").await;
        let tested = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
        let delivery = tested.ok()["delivery_id"].as_str().expect("an id").to_owned();
        assert_eq!(world.poll("deliveries").await, 1);
        Self { endpoint, delivery, receiver }
    }

    fn fields(&self, route: &str) -> Value {
        match route {
            "webhooks/create" => {
                json!({"url": "https://example.com/", "signing_secret": "correct-horse-battery", "active": false})
            }
            "webhooks/test" => json!({"id": self.endpoint}),
            "deliveries/resend" => json!({"delivery_id": self.delivery}),
            _ => json!({"webhook_endpoint_id": self.endpoint, "since": "2026-01-01T00:00:00Z"}),
        }
    }

    /// The number of effects that a route has had so far, such as endpoints or messages. Handles existing messages.
    async fn effects(&self, world: &World, tenant: &Tenant, route: &str) -> usize {
        world.poll_all("deliveries").await;
        match route {
            "webhooks/create" => world.endpoints(tenant).await.len() - 1,
            "deliveries/recover" => {
                // Before the recovery begins, another call would join it.
                world.sweep(Timestamp::now()).await;
                let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
                stats.ok()["recoveries"].as_array().expect("a list").len()
            }
            _ => self.receiver.count().await - 1,
        }
    }
}

/// The items that store calls and their responses.
async fn remembered(world: &World) -> Vec<Item> {
    let mut items = world.items("webhook-endpoints").await;
    items.retain(|item| item["webhook_endpoint_id"].as_s().expect("a string").starts_with("#once#"));
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_changes_nothing_and_gets_the_same_response() {
    let world = World::start().await;
    for (number, route) in ROUTES.into_iter().enumerate() {
        let tenant = world.tenant(&format!("acme-{number}")).await;
        let setup = Setup::new(&world, &tenant).await;
        let call = async || world.rpc_once(&tenant.key, route, "retry-1", setup.fields(route)).await;
        let first = call().await.ok().clone();
        for _ in 0..12 {
            assert_eq!(call().await.ok(), &first, "{route}");
        }
        assert_eq!(setup.effects(&world, &tenant, route).await, 1, "{route}");
        // The effect is not repeated, even if the endpoint has been changed in the meantime.
        assert_eq!(call().await.ok(), &first, "{route}");
        assert_eq!(setup.effects(&world, &tenant, route).await, 1, "{route}");
        // A call with a different key counts as a new call, and so does a call without a key.
        world.rpc_once(&tenant.key, route, "retry-2", setup.fields(route)).await.ok();
        assert_eq!(setup.effects(&world, &tenant, route).await, 2, "{route}");
        world.rpc(&tenant.key, route, setup.fields(route)).await.ok();
        assert_eq!(setup.effects(&world, &tenant, route).await, 3, "{route}");
    }
}

/// The same applies if the endpoint has been deleted in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_create_returns_the_generated_secret() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = json!({"url": "https://example.com/"});
    let create = async || world.rpc_once(&tenant.key, "webhooks/create", "k", fields.clone()).await;
    let first = create().await.ok().clone();
    assert!(first["signing_secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{first}");
    assert_eq!(create().await.ok(), &first);
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": first["webhook_endpoint_id"]})).await.ok();
    assert_eq!(create().await.ok(), &first);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_calls_acts_and_all_get_its_response() {
    for route in ROUTES {
        // The limit leaves room for only one more endpoint.
        let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "2")]).await;
        let tenant = world.tenant("acme").await;
        let setup = Setup::new(&world, &tenant).await;
        let fields = setup.fields(route);
        let answers = join_all((0..12).map(|_| world.rpc_once(&tenant.key, route, "k", fields.clone()))).await;
        for answer in &answers {
            assert_eq!(answer.ok(), answers[0].ok(), "{route}");
        }
        assert_eq!(setup.effects(&world, &tenant, route).await, 1, "{route}");
        assert_eq!(remembered(&world).await.len(), 1, "{route}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_with_other_fields_is_refused() {
    let world = World::start().await;
    for (number, route) in ROUTES.into_iter().enumerate() {
        let tenant = world.tenant(&format!("acme-{number}")).await;
        let setup = Setup::new(&world, &tenant).await;
        let fields = setup.fields(route);
        let first = world.rpc_once(&tenant.key, route, "k", fields.clone()).await;
        let mut other = fields.clone();
        other["more"] = json!(true);
        let answer = world.rpc_once(&tenant.key, route, "k", other).await;
        assert_eq!(answer.error(), (409, "CONFLICT", "idempotency_key_reused"), "{route}");
        assert_eq!(setup.effects(&world, &tenant, route).await, 1, "{route}");
        assert_eq!(world.rpc_once(&tenant.key, route, "k", fields).await.ok(), first.ok(), "{route}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn order_white_space_and_meta_do_not_matter() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut answers = Vec::new();
    for body in [
        r#"{"json": {"url": "https://example.com/", "signing_secret": "correct-horse-battery"}}"#,
        r#"{"meta":[7],"json":{"signing_secret":"correct-horse-battery","url":"https:\/\/example.com/"}}"#,
    ] {
        let request = world.http.post(world.url("/v1/webhooks/create")).body(body);
        let request = request.header("x-api-key", &tenant.key).header("idempotency-key", "k");
        answers.push(world.send(request).await.ok().clone());
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_for_one_tenant_and_one_route() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let setup = Setup::new(&world, &ours).await;
    let fields = setup.fields("webhooks/create");
    let mine = world.rpc_once(&ours.key, "webhooks/create", "k", fields.clone()).await;
    let other = world.rpc_once(&theirs.key, "webhooks/create", "k", fields.clone()).await;
    assert_ne!(mine.ok()["webhook_endpoint_id"], other.ok()["webhook_endpoint_id"]);
    world.rpc_once(&ours.key, "webhooks/test", "k", setup.fields("webhooks/test")).await.ok();
    // The same call, made with a session of the same tenant, counts as a repetition.
    let request = world.http.post(world.url("/v1/webhooks/create")).json(&json!({ "json": fields }));
    let request = request.header("cookie", &ours.cookie).header("origin", world.stack.api());
    assert_eq!(world.send(request.header("idempotency-key", "k")).await.ok(), mine.ok());
    // The item reveals neither the key nor the fields.
    assert_eq!(remembered(&world).await.len(), 3);
    world.rpc_once(&ours.key, "webhooks/create", "canary-key", fields).await.ok();
    assert!(!format!("{:?}", world.items("webhook-endpoints").await).contains("canary-key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_key_is_reported_with_the_other_issues() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for route in ROUTES {
        let required = world.rpc(&tenant.key, route, json!({})).await;
        for (bad, code) in [("a b", "invalid_format"), (&"x".repeat(256), "too_big"), ("", "too_small")] {
            let answer = world.rpc_once(&tenant.key, route, bad, json!({})).await;
            let mut expected = required.issues();
            expected.push(("idempotency-key", code));
            assert_eq!(answer.issues(), expected, "{route}");
        }
        let good = world.rpc_once(&tenant.key, route, &"~".repeat(255), json!({})).await;
        assert_eq!(good.issues(), required.issues(), "{route}");
    }
    assert_eq!(remembered(&world).await.len(), 0);
    // Other routes ignore the header.
    world.rpc_once(&tenant.key, "webhooks/list", "a b", json!({})).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_refused_can_be_made_again() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "1")]).await;
    let tenant = world.tenant("acme").await;
    let setup = Setup::new(&world, &tenant).await;
    let create = async || world.rpc_once(&tenant.key, "webhooks/create", "k", setup.fields("webhooks/create")).await;
    assert_eq!(create().await.error(), (409, "CONFLICT", "endpoint_limit"));
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": setup.endpoint})).await.ok();
    create().await.ok();
    for route in ["webhooks/test", "deliveries/recover"] {
        let answer = world.rpc_once(&tenant.key, route, "k", setup.fields(route)).await;
        assert_eq!(answer.error(), (404, "NOT_FOUND", ""), "{route}");
    }
    assert_eq!(remembered(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_remembered_for_a_day() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let setup = Setup::new(&world, &tenant).await;
    let create = async || world.rpc_once(&tenant.key, "webhooks/create", "k", setup.fields("webhooks/create")).await;
    let first = create().await.ok().clone();
    let record = remembered(&world).await.remove(0);
    let until: i64 = record["delete_at"].as_n().expect("a number").parse().expect("seconds");
    let now = Timestamp::now().as_second();
    assert!((now + DAY - 60..=now + DAY + 1).contains(&until), "{until}");
    // The item has expired, but TTL has not deleted it yet.
    let id = record["webhook_endpoint_id"].as_s().expect("a string");
    world.set("webhook-endpoints", ("webhook_endpoint_id", id), json!({"delete_at": now})).await;
    let second = create().await.ok().clone();
    assert_ne!(second, first);
    assert_eq!(create().await.ok(), &second);
    assert_eq!(setup.effects(&world, &tenant, "webhooks/create").await, 2);
}

/// The call's transaction, and the read after it, fail on every try.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_the_write_leaves_all_effects_or_none() {
    // The calls before the write read the key and its user (in one call in the first two processes, which have cached
    // the key) and the stored response, followed by the first reads and writes of each route.
    let transactions = ROUTES.into_iter().zip([3, 4, 5, 6]);
    let lives = transactions.flat_map(|(route, call)| [(route, call, false), (route, call, true)]);
    join_all(lives.map(async |(route, call, takes_effect)| {
        let (world, cut_off) = World::cut_off().await;
        let tenant = world.tenant("acme").await;
        let setup = Setup::new(&world, &tenant).await;
        cut_off.fail(call..call + 6, takes_effect);
        let call = async || world.rpc_once(&tenant.key, route, "k", setup.fields(route)).await;
        let lost = call().await;
        assert!(lost.status >= 500, "{route}: {}", lost.body);
        // Calls the API until none of its calls fails anymore.
        while world.rpc(&tenant.key, "webhooks/list", json!({})).await.status != 200 {}
        assert_eq!(remembered(&world).await.len(), usize::from(takes_effect), "{route}");
        let first = call().await.ok().clone();
        assert_eq!(call().await.ok(), &first, "{route}");
        if takes_effect && matches!(route, "webhooks/test" | "deliveries/resend") {
            // The message was not sent, so the sweep sends it.
            assert_eq!(world.log_of(&tenant.id, Status::Pending).await.len(), 1, "{route}");
            world.sweep(Timestamp::now().after(std::time::Duration::from_mins(17))).await;
        }
        assert_eq!(setup.effects(&world, &tenant, route).await, 1, "{route}, it takes effect: {takes_effect}");
    }))
    .await;
}
