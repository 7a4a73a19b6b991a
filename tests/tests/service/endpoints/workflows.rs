//! The workflow filter of an endpoint.

use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event};

async fn create(world: &World, tenant: &Tenant, url: &str, workflows: Value) -> String {
    let fields = json!({"url": url, "signing_secret": "correct-horse-battery", "workflows": workflows});
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
    created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned()
}

fn of(tenant: &Tenant, job: &str, workflow: Value) -> Value {
    let mut event = event(&tenant.id, job);
    event["workflow"] = workflow;
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gets_only_events_of_its_workflows() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (some, all) = (Receiver::start().await, Receiver::start().await);
    let endpoint = create(&world, &tenant, &some.url("/"), json!(["import", "with \"quotes\""])).await;
    create(&world, &tenant, &all.url("/"), Value::Null).await;
    for (job, workflow) in [
        ("a", json!("import")),
        ("b", json!("with \"quotes\"")),
        ("c", json!("Import")),
        ("d", json!("import ")),
        ("e", Value::Null),
        ("f", json!(["import"])),
        ("g", json!({"import": "import"})),
    ] {
        world.deliver(of(&tenant, job, workflow)).await;
    }
    let jobs = |received: Vec<tests::Received>| {
        received.iter().map(|one| one.json()["job_id"].as_str().expect("a job").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(jobs(some.received().await), ["a", "b"]);
    assert_eq!(jobs(all.received().await), ["a", "b", "c", "d", "e", "f", "g"]);
    // The filter does not apply to tests and callbacks.
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.poll("deliveries").await;
    assert_eq!(jobs(some.received().await), ["a", "b", "test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workflows_of_an_endpoint_are_set_kept_and_cleared() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = create(&world, &tenant, "https://example.com", json!(["b", "a", "b"])).await;
    assert_eq!(world.only_endpoint(&tenant).await["workflows"], json!(["a", "b"]));
    for (fields, workflows) in [
        (json!({"events": ["job.failed"]}), Some(json!(["a", "b"]))),
        (json!({"workflows": ["ü 🦀"]}), Some(json!(["ü 🦀"]))),
        (json!({"workflows": null}), None),
        (json!({"workflows": vec!["x".repeat(100); 20]}), Some(json!(["x".repeat(100)]))),
    ] {
        let mut update = fields.clone();
        update["id"] = json!(id);
        world.rpc(&tenant.key, "webhooks/update", update).await.ok();
        assert_eq!(world.only_endpoint(&tenant).await.get("workflows"), workflows.as_ref(), "{fields}");
    }
    for (workflows, code) in [
        (json!("a"), "invalid_type"),
        (json!([]), "too_small"),
        (json!(vec!["a"; 21]), "too_big"),
        (json!(["a", 7]), "invalid_type"),
        (json!([""]), "too_small"),
        (json!(["x".repeat(101)]), "too_big"),
        (json!(["a\nb"]), "invalid_format"),
    ] {
        let update = json!({"id": id, "workflows": workflows});
        let answer = world.rpc(&tenant.key, "webhooks/update", update).await;
        assert_eq!(answer.issues(), [("workflows", code)], "{workflows}");
    }
}
