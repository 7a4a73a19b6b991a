//! The workflow and the last outcome of deliveries, as recorded in the log and as filters for lists.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event};

use super::read;

fn of(tenant: &Tenant, job: &str, workflow: &str) -> Value {
    let mut event = event(&tenant.id, job);
    event["workflow"] = json!(workflow);
    event
}

fn jobs(page: &Value) -> Vec<&str> {
    let deliveries = page["deliveries"].as_array().expect("a list");
    deliveries.iter().filter_map(|delivery| delivery["job_id"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_found_by_workflow_and_outcome() {
    let world = World::with(&[("RETRY_SCHEDULE", "3600")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(200, &[]), (500, &[]), (500, &[]), (410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let long = "w".repeat(500);
    for (job, workflow) in [("a", "import"), ("b", "import"), ("c", &long), ("d", "import")] {
        world.deliver(of(&tenant, job, workflow)).await;
    }
    world.deliver(event(&tenant.id, "e")).await;
    for (fields, expected) in [
        (json!({"workflow": "import"}), vec!["d", "b", "a"]),
        (json!({"workflow": "impor"}), vec![]),
        (json!({"workflow": long}), vec!["c"]),
        (json!({"workflow": "import", "status": "pending"}), vec!["b"]),
        (json!({"workflow": "import", "status": "failed"}), vec!["d"]),
        (json!({"outcome": "delivered"}), vec!["a"]),
        (json!({"outcome": "status_5xx"}), vec!["c", "b"]),
        (json!({"outcome": "status_5xx", "status": "pending", "workflow": "import"}), vec!["b"]),
        (json!({"outcome": "gone"}), vec!["d"]),
        (json!({"outcome": "timeout"}), vec![]),
    ] {
        let page = read(&world, &tenant, "list", fields.clone()).await;
        assert_eq!(jobs(page.ok()), expected, "{fields}");
    }
    let page = read(&world, &tenant, "list", json!({})).await;
    let shown: Vec<_> =
        page.ok()["deliveries"].as_array().expect("a list").iter().map(|one| &one["workflow"]).collect();
    assert_eq!(shown, [&Value::Null, &json!("import"), &json!(long[..400]), &json!("import"), &json!("import")]);
    let refused = read(&world, &tenant, "list", json!({"outcome": "Delivered"})).await;
    assert_eq!(refused.issues(), [("outcome", "invalid_format")]);
    let other = world.tenant("other").await;
    assert_eq!(jobs(read(&world, &other, "list", json!({"workflow": "import"})).await.ok()), [""; 0]);
}

/// The size of an attribute's value, as DynamoDB counts it.
fn size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::M(members) => {
            3 + members.iter().map(|(name, value)| name.len() + size(value) + 1).sum::<usize>()
        }
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_and_a_trace_leave_a_delivery_within_a_write_unit() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for length in [1, 200, 350, 400, 430, 460] {
        let job = uuid::Uuid::now_v7().to_string();
        let mut event = of(&tenant, &job, "nightly-import");
        event["traceparent"] = json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        // Text that does not compress.
        let hex =
            |number: usize| common::random::bytes::<1>()[0].wrapping_add(u8::try_from(number % 7).expect("small"));
        event["result"] = json!((0..length).map(|number| char::from(b'0' + hex(number) % 75)).collect::<String>());
        world.deliver(&event).await;
        let items = world.items("deliveries").await;
        let item = items.iter().find(|item| item.get("job_id") == Some(&AttributeValue::S(job.clone())));
        let item = item.expect("the delivery");
        assert_eq!(item["flow"], AttributeValue::S("nightly-import".to_owned()));
        let bytes: usize = item.iter().map(|(name, value)| name.len() + size(value)).sum();
        assert!(bytes <= 1024, "{length}: {bytes} in {item:?}");
    }
}
