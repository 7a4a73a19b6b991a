//! Events of up to 1 MiB. A payload that does not fit into an item of the log is divided among several.

use std::collections::BTreeSet;

use common::webhooks::delivery::Status;
use local::{Data, Options};
use serde_json::{Value, json};
use tests::{Receiver, World, event, world::tables::Item};

use super::{log::noise, read};

/// A compressible or incompressible event of exactly this many bytes.
fn event_of(tenant: &str, bytes: usize, is_random: bool) -> String {
    let mut event = event(tenant, "j");
    event["result"] = json!("");
    let more = bytes - event.to_string().len();
    event["result"] = if is_random { noise(more).into() } else { "a".repeat(more).into() };
    assert_eq!(event.to_string().len(), bytes);
    event.to_string()
}

/// The number of items with a payload or a part of one.
async fn items(world: &World) -> usize {
    let items = world.items("deliveries").await;
    items.iter().filter(|item| item.keys().any(|name| name.starts_with("payload"))).count()
}

/// Whether the items of a payload expire, all at the same time as their delivery.
async fn expire_together(world: &World) -> bool {
    let items = world.items("deliveries").await;
    let is_of_delivery = |item: &&Item| item.contains_key("status") || item.keys().any(|it| it.starts_with("payload"));
    let times: BTreeSet<_> =
        items.iter().filter(is_of_delivery).map(|it| format!("{:?}", it.get("expires_at"))).collect();
    times.len() == 1 && times.iter().all(|time| time.contains("N("))
}

/// An event fails, and is resent after a restart of the service.
async fn lives(bytes: usize, is_random: bool, parts: usize) {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let start = async || {
        let options = Options { data: Data::Directory(directory.clone()), poll: false, ..Options::default() };
        World::started(&[("RETRY_SCHEDULE", "")], options).await
    };
    let world = start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event_of(&tenant.id, bytes, is_random)).await;
    let failed = world.only_logged(&tenant.id).await;
    assert_eq!((failed.status, items(&world).await), (Status::Failed, parts), "{bytes}");
    assert!(expire_together(&world).await, "{bytes}");
    world.stack.stop().await;
    let world = start().await;
    let fields = json!({"delivery_id": failed.id});
    let shown = read(&world, &tenant, "get", fields.clone()).await.ok()["payload"].clone();
    world.rpc(&tenant.key, "deliveries/resend", fields.clone()).await.ok();
    world.handle_all().await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
    let received = receiver.received().await;
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|one| Some(&*one.body) == shown.as_str().map(str::as_bytes)), "{bytes}");
    let is_kept = usize::from(!is_random || bytes < 8192);
    assert_eq!(items(&world).await, is_kept, "a small one is kept, and all parts of a large one are deleted");
    world.stack.stop().await;
    std::fs::remove_dir_all(directory).expect("the removal succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_each_size_are_delivered_logged_and_resent() {
    let sizes = [(1 << 10, 1), (300 << 10, 1), (399 << 10, 2), (401 << 10, 2), (700 << 10, 2), (1 << 20, 3)];
    for (bytes, parts) in sizes {
        lives(bytes, true, parts).await;
        lives(bytes, false, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_event_is_received_by_pull_and_erased() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await.ok().clone();
    let endpoint = created["webhook_endpoint_id"].clone();
    for _ in 0..3 {
        let job = format!("\"{}\"", fastrand::u32(..));
        world.deliver(event_of(&tenant.id, (1 << 20) - 20, true).replace("\"j\"", &job)).await;
    }
    let mut received: Vec<Value> = Vec::new();
    while received.len() < 3 {
        let page = world.rpc(&tenant.key, "deliveries/receive", json!({"webhook_endpoint_id": endpoint})).await;
        assert!(page.ok().to_string().len() < 6_000_000);
        received.extend(page.ok()["deliveries"].as_array().expect("a list").iter().cloned());
    }
    for delivery in received {
        assert!(delivery["body"].as_str().is_some_and(|body| body.len() > 1 << 20));
        let settlement =
            json!({"delivery_id": delivery["delivery_id"], "lease": delivery["lease"], "status_code": 204});
        let settled = world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settlement]})).await;
        assert_eq!(settled.ok()["settlements"][0]["result"], "settled");
    }
    assert_eq!(items(&world).await, 0, "large payloads are not kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_payload_are_erased_together() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event_of(&tenant.id, 1 << 20, true)).await;
    assert_eq!(items(&world).await, 3);
    world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "j"})).await.ok();
    assert_eq!(items(&world).await, 0);
}

/// The deletion of the first part is repeated, if its response was lost, and then returns no list of the others.
#[tokio::test(flavor = "multi_thread")]
async fn all_parts_are_deleted_although_a_response_is_lost() {
    let world = World::repeating(&[("RETRY_SCHEDULE", "0")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event_of(&tenant.id, 1 << 20, true)).await;
    assert_eq!(items(&world).await, 3);
    world.handle_all().await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
    assert_eq!(items(&world).await, 0);
}

/// The local queue takes no more than SQS does.
#[tokio::test(flavor = "multi_thread")]
async fn the_queue_refuses_one_byte_more() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let largest = event_of(&tenant.id, 1 << 20, true);
    let send = async |body: String| {
        let sqs = world.stack.sqs_client();
        sqs.send_message().queue_url(&world.stack.queues()["job-events"]).message_body(body).send().await
    };
    assert!(send(largest.clone()).await.is_ok());
    assert!(send(format!("{largest} ")).await.is_err());
}
