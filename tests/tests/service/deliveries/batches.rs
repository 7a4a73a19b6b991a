//! Batches in one invocation of the delivery function: time, limits and failures.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::Status,
        post::{Network, system_tls},
    },
};
use futures::future::{BoxFuture, join_all};
use lambda_runtime::{Context, LambdaEvent};
use serde_json::{Value, json};
use tests::{Manner, Receiver, Rough, Switch, World, callback, event, log, records};

use super::{Book, Draft, SECOND};

#[tokio::test(flavor = "multi_thread")]
async fn attempts_without_a_place_in_the_process_are_parked() {
    let world = World::with(&[("MAX_CONCURRENT_ATTEMPTS", "10"), ("DELIVERY_TIMEOUT", "20")]).await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (hanging, healthy) = (Rough::start(Manner::Hangs).await, Receiver::start().await);
    world.endpoint(&tenant, hanging.url(), "s").await;
    world.endpoint(&other, &healthy.url("/"), "s").await;
    for job in 0..12 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    let others = async {
        while hanging.arrivals().await.len() < 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(world.poll("job-events").await, 2);
        world.enqueue("job-events", event(&other.id, "j")).await;
        assert_eq!(world.poll("job-events").await, 1);
        assert_eq!((hanging.arrivals().await.len(), healthy.count().await), (10, 1), "others have places");
        assert_eq!(world.counts("slow-deliveries").await, [1, 0, 0], "the others are parked");
    };
    tokio::select! {
        _ = world.poll("job-events") => panic!("the attempts hang for 20 s"),
        () = others => {}
    }
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
    let (world, broken) =
        World::failing(|call| call.operation == "Query" && call["TableName"] == "webhook-endpoints").await;
    let receiver = Receiver::start().await;
    world.make_origin_quick("t", &receiver.url("/")).await;
    broken.on();
    let batch = records([event("t", "j"), callback("t", "j", receiver.url("/"))]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    assert_eq!(receiver.received().await.len(), 1);
}

/// Handles a batch in a process whose resolver panics. Returns the ids of the records that stay in their queue.
async fn without_resolver(world: &World, batch: Value) -> Vec<String> {
    let lookup = |name| -> BoxFuture<'static, _> { Box::pin(async move { unreachable!("no resolver for {name}") }) };
    let network = Network { lookup: Arc::new(lookup), ..Network::system() };
    let tls = system_tls().expect("trusted authorities");
    let deliver = webhooks_deliver::function_over(&world.delivering(), network, tls).expect("settings");
    let mut event = LambdaEvent::new(serde_json::from_value(batch).expect("a batch"), Context::default());
    let deadline = SystemTime::now() + Duration::from_mins(1);
    let deadline = deadline.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
    event.context.deadline = u64::try_from(deadline).expect("before the year 500,000,000");
    let undone = deliver.handle(event).await.expect("an answer").batch_item_failures;
    undone.into_iter().map(|failure| failure.item_identifier).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_only_its_record_and_is_logged() {
    const PANICS: &str = "http://panics.example/";
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let url = receiver.url("/");
    for url in [&url, PANICS] {
        world.make_origin_quick("t", url).await;
    }
    let batch = records([&url, PANICS, &url].iter().zip(0..).map(|(url, job)| callback("t", job, *url)));

    assert_eq!(without_resolver(&world, batch).await, ["1"]);

    assert_eq!(receiver.count().await, 2);
    let panics: Vec<_> = log::of_this_test().0.into_iter().filter(|line| line["panic"].is_string()).collect();
    assert_eq!(panics.len(), 1);
    assert!(panics[0]["panic"].as_str().is_some_and(|panic| panic.ends_with("no resolver for panics.example")));
    assert_eq!(panics[0]["message_id"], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_does_not_end_the_other_attempts_of_a_message() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    // Its URL is at example.com.
    world.make_origin_quick(&tenant.id, "https://example.com/").await;
    let book = Book::of(&world);
    let panics = Draft::to_callback(0, book.ago(SECOND * 9), "panics").status(Status::Pending);
    let other = Draft::to(&endpoint, book.ago(SECOND * 8), "other").status(Status::Pending);
    let waiting = book.write(&tenant, [panics, other]).await;
    let mut attempts = Vec::new();
    for delivery in &waiting {
        world.make_due(&tenant.id, delivery, Timestamp::now()).await;
        attempts.push(json!({"delivery_id": delivery.id, "attempt": 2}));
    }
    let mut batch = records([json!({"tenant_id": tenant.id, "attempts": attempts})]);
    batch["Records"][0]["eventSourceARN"] = json!("arn:aws:sqs:eu-central-1:123456789012:deliveries");

    assert_eq!(without_resolver(&world, batch).await, ["0"]);

    let delivered = world.log_of(&tenant.id, Status::Delivered).await;
    assert_eq!((receiver.count().await, delivered.len()), (1, 1));
    assert_eq!(delivered[0].id, waiting[1].id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_table_delays_a_batch_only_once() {
    // The table hangs before it responds, or in the middle of a response.
    tokio::join!(table_hangs(Manner::Hangs), table_hangs(Manner::Drips));
}

async fn table_hangs(manner: Manner) {
    let hanging = Rough::start(manner).await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", hanging.url().trim_end_matches('/'))]).await;
    let batch = records((0..9).map(|job| event("t", job)).chain([callback("t", "j", "http://127.0.0.1:9/")]));
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer in time");
    assert_eq!(response["batchItemFailures"].as_array().expect("a list").len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_messages_are_grouped_by_tenant() {
    let sqs = Receiver::start().await;
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", &sqs.url("")), ("RETRY_SCHEDULE", "7")]).await;
    world.make_origin_quick("tenant-1", "http://127.0.0.1:1/").await;
    // A drain's message, and a retry's.
    for (url, waits) in [("http://127.0.0.1:2/", 0..=0), ("http://127.0.0.1:1/", 7..=9)] {
        // The result is irrelevant, because this receiver only records requests, and does not answer as SQS would.
        world.stack.invoke("webhooks-deliver", records([callback("tenant-1", "j", url)])).await.expect("an answer");
        let sent = sqs.received().await.last().expect("a message").json()["Entries"][0].clone();
        assert_eq!(sent["MessageGroupId"], "tenant-1");
        assert!(waits.contains(&sent["DelaySeconds"].as_i64().expect("a number")), "{sent}");
    }
}
