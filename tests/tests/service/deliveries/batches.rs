//! How one invocation of the delivery function handles a batch: time, limits and failures.

use std::time::Duration;

use serde_json::json;
use tests::{Manner, Receiver, Rough, World, callback, event, records};

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_cannot_be_started_in_time_goes_to_the_queue_and_is_not_cut_off() {
    // Of the function's 30 s, 23 are for an attempt and 6 for bookkeeping, which leaves one in which attempts can
    // start.
    let world = World::with(&[("DELIVERY_TIMEOUT", "23")]).await;
    let hanging = Rough::start(Manner::Hangs).await;
    // A slow receiver gets four attempts at once.
    let (at_once, events) = (4, 6);
    let batch = records((0..events).map(|job| callback("t", job, hanging.url())));
    world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    while world.counts("slow-deliveries").await != [events, 0, 0] {
        // What has not been tried comes a second or two later.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = hanging.arrivals().await.len();
    let left = async {
        // Those under way are hidden.
        while world.left().await < 2 * events - at_once {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = world.poll("slow-deliveries") => panic!("the first attempts hang for 23 s"),
        () = left => {}
    }
    assert_eq!(hanging.arrivals().await.len() - before, at_once);
    assert!(world.log("t").await.is_empty(), "none has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_that_does_not_fit_into_the_functions_stops_the_start() {
    let env = [("DELIVERY_TIMEOUT".to_owned(), "24".to_owned())].into();
    let error =
        local::Stack::start(local::Options { env, ..Default::default() }).await.err().expect("it does not start");
    let error = format!("{error:#}");
    assert!(error.contains("DELIVERY_TIMEOUT is 24 and must be from 1 to 23"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_ours_is_the_failure_of_just_that_record() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.delete_table().table_name("webhook-endpoints").send().await.expect("it is deleted");
    let batch = records([event("t", "j"), callback("t", "j", receiver.url("/"))]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_hangs_is_waited_for_once_and_only_by_those_who_need_it() {
    // Before the response, and in the middle of it.
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
async fn what_waits_is_grouped_by_its_tenant() {
    let sqs = Receiver::start().await;
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", &sqs.url("")), ("RETRY_SCHEDULE", "7")]).await;
    let batch = records([callback("tenant-1", "j", "http://127.0.0.1:1/")]);
    // The result does not matter: this receiver only records what is sent, and does not answer like SQS.
    world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    let sent = sqs.received().await[0].json()["Entries"][0].clone();
    assert_eq!(sent["MessageGroupId"], "tenant-1");
    assert!((7..=9).contains(&sent["DelaySeconds"].as_i64().expect("a number")), "{sent}");
}
