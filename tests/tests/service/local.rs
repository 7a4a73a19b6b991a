//! The local runner: what it keeps between runs, and the addresses it prints.

use std::path::PathBuf;

use ::local::{Data, Options, Ports, Stack};
use serde_json::{Value, json};
use tests::{Receiver, World};

pub(crate) async fn start(directory: PathBuf) -> Stack {
    let env = [("ARGON2_MEMORY_KIB", "64"), ("ARGON2_ITERATIONS", "1"), ("RETRY_SCHEDULE", "0")];
    let env = env.map(|(name, value)| (name.into(), value.into()));
    let options = Options { data: Data::Directory(directory), ports: Ports::default(), env: env.into(), poll: false };
    Stack::start(options).await.expect("the service starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_outlive_a_runner_that_was_not_stopped() {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let http = reqwest::Client::new();
    let before = start(directory.clone()).await;
    let body = json!({ "json": World::sign_up_fields("acme") }).to_string();
    let sign_up = http.post(format!("{}/v1/auth/signupAndCreateOrg", before.api())).body(body);
    let account: Value = sign_up.send().await.expect("an answer").json().await.expect("JSON");
    drop(before);

    let after = start(directory.clone()).await;
    let session = http.get(format!("{}/api/auth/get-session", after.api()));
    let session = session.header("cookie", tests::world::cookie(&account["json"]));
    let session: Value = session.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(session["user"]["id"], account["json"]["userId"]);
    after.stop().await;
    std::fs::remove_dir_all(directory).expect("it is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_when_the_runner_was_killed_is_delivered_after_a_restart() {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let before = start(directory.clone()).await;
    let event = json!({
        "event": "job.completed", "tenant_id": "tenant-1", "job_id": "j", "callback_url": receiver.url("/"),
        "callback_secret": "s",
    });
    let send = before.sqs_client().send_message().queue_url(&before.queues()["job-events"]);
    send.message_body(event.to_string()).send().await.expect("it is sent");
    before.poll("job-events").await.expect("a step");
    assert_eq!(receiver.count().await, 1);
    drop(before);

    // The message of the second attempt may have to wait for a moment.
    let after = start(directory.clone()).await;
    while after.poll("deliveries").await.expect("a step") == 0 {}
    let received = receiver.received().await;
    assert_eq!(received.len(), 2, "the second attempt was made");
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    after.stop().await;
    std::fs::remove_dir_all(directory).expect("it is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ready_line_has_all_addresses() {
    let world = World::start().await;
    let line = world.stack.ready_line();
    let keys: Vec<_> = line.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["api", "dynamodb", "mail", "queues", "sqs", "tables"]);
    let queues: Vec<_> = line["queues"].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(queues, ["deliveries", "deliveries-dead", "job-events", "job-events-dead"]);
    for door in ["api", "dynamodb", "sqs", "mail"] {
        assert!(line[door].as_str().expect("a URL").starts_with("http://127.0.0.1:"), "{door}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn environment_variables_override_only_what_the_template_sets() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "7"), ("NOT_IN_THE_TEMPLATE", "x")]).await;
    let create = world.stack.environment("webhooks-create").expect("a function");
    assert_eq!(create.get("MAX_ENDPOINTS_PER_TENANT").map(String::as_str), Some("7"));
    assert_eq!(create.get("NOT_IN_THE_TEMPLATE"), None);
    let list = world.stack.environment("webhooks-list").expect("a function");
    assert_eq!(list.get("MAX_ENDPOINTS_PER_TENANT"), None);
}
