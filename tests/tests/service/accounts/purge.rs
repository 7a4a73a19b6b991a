//! The purge of a deleted organization.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use common::{config::Env, timestamp::Timestamp, webhooks::log::recovery::Recovery};
use local::Handler;
use serde_json::json;
use tests::{Doomed, Receiver, Switch, World, at_each_call, callback, context, event, world::tables::item};
use tokio::time::timeout;

use super::deletion::{delete, furnish, left_of, purge};

/// Makes the process die at this call during the purge. Returns whether the process reached that call.
async fn purge_and_die(call: u64, takes_effect: bool) -> (bool, ()) {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let jo = world.tenant("acme").await;
    furnish(&world, &jo, &receiver).await;
    assert_eq!(delete(&world, &jo).await.status, 200);
    let doomed = Doomed::function(&world, "accounts-purge", call..u64::MAX, takes_effect).await;
    let time = Timestamp::now().after(Duration::from_mins(3));
    doomed.process.clone().call(json!({"time": time}), context(60)).await.ok();
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new(), "{call}");
    (doomed.has_died(), ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_may_die_at_any_call_and_the_next_continues() {
    for takes_effect in [false, true] {
        let lives = at_each_call((0..).step_by(3), |call| purge_and_die(call, takes_effect)).await;
        assert!(lives.calls() >= 16, "{}", lives.calls());
    }
}

/// The log contains more deliveries than one pass deletes, each with a payload.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_deleted_until_the_time_is_up() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let rows = (0..600).flat_map(|number| {
        let (place, moment) = (format!("{}/callback.{}", jo.id, number % 2), format!("{number:013}.{number:032x}"));
        [(place.clone(), moment.clone()), (format!("{place}/{moment}"), "payload".to_owned())]
    });
    let rows = rows.map(|(destination, delivery)| {
        let put =
            PutRequest::builder().set_item(Some(item(&json!({"destination": destination, "delivery": delivery}))));
        WriteRequest::builder().put_request(put.build().expect("a put")).build()
    });
    for rows in rows.collect::<Vec<_>>().chunks(25) {
        let write = world.stack.dynamodb_client().batch_write_item().request_items("deliveries", rows.to_vec());
        write.send().await.expect("the write succeeds");
    }
    assert_eq!(delete(&world, &jo).await.status, 200);
    let hurried = function(&world);
    let tick = json!({"time": Timestamp::now().after(Duration::from_mins(3))});
    // The last ten seconds of an invocation are reserved for calls in progress.
    hurried.clone().call(tick.clone(), context(9)).await.expect("there is no time");
    assert!(left_of(&world, &jo.id).await.len() > 1200);
    hurried.call(tick, context(60)).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
    assert_eq!(world.rpc(&other.key, "webhooks/list", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_delivery_does_not_stop_a_purge() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    for (number, event) in ["unheard.of", "job.failed"].into_iter().enumerate() {
        let moment = format!("{number:013}.{number:032x}");
        let state = json!({"destination": format!("{}/callback.0", jo.id), "delivery": moment, "shared": true});
        let state = item(&state).into_iter().chain(item(&json!({"event": event, "job_id": "j"})));
        world.put("deliveries", state.collect()).await;
    }
    assert_eq!(delete(&world, &jo).await.status, 200);
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
}

/// The index of a large log takes longer to delete than a pass may last.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_index_is_deleted_until_the_time_is_up() {
    let is_endless = Switch::default();
    let endless = is_endless.clone();
    let world = World::answering(&[], move |call| {
        let is_index = call.operation == "Query" && call["ExpressionAttributeValues"].to_string().contains("\"index/");
        let key = json!({"destination": {"S": "index/0"}, "delivery": {"S": "0"}});
        let page = json!({"Items": [key], "Count": 1, "ScannedCount": 1, "LastEvaluatedKey": key});
        (is_index && endless.is_on()).then_some((200, page))
    })
    .await;
    let jo = world.tenant("acme").await;
    assert_eq!(delete(&world, &jo).await.status, 200);
    let (purge, tick) = (function(&world), json!({"time": Timestamp::now().after(Duration::from_mins(3))}));
    is_endless.on();
    let pass = timeout(Duration::from_secs(30), purge.clone().call(tick.clone(), context(11)));
    pass.await.expect("the pass ends").expect("a pass");
    assert_ne!(left_of(&world, &jo.id).await, BTreeSet::new());
    is_endless.off();
    purge.call(tick, context(60)).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
}

/// The function, to be called with less time than it has.
fn function(world: &World) -> Handler {
    let settings = world.stack.environment("accounts-purge").expect("a function").clone();
    Handler::start("accounts-purge", &Env::new(move |name| settings.get(name).cloned())).expect("settings")
}

/// Callbacks of a deleted organization are still called.
#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_callbacks_after_the_purge_expires() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let jo = world.tenant("acme").await;
    assert_eq!(delete(&world, &jo).await.status, 200);
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
    world.deliver(callback(&jo.id, "1", receiver.url("/"))).await;
    assert_eq!(receiver.count().await, 1);
    let stored = world.items("webhook-endpoints").await;
    assert!(!stored.is_empty());
    assert!(stored.iter().all(|item| item.contains_key("delete_at")), "{stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_that_cannot_be_purged_does_not_delay_others() {
    let broken = Arc::new(OnceLock::<String>::new());
    let whose = Arc::clone(&broken);
    let (world, fails) = World::failing(move |call| {
        let is_its = |broken: &String| call["ExpressionAttributeValues"].to_string().contains(broken);
        call.operation == "Query" && call["TableName"] == "webhook-endpoints" && whose.get().is_some_and(is_its)
    })
    .await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    for who in [&jo, &other] {
        world.endpoint(who, "http://127.0.0.1:9/", "s").await;
    }
    broken.set(jo.id.clone()).expect("set once");
    fails.on();
    // The endpoints cannot be deleted during the call, but the response is the same.
    for who in [&jo, &other] {
        assert_eq!(delete(&world, who).await.status, 200);
    }
    assert!(purge(&world, 3).await.is_err(), "an alarm counts the error");
    assert_eq!(left_of(&world, &other.id).await, BTreeSet::new());
    assert!(!left_of(&world, &jo.id).await.is_empty());
    fails.off();
    purge(&world, 3).await.expect("a pass");
    // An attempt at an endpoint that this pass deletes may be in progress.
    assert!(world.stored_endpoints().list(&jo.id.parse().expect("an id")).await.expect("a list").is_empty());
    assert!(!left_of(&world, &jo.id).await.is_empty());
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_purge_does_not_fail_and_continues_later() {
    let throttled = Switch::default();
    let is_throttled = throttled.clone();
    let world = World::answering(&[], move |call| {
        let is_deletion = call["RequestItems"]["deliveries"][0]["DeleteRequest"].is_object();
        (call.operation == "BatchWriteItem" && is_deletion && is_throttled.is_on())
            .then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
    })
    .await;
    throttled.on();
    let jo = world.tenant("acme").await;
    world.endpoint(&jo, "http://127.0.0.1:9/", "s").await;
    world.deliver(event(&jo.id, "1")).await;
    assert_eq!(delete(&world, &jo).await.status, 200);
    purge(&world, 3).await.expect("this is not an error");
    assert!(!left_of(&world, &jo.id).await.is_empty());
    throttled.off();
    purge(&world, 3).await.expect("a pass");
    assert_eq!(left_of(&world, &jo.id).await, BTreeSet::new());
}

/// A sweep runs a recovery that is deleted at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_was_deleted_is_not_written_again() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    furnish(&world, &jo, &Receiver::start().await).await;
    let log = world.delivery_log();
    let open = log.open_recoveries(|_| true).await.expect("the list succeeds");
    let [(tenant, Recovery { id, .. })] = &open[..] else { unreachable!("{open:?}") };
    let taken =
        log.take_recovery(tenant, *id, Timestamp::now()).await.expect("the write succeeds").expect("it is free");
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    assert!(log.forget_partitions(tenant, end).await.expect("the deletion succeeds"));
    log.save_recovery(tenant, &taken).await.expect("the call has no effect");
    assert!(log.take_recovery(tenant, *id, Timestamp::now()).await.expect("the call succeeds").is_none());
    assert!(log.recoveries(tenant, None).await.expect("the list succeeds").is_empty());
}
