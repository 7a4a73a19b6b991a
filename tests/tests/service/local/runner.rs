//! The local runner: the data kept between runs, the addresses that it prints, and its time limits for clients.

use std::{path::PathBuf, time::Duration};

use ::local::{Data, Limits, Options, Stack};
use serde_json::{Value, json};
use tests::{Receiver, World, callback};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

pub(crate) async fn start(directory: PathBuf) -> Stack {
    let env = [("ARGON2_MEMORY_KIB", "64"), ("ARGON2_ITERATIONS", "1"), ("RETRY_SCHEDULE", "0")];
    let env = env.map(|(name, value)| (name.into(), value.into()));
    let options = Options { data: Data::Directory(directory), env: env.into(), poll: false, ..Options::default() };
    Stack::start(options).await.expect("the service starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_outlive_a_killed_runner() {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let http = tests::plain_http().build().expect("a client");
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
    std::fs::remove_dir_all(directory).expect("the removal succeeds");
}

/// A folder is created with the file's name, because tests may run as a user who can write to any file.
#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_that_cannot_be_written_is_named() {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    for file in ["dynamodb.sqlite", "sqs.sqlite"] {
        std::fs::create_dir_all(directory.join(file)).expect("a folder");
        let options = Options { data: Data::Directory(directory.clone()), poll: false, ..Options::default() };
        let error = Stack::start(options).await.err().expect("it cannot start");
        let expected = format!("cannot write to {}/{file}: make it writable, or add --memory", directory.display());
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.root_cause().to_string(), "Is a directory (os error 21)");
        std::fs::remove_dir_all(&directory).expect("the removal succeeds");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_runner_delivers_waiting_events_after_a_restart() {
    let directory = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let before = start(directory.clone()).await;
    let event = callback("tenant-1", "j", receiver.url("/"));
    let send = before.sqs_client().send_message().queue_url(&before.queues()["job-events"]);
    send.message_body(event.to_string()).send().await.expect("the send succeeds");
    for queue in ["job-events", "slow-deliveries"] {
        before.poll(queue).await.expect("a step");
    }
    assert_eq!(receiver.count().await, 1);
    drop(before);

    // The message for the second attempt may be delayed.
    let after = start(directory.clone()).await;
    while after.poll("deliveries").await.expect("a step") == 0 {}
    let received = receiver.received().await;
    assert_eq!(received.len(), 2, "the second attempt was made");
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    after.stop().await;
    std::fs::remove_dir_all(directory).expect("the removal succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ready_line_has_all_addresses() {
    let world = World::start().await;
    let line = world.stack.ready_line();
    let keys: Vec<_> = line.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["api", "dynamodb", "inbox", "mail", "queues", "sqs", "tables"]);
    let queues: Vec<_> = line["queues"].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        queues,
        [
            "deliveries",
            "deliveries-dead",
            "hanging-deliveries",
            "hanging-deliveries-dead",
            "job-events",
            "job-events-dead",
            "slow-deliveries",
            "slow-deliveries-dead",
        ]
    );
    for door in ["api", "dynamodb", "sqs", "mail", "inbox"] {
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

/// A runner with these time limits for clients, in milliseconds.
async fn impatient(head: u64, answer: u64) -> Stack {
    let limits = Limits { head: Duration::from_millis(head), answer: Duration::from_millis(answer) };
    let options = Options { poll: false, limits, ..Options::default() };
    Stack::start(options).await.expect("the service starts")
}

/// A time limit for tests, which is sufficient on a busy machine and shorter than the default limits.
const PATIENCE: Duration = Duration::from_secs(20);
const LONG: u64 = 3_600_000;

/// The runner's own servers, without DynamoDB's, which belongs to a library.
fn doors(stack: &Stack) -> [&str; 3] {
    [stack.api(), stack.mail(), stack.sqs()].map(|url| url.trim_start_matches("http://"))
}

/// Sends `sent` over a new connection, and returns everything received until the connection ends.
async fn answer_until_closed(door: &str, sent: &str) -> String {
    let mut connection = TcpStream::connect(door).await.expect("a connection");
    connection.write_all(sent.as_bytes()).await.expect("the send succeeds");
    let mut answer = Vec::new();
    let closed = timeout(PATIENCE, connection.read_to_end(&mut answer)).await;
    closed.expect("the connection is closed").expect("the connection is closed cleanly");
    String::from_utf8(answer).expect("a string")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sends_nothing_or_half_a_header_is_closed() {
    let stack = impatient(200, LONG).await;
    for door in doors(&stack) {
        for sent in ["", "GE", "GET / HTTP/1.1\r\nhost: localhost\r\nx-half: "] {
            assert_eq!(answer_until_closed(door, sent).await, "", "{door} {sent}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_idle_after_a_response_is_closed() {
    let stack = impatient(200, LONG).await;
    for door in doors(&stack) {
        let answer = answer_until_closed(door, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 ") && !answer.contains("connection: close"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_its_body_is_answered_and_closed() {
    let stack = impatient(LONG, 200).await;
    for (door, path) in doors(&stack).into_iter().zip(["/v1/webhooks/list", "/messages", "/"]) {
        let head = format!("POST {path} HTTP/1.1\r\nhost: {door}\r\ncontent-length: 100");
        let sqs = "x-amz-target: AmazonSQS.ListQueues\r\ncontent-type: application/x-amz-json-1.0";
        let answer = answer_until_closed(door, &format!("{head}\r\n{sqs}\r\n\r\n{{")).await;
        // A route without a body rejects a body at once.
        let expected = if path == "/messages" { "HTTP/1.1 405 " } else { "HTTP/1.1 408 " };
        assert!(answer.starts_with(expected), "{door}: {answer}");
    }
}

/// The limits apply while the runner waits for a client, not while a client waits for the runner.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_lasts_longer_than_a_connection_may_be_idle() {
    let stack = impatient(200, LONG).await;
    // The client's attempts time out after two seconds.
    let receive = stack.sqs_client().receive_message().queue_url(&stack.queues()["job-events"]).wait_time_seconds(1);
    assert_eq!(receive.send().await.expect("an answer").messages, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_progress_is_answered_when_the_runner_stops() {
    let stack = impatient(LONG, LONG).await;
    let door = stack.api().trim_start_matches("http://").to_owned();
    let mut idle = TcpStream::connect(&door).await.expect("a connection");
    let mut busy = TcpStream::connect(&door).await.expect("a connection");
    busy.write_all(b"POST /v1/webhooks/list HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{")
        .await
        .expect("the send succeeds");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopped = tokio::spawn(stack.stop());
    assert_eq!(timeout(PATIENCE, idle.read(&mut [0])).await.expect("the close succeeds").expect("in order"), 0);
    busy.write_all(b"}").await.expect("the send succeeds");
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    timeout(PATIENCE, stopped).await.expect("it stops").expect("it stops");
    TcpStream::connect(&door).await.expect_err("the port is closed");
}

/// A function that went on after its stack could call another one, which has got a port of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stack_ends_its_functions() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    let receiver = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", receiver.local_addr().expect("an address"));
    world.enqueue("job-events", callback(&tenant.id, "j", url)).await;
    let (mut attempt, _) = receiver.accept().await.expect("an attempt");
    assert_ne!(attempt.read(&mut [0; 64]).await.expect("a request"), 0);
    drop(world);
    // An attempt lasts up to 15 seconds.
    let closed = timeout(Duration::from_secs(5), attempt.read_to_end(&mut Vec::new())).await;
    closed.expect("the attempt ends").ok();
}
