//! How one invocation of the delivery function handles a batch: time, limits and failures.

use std::{collections::HashSet, time::Duration};

use common::webhooks::delivery::Status;
use serde_json::{Value, json};
use tests::{Interceptor, Manner, Receiver, Rough, World, world::due_message};

/// What Lambda hands over for these messages of the job-events queue.
pub(crate) fn records(bodies: &[String]) -> Value {
    let records: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(number, body)| {
            json!({
                "messageId": number.to_string(), "receiptHandle": "r", "body": body, "attributes": {},
                "messageAttributes": {}, "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:job-events",
            })
        })
        .collect();
    json!({ "Records": records })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_cannot_be_started_in_time_goes_to_the_queue_and_is_not_cut_off() {
    // Of the function's 30 s, 23 are for an attempt and 6 for bookkeeping, which leaves one in which attempts can
    // start.
    let world = World::with(&[("DELIVERY_TIMEOUT", "23"), ("MAX_CONCURRENT_ATTEMPTS", "1")]).await;
    let hanging = Rough::start(Manner::Hangs).await;
    let event = |job: usize| {
        json!({
            "event": "job.completed", "tenant_id": "t", "job_id": job.to_string(), "callback_url": hanging.url(),
            "callback_secret": "s",
        })
        .to_string()
    };
    let batch = world.stack.invoke("webhooks-deliver", records(&[event(0), event(1), event(2)]));
    let postponed = async {
        let mut postponed = Vec::new();
        while postponed.len() < 2 {
            postponed.extend(world.drain("deliveries").await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        postponed
    };
    tokio::select! {
        _ = batch => panic!("the first attempt hangs for 23 s"),
        mut postponed = postponed => {
            let mut logged = world.log("t").await;
            logged.sort_by_key(|delivery| delivery.id.to_string());
            postponed.sort_by_key(|message| message["delivery_id"].to_string());
            assert_eq!(postponed, logged.iter().map(|delivery| due_message("t", delivery)).collect::<Vec<_>>());
            assert!(logged.iter().all(|delivery| (delivery.status, delivery.attempts) == (Status::Pending, 0)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_that_does_not_fit_into_the_functions_stops_the_start() {
    let env = [("DELIVERY_TIMEOUT".to_owned(), "24".to_owned())].into();
    let error =
        local::Stack::start(local::Options { env, ..Default::default() }).await.err().expect("it does not start");
    let error = format!("{error:#}");
    assert!(error.contains("DELIVERY_TIMEOUT is 24 and must be from 1 to 23"), "{error}");
}

/// Text of so many bytes that no compression makes smaller.
fn noise(length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.alphanumeric()).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_event_that_its_queue_takes_fits_into_the_log() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0")]).await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let url = receiver.url("/");
    let url = format!("{url}{}", "u".repeat(2048 - url.len()));
    let head = format!(
        r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","callback_url":"{url}","callback_secret":"{}","error":""#,
        "s".repeat(256),
    );
    let event = format!("{head}{}\"}}", noise(256_000 - head.len() - 2));
    assert_eq!(event.len(), 256_000);
    world.enqueue("job-events", event).await;
    world.stack.poll("job-events").await.expect("a step");
    world.stack.poll("deliveries").await.expect("a step");
    world.stack.poll("deliveries").await.expect("a step");
    let delivery = world.only_logged("t").await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Delivered, 3));
    let received = receiver.received().await;
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|attempt| attempt.body == received[0].body && attempt.path.len() > 2000));
    // What is delivered and as large as this is not kept.
    let found = world.delivery_log().find(&"t".parse().expect("a tenant"), &delivery.id).await.expect("it is read");
    assert!(found.expect("a delivery").1.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_that_the_log_cannot_hold_stays_in_its_queue() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    // Larger than the queue takes, and than an item of DynamoDB may be.
    let event = json!({
        "event": "job.completed", "tenant_id": "t", "job_id": "j", "callback_url": receiver.url("/"),
        "callback_secret": "s", "result": noise(420_000),
    });
    let batch = records(&[event.to_string()]);
    let response = world.stack.invoke("webhooks-deliver", batch.clone()).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    let again = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(again, json!({"batchItemFailures": []}));
    let received = receiver.received().await;
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(world.only_logged("t").await.status, Status::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_ours_is_the_failure_of_just_that_record() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let dynamodb = world.stack.dynamodb_client();
    dynamodb.delete_table().table_name("webhook-endpoints").send().await.expect("it is deleted");
    let to_callback = json!({
        "event": "job.completed", "tenant_id": "t", "job_id": "j", "callback_url": receiver.url("/"),
        "callback_secret": "s",
    });
    let to_endpoints = json!({"event": "job.completed", "tenant_id": "t", "job_id": "j"});
    let batch = records(&[to_endpoints.to_string(), to_callback.to_string()]);
    let response = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(response, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    assert_eq!(receiver.received().await.len(), 1);
}

/// SQS may hand over an event twice in one batch, and a producer may send it twice at the same millisecond.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_twice_in_a_batch_holds_up_nobody() {
    let world = World::start().await;
    let event = |tenant: &str| {
        json!({
            "event": "job.completed", "tenant_id": tenant, "job_id": "j", "callback_url": "http://127.0.0.1:9/",
            "callback_secret": "s",
        })
        .to_string()
    };
    let mut batch = records(&[event("t"), event("t"), event("u")]);
    for record in batch["Records"].as_array_mut().expect("records") {
        record["attributes"]["SentTimestamp"] =
            json!(common::timestamp::Timestamp::now().as_second().to_string() + "000");
    }
    let answer = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(answer["batchItemFailures"], json!([]));
    for tenant in ["t", "u"] {
        let logged = world.log(tenant).await;
        assert_eq!(logged.len(), 1, "{tenant}: {logged:?}");
        assert_eq!((logged[0].status, logged[0].attempts), (Status::Pending, 1), "{tenant}");
    }
}

/// An event that is over a minute old may be a copy. If nobody can say whether it is, it had better go out twice than never.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_late_goes_out_although_the_log_cannot_be_asked() {
    let tables = Interceptor::start(|operation, call| {
        let is_log = call["RequestItems"].get("deliveries").is_some();
        (operation == "BatchGetItem" && is_log).then(|| (500, json!({})))
    });
    let tables = tables.await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    let receiver = Receiver::start().await;
    let event = json!({
        "event": "job.completed", "tenant_id": "t", "job_id": "j", "callback_url": receiver.url("/"),
        "callback_secret": "s",
    });
    let mut batch = records(&[event.to_string()]);
    let sent = common::timestamp::Timestamp::now().as_millisecond() - 120_000;
    batch["Records"][0]["attributes"]["SentTimestamp"] = json!(sent.to_string());
    let answer = world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
    assert_eq!(answer["batchItemFailures"], json!([]));
    assert_eq!(receiver.count().await, 1);
    assert_eq!(world.only_logged("t").await.status, Status::Delivered);
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
    let mut batch: Vec<_> = (0..9)
        .map(|job| json!({"event": "job.completed", "tenant_id": "t", "job_id": job.to_string()}).to_string())
        .collect();
    batch.push(
        json!({
            "event": "job.completed", "tenant_id": "t", "job_id": "j", "callback_url": receiver.url("/"),
            "callback_secret": "s",
        })
        .to_string(),
    );
    let response = world.stack.invoke("webhooks-deliver", records(&batch)).await.expect("an answer in time");
    assert_eq!(response["batchItemFailures"].as_array().expect("a list").len(), 9);
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_grouped_by_its_tenant() {
    let sqs = Receiver::start().await;
    let world = World::with(&[("AWS_ENDPOINT_URL_SQS", &sqs.url("")), ("RETRY_SCHEDULE", "7")]).await;
    let event = json!({
        "event": "job.completed", "tenant_id": "tenant-1", "job_id": "j", "callback_url": "http://127.0.0.1:1/",
        "callback_secret": "s",
    });
    // The result does not matter: this receiver only records what is sent, and does not answer like SQS.
    world.stack.invoke("webhooks-deliver", records(&[event.to_string()])).await.expect("an answer");
    let sent = sqs.received().await[0].json()["Entries"][0].clone();
    assert_eq!(sent["MessageGroupId"], "tenant-1");
    assert!((7..=9).contains(&sent["DelaySeconds"].as_i64().expect("a number")), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_with_more_deliveries_than_a_partition_takes_gets_more_partitions() {
    // The first partition of the endpoint takes nothing: all that would go there is left out of each batch.
    let tables = Interceptor::start(|operation, call| {
        let writes = call["RequestItems"]["deliveries"].as_array().filter(|_| operation == "BatchWriteItem")?;
        let is_first = |write: &&Value| {
            write["PutRequest"]["Item"]["destination"]["S"].as_str().is_some_and(|place| place.ends_with(".0"))
        };
        let first: Vec<_> = writes.iter().filter(is_first).collect();
        (first.len() == writes.len()).then(|| (200, json!({"UnprocessedItems": {"deliveries": first}})))
    })
    .await;
    let world = World::with(&[("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let events = |from: usize| {
        let jobs = from..from + 20;
        let events =
            jobs.map(|job| json!({"event": "job.completed", "tenant_id": tenant.id, "job_id": job.to_string()}));
        records(&events.map(|event| event.to_string()).collect::<Vec<_>>())
    };
    let answer = world.stack.invoke("webhooks-deliver", events(0)).await.expect("an answer");
    assert_eq!(answer, json!({"batchItemFailures": []}), "what arrived is not sent again");
    let logged = world.log(&tenant.id).await;
    let spread: HashSet<u8> = logged.iter().map(|delivery| delivery.id.shard).collect();
    assert!(spread.len() > 1 && logged.len() == 20, "{spread:?}");
    assert_eq!(receiver.count().await, 20);
    // From now on, they are spread before they are written.
    let answer = world.stack.invoke("webhooks-deliver", events(20)).await.expect("an answer");
    assert_eq!(answer, json!({"batchItemFailures": []}));
    assert_eq!(world.log(&tenant.id).await.len(), logged.len() + 20);
}
