//! Batches in one invocation of the delivery function: time, limits and failures.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::webhooks::delivery::Status;
use futures::future::join_all;
use serde_json::json;
use tests::{Manner, Receiver, Rough, Switch, World, callback, event, records};
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_cannot_start_in_time_waits_in_its_queue() {
    // Of the function's 30 s, an attempt takes up to 23 and bookkeeping 6, so attempts can start only in the first
    // second.
    let world = World::with(&[("DELIVERY_TIMEOUT", "23")]).await;
    let tenant = world.tenant("acme").await;
    let hanging = Rough::start(Manner::Hangs).await;
    let id = world.endpoint(&tenant, hanging.url(), "s").await;
    world.make_slow(&tenant, &id).await;
    // A slow receiver gets ten attempts at once, and a batch contains ten messages.
    for job in 0..12 {
        world.deliver(event(&tenant.id, job)).await;
    }
    assert_eq!(world.counts("slow-deliveries").await, [12, 0, 0]);
    let started = Instant::now();
    let first = async {
        assert_eq!(world.poll("slow-deliveries").await, 10);
        started.elapsed()
    };
    let second = async {
        while hanging.arrivals().await.len() < 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(world.poll("slow-deliveries").await, 2);
        let waiting = world.counts("slow-deliveries").await;
        assert_eq!(
            (hanging.arrivals().await.len(), waiting),
            (10, [2, 10, 0]),
            "no attempt has begun, and none is lost"
        );
        started.elapsed()
    };
    let (first, second) = tokio::join!(first, second);
    assert!(second < first, "{second:?} {first:?}");
    assert!(first >= Duration::from_millis(1500), "attempts in this queue have 1.5 seconds");
    assert_eq!(world.counts("slow-deliveries").await, [2, 0, 0]);
    assert_eq!(world.counts("hanging-deliveries").await, [10, 0, 0], "the repeated attempt gets the full time");
    let waits = world.log_of(&tenant.id, Status::Pending).await;
    assert!(waits.len() == 12 && waits.iter().all(|delivery| delivery.attempts == 0), "{waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_that_end_together_are_stored_together() {
    let (throttled, written) = (Switch::default(), Arc::new(Mutex::new(Vec::new())));
    let (is_throttled, calls) = (throttled.clone(), Arc::clone(&written));
    let world = World::answering(&[("RETRY_SCHEDULE", "0,0")], move |call| {
        let statements = call["Statements"].as_array().into_iter().flatten();
        let updates = statements.filter(|it| it["Statement"].as_str().is_some_and(|text| text.starts_with("UPDATE")));
        let updates = updates.count();
        let is_one = call.operation == "UpdateItem" && call["TableName"] == "deliveries";
        if updates > 0 || is_one {
            calls.lock().expect("not poisoned").push(updates);
        }
        let error = json!({"Error": {"Code": "ThrottlingError", "Message": "slow down"}});
        (updates > 0 && is_throttled.is_on()).then(|| (200, json!({"Responses": vec![error; updates]})))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let receivers = join_all((0..3).map(|_| Receiver::scripted(&[(500, &[]), (500, &[])]))).await;
    for receiver in &receivers {
        world.endpoint(&tenant, &receiver.url("/"), "s").await;
    }
    world.deliver(event(&tenant.id, "j")).await;
    let stored = async |status, attempts| {
        assert_eq!(world.poll("deliveries").await, 3);
        let logged = world.log_of(&tenant.id, status).await;
        assert_eq!(logged.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), [attempts; 3]);
        written.lock().expect("not poisoned").split_off(0)
    };
    assert_eq!(stored(Status::Pending, 2).await, [3], "one call has three statements");
    throttled.on();
    assert_eq!(stored(Status::Delivered, 3).await, [3, 0, 0, 0], "each is stored by itself if the batch fails");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_that_exceeds_the_functions_prevents_the_start() {
    let env = [("DELIVERY_TIMEOUT".to_owned(), "24".to_owned())].into();
    let error =
        local::Stack::start(local::Options { env, ..Default::default() }).await.err().expect("it does not start");
    let error = format!("{error:#}");
    assert!(error.contains("DELIVERY_TIMEOUT is 24 and must be from 1 to 23"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_service_fails_only_its_record() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.delete_table().table_name("webhook-endpoints").send().await.expect("the deletion succeeds");
    let batch = records([event("t", "j"), callback("t", "j", receiver.url("/"))]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_table_delays_only_its_records_and_only_once() {
    // The table hangs before it responds, or in the middle of a response.
    tokio::join!(table_hangs(Manner::Hangs), table_hangs(Manner::Drips));
}

async fn table_hangs(manner: Manner) {
    let hanging = Rough::start(manner).await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", hanging.url().trim_end_matches('/'))]).await;
    let receiver = Receiver::start().await;
    let batch = records((0..9).map(|job| event("t", job)).chain([callback("t", "j", receiver.url("/"))]));
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer in time");
    assert_eq!(response["batchItemFailures"].as_array().expect("a list").len(), 9);
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_messages_are_grouped_by_tenant() {
    let sqs = Receiver::start().await;
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", &sqs.url("")), ("RETRY_SCHEDULE", "7")]).await;
    let batch = records([callback("tenant-1", "j", "http://127.0.0.1:1/")]);
    // The result is irrelevant, because this receiver only records requests, and does not answer as SQS would.
    world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    let sent = sqs.received().await[0].json()["Entries"][0].clone();
    assert_eq!(sent["MessageGroupId"], "tenant-1");
    assert!((7..=9).contains(&sent["DelaySeconds"].as_i64().expect("a number")), "{sent}");
}
