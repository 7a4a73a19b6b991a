//! The contents of the local queues outlive the process, even if it is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use aws_sdk_sqs::{
    Client,
    types::{
        DeleteMessageBatchRequestEntry, Message, MessageAttributeValue, MessageSystemAttributeName,
        SendMessageBatchRequestEntry,
    },
};
use common::{aws::clients::Aws, config::Env};
use futures::{StreamExt, future::join_all, stream};
use local::{Data, Options, Stack};
use serde_json::{Value, json};
use tests::{Receiver, callback, world::queues::counts};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::{Mutex, watch},
};

use super::{
    queues::{group, receive},
    runner::start,
};

const SENT: MessageSystemAttributeName = MessageSystemAttributeName::SentTimestamp;
const RECEIVES: MessageSystemAttributeName = MessageSystemAttributeName::ApproximateReceiveCount;

/// A directory for data, which is removed when the test succeeds.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        Self(std::env::temp_dir().join(uuid::Uuid::now_v7().to_string()))
    }

    async fn start(&self) -> Stack {
        start(self.0.clone()).await
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The dropped service may still be closing its files.
        if !std::thread::panicking()
            && let Err(error) = std::fs::remove_dir_all(&self.0)
        {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

async fn send(stack: &Stack, queue: &str, body: &str) -> String {
    let sent = stack.sqs_client().send_message().queue_url(&stack.queues()[queue]).message_body(body).send().await;
    sent.expect("the send succeeds").message_id.expect("an id")
}

/// Up to ten visible messages, with all their attributes.
async fn messages(stack: &Stack, queue: &str) -> Vec<Message> {
    receive(&stack.sqs_client(), &stack.queues()[queue], MessageSystemAttributeName::All).await
}

async fn delete(stack: &Stack, queue: &str, message: &Message) {
    let delete = stack.sqs_client().delete_message().queue_url(&stack.queues()[queue]);
    delete.receipt_handle(message.receipt_handle().expect("a handle")).send().await.expect("the deletion succeeds");
}

fn attribute(message: &Message, name: &MessageSystemAttributeName) -> i64 {
    let attributes = message.attributes.as_ref().expect("attributes");
    attributes[name].parse().expect("a number")
}

fn bodies(messages: &[Message]) -> BTreeSet<&str> {
    messages.iter().filter_map(Message::body).collect()
}

async fn counts_of(stack: &Stack, queue: &str) -> [usize; 3] {
    counts(&stack.sqs_client(), &stack.queues()[queue]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_survive_unchanged_and_deleted_ones_do_not() {
    let directory = Directory::new();
    let before = directory.start().await;
    let url = &before.queues()["job-events"];
    let note = MessageAttributeValue::builder().data_type("String").string_value("a note").build().expect("complete");
    let alone = before.sqs_client().send_message().queue_url(url).message_body("alone").message_group_id("a");
    let alone = alone.message_attributes("note", note.clone()).send().await.expect("the send succeeds");
    let entry = |id: &str| {
        let entry = SendMessageBatchRequestEntry::builder().id(id).message_body(id);
        entry.message_group_id("b").build().expect("complete")
    };
    let batch = before.sqs_client().send_message_batch().queue_url(url).entries(entry("one")).entries(entry("two"));
    let batch = batch.send().await.expect("the send succeeds");
    let ids = [("alone", alone.message_id()), ("one", Some(batch.successful()[0].message_id()))];

    let received = messages(&before, "job-events").await;
    assert_eq!(bodies(&received), ["alone", "one", "two"].into());
    for (body, id) in ids {
        let message = received.iter().find(|message| message.body() == Some(body)).expect("it is there");
        assert_eq!(message.message_id(), id);
    }
    let sent: BTreeMap<_, _> = received
        .iter()
        .map(|message| (message.body().expect("a body").to_owned(), attribute(message, &SENT)))
        .collect();
    delete(&before, "job-events", received.iter().find(|message| message.body() == Some("two")).expect("it")).await;
    drop(before);

    tokio::time::sleep(Duration::from_millis(20)).await;
    for life in 2..4 {
        let after = directory.start().await;
        let client = after.sqs_client();
        let receive = client.receive_message().queue_url(&after.queues()["job-events"]).max_number_of_messages(10);
        let receive = receive.message_system_attribute_names(MessageSystemAttributeName::All);
        let received = receive.message_attribute_names("All").send().await.expect("an answer").messages;
        let received = received.expect("messages");
        assert_eq!(bodies(&received), ["alone", "one"].into());
        for (body, id) in ids {
            let message = received.iter().find(|message| message.body() == Some(body)).expect("it is there");
            assert_eq!((message.message_id(), attribute(message, &SENT)), (id, sent[body]));
            assert_eq!(group(message), Some(if body == "alone" { "a" } else { "b" }));
            assert_eq!(attribute(message, &RECEIVES), life);
            let attributes = message.message_attributes.clone().unwrap_or_default();
            assert_eq!(attributes.get("note"), (body == "alone").then_some(&note));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_waits_for_its_remaining_delay() {
    let directory = Directory::new();
    let before = directory.start().await;
    let sent_at = Instant::now();
    for (body, delay) in [("soon", 1), ("later", 4)] {
        let send = before.sqs_client().send_message().queue_url(&before.queues()["job-events"]).message_body(body);
        send.delay_seconds(delay).send().await.expect("the send succeeds");
    }
    drop(before);

    tokio::time::sleep(Duration::from_millis(1100)).await;
    let after = directory.start().await;
    assert_eq!(counts_of(&after, "job-events").await, [1, 0, 1]);
    assert_eq!(bodies(&messages(&after, "job-events").await), ["soon"].into());
    let later = loop {
        let received = messages(&after, "job-events").await;
        if !received.is_empty() {
            break received;
        }
    };
    assert_eq!(bodies(&later), ["later"].into());
    assert!(sent_at.elapsed() >= Duration::from_secs(4), "it arrived after {:?}", sent_at.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_returns_messages_and_counts_their_receives() {
    let directory = Directory::new();
    let mut stack = directory.start().await;
    send(&stack, "job-events", "poison").await;
    for receives in 1..=15 {
        let received = messages(&stack, "job-events").await;
        assert_eq!(attribute(&received[0], &RECEIVES), receives);
        drop(stack);
        stack = directory.start().await;
    }
    for _ in 0..2 {
        assert_eq!(counts_of(&stack, "job-events").await, [0, 0, 0]);
        assert_eq!(counts_of(&stack, "job-events-dead").await, [1, 0, 0]);
        drop(stack);
        stack = directory.start().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_remains_a_dead_letter() {
    let directory = Directory::new();
    let before = directory.start().await;
    let send = before.sqs_client().send_message().queue_url(&before.queues()["job-events"]).message_body("poison");
    let id = send.message_group_id("a").send().await.expect("the send succeeds").message_id;
    for _ in 0..15 {
        let receive = before.sqs_client().receive_message().queue_url(&before.queues()["job-events"]);
        assert!(receive.visibility_timeout(0).send().await.expect("an answer").messages.is_some());
    }
    assert!(messages(&before, "job-events").await.is_empty());
    assert_eq!(counts_of(&before, "job-events-dead").await, [1, 0, 0]);
    drop(before);

    for receives in 1..3 {
        let after = directory.start().await;
        assert_eq!(counts_of(&after, "job-events").await, [0, 0, 0]);
        let letters = messages(&after, "job-events-dead").await;
        assert_eq!((bodies(&letters), letters[0].message_id.clone()), (["poison"].into(), id.clone()));
        assert_eq!((group(&letters[0]), attribute(&letters[0], &RECEIVES)), (Some("a"), receives));
    }
    let after = directory.start().await;
    delete(&after, "job-events-dead", &messages(&after, "job-events-dead").await[0]).await;
    drop(after);
    assert_eq!(counts_of(&directory.start().await, "job-events-dead").await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn purged_and_deleted_messages_do_not_return() {
    let directory = Directory::new();
    let before = directory.start().await;
    send(&before, "job-events", "purged while it is handled for the last time").await;
    let receive = before.sqs_client().receive_message().queue_url(&before.queues()["job-events"]);
    for timeout in [0; 14].into_iter().chain([60]) {
        let receive = receive.clone().visibility_timeout(timeout);
        assert!(receive.send().await.expect("an answer").messages.is_some());
    }
    send(&before, "job-events", "purged").await;
    send(&before, "job-events", "purged while it is handled").await;
    send(&before, "deliveries", "of another queue").await;
    assert!(receive.send().await.expect("an answer").messages.is_some());
    let purge = before.sqs_client().purge_queue().queue_url(&before.queues()["job-events"]);
    purge.send().await.expect("the purge succeeds");
    send(&before, "job-events", "new").await;
    drop(before);

    let after = directory.start().await;
    assert_eq!(bodies(&messages(&after, "job-events").await), ["new"].into());
    assert_eq!(counts_of(&after, "job-events-dead").await, [0, 0, 0]);
    assert_eq!(bodies(&messages(&after, "deliveries").await), ["of another queue"].into());
    let delete = after.sqs_client().delete_queue().queue_url(&after.queues()["job-events"]);
    delete.send().await.expect("the deletion succeeds");
    drop(after);
    let last = directory.start().await;
    assert_eq!(counts_of(&last, "job-events").await, [0, 0, 0]);
    assert_eq!(counts_of(&last, "deliveries").await, [1, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_returns_to_the_template_has_its_messages() {
    let directory = Directory::new();
    for made in [true, false, true] {
        let stack = directory.start().await;
        if !made {
            continue;
        }
        let create = || stack.sqs_client().create_queue().queue_name("mine").send();
        let url = create().await.expect("the creation succeeds").queue_url.expect("a URL");
        let again = create().await.expect("it is there").queue_url.expect("a URL");
        let sent = counts(&stack.sqs_client(), &again).await;
        stack.sqs_client().send_message().queue_url(&url).message_body("kept").send().await.expect("the send succeeds");
        let after = counts(&stack.sqs_client(), &url).await;
        assert!(matches!((sent, after), ([0, 0, 0], [1, 0, 0]) | ([1, 0, 0], [2, 0, 0])), "{sent:?}, {after:?}");
    }
    let last = directory.start().await;
    let url =
        last.sqs_client().create_queue().queue_name("mine").send().await.expect("the creation succeeds").queue_url;
    assert_eq!(counts(&last.sqs_client(), &url.expect("a URL")).await, [2, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_receipt_handle_deletes_nothing() {
    let directory = Directory::new();
    let before = directory.start().await;
    let (client, url) = (before.sqs_client(), &before.queues()["job-events"]);
    client
        .send_message()
        .queue_url(url)
        .message_body("one")
        .message_group_id("a")
        .send()
        .await
        .expect("the send succeeds");
    let receive = client.receive_message().queue_url(url).visibility_timeout(1);
    let receive = receive.message_system_attribute_names(MessageSystemAttributeName::All);
    let first = receive.send().await.expect("an answer").messages.expect("messages").remove(0);
    while counts(&client, url).await != [1, 0, 0] {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    delete(&before, "job-events", &first).await;
    let entry = DeleteMessageBatchRequestEntry::builder().id("1").set_receipt_handle(first.receipt_handle.clone());
    let delete = client.delete_message_batch().queue_url(url).entries(entry.build().expect("complete"));
    assert!(delete.send().await.expect("an answer").failed.is_empty());

    let second = messages(&before, "job-events").await.remove(0);
    drop((before, client));
    let third = messages(&directory.start().await, "job-events").await.remove(0);
    for (message, receives) in [(second, 2), (third, 3)] {
        assert_eq!((&message.message_id, group(&message)), (&first.message_id, Some("a")));
        assert_eq!((attribute(&message, &SENT), attribute(&message, &RECEIVES)), (attribute(&first, &SENT), receives));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeleted_event_is_not_delivered_again() {
    let directory = Directory::new();
    let receiver = Receiver::start().await;
    let before = directory.start().await;
    send(&before, "job-events", &callback("tenant-1", "j", receiver.url("/")).to_string()).await;
    let message = messages(&before, "job-events").await.remove(0);
    let attributes = message.attributes.iter().flatten().map(|(name, value)| (name.to_string(), json!(value)));
    let record = json!({
        "messageId": message.message_id, "receiptHandle": message.receipt_handle, "body": message.body,
        "attributes": attributes.collect::<serde_json::Map<_, _>>(), "messageAttributes": {},
        "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:job-events",
        "awsRegion": "eu-central-1",
    });
    before.invoke("webhooks-deliver", json!({"Records": [record]})).await.expect("it is handled");
    before.poll("slow-deliveries").await.expect("it is delivered");
    assert_eq!(receiver.count().await, 1);
    drop(before);

    // The log contains the event's delivery under the time of the event. It is read because the message was received
    // before.
    let after = directory.start().await;
    assert_eq!(after.poll("job-events").await.expect("a step"), 1);
    assert_eq!(receiver.count().await, 1);
    assert_eq!(counts_of(&after, "job-events").await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_process_at_a_time_opens_the_queues() {
    let directory = Directory::new();
    let first = directory.start().await;
    let options = || Options { data: Data::Directory(directory.0.clone()), poll: false, ..Options::default() };
    let refused = Stack::start(options()).await.err().expect("it is refused");
    assert!(format!("{refused:#}").contains("sqs.sqlite"), "{refused:#}");
    send(&first, "job-events", "one").await;
    first.stop().await;
    let second = Stack::start(options()).await.expect("the service starts");
    assert_eq!(bodies(&messages(&second, "job-events").await), ["one"].into());
}

/// The service in a separate process, and its addresses. The process is killed when this value is dropped.
struct Process {
    child: Child,
    addresses: Value,
}

impl Process {
    async fn start(directory: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        command.arg(directory);
        Self::of(command).await
    }

    /// Starts a process that cannot write files of more than two megabytes, as on a full disk.
    async fn without_room(directory: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_worker")]);
        command.arg(directory);
        Self::of(command).await
    }

    async fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = lines.next_line().await.expect("UTF-8").expect("a line");
        Self { child, addresses: serde_json::from_str(&line).expect("JSON") }
    }

    fn sqs(&self) -> Client {
        let address = self.addresses["sqs"].as_str().expect("an address").to_owned();
        let env =
            Env::new(move |name| Some(if name == "AWS_ENDPOINT_URL_SQS" { &address } else { "local" }.to_owned()));
        Aws::new(&env).expect("settings").sqs()
    }

    fn queue(&self, name: &str) -> String {
        self.addresses["queues"][name].as_str().expect("a URL").to_owned()
    }

    /// `kill -9`.
    async fn kill(mut self) {
        self.child.kill().await.expect("the kill succeeds");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_written_is_not_acknowledged() {
    let directory = Directory::new();
    let process = Process::without_room(&directory.0).await;
    let (client, url) = (process.sqs(), process.queue("job-events-dead"));
    let mut acknowledged = BTreeSet::new();
    let refused = loop {
        let body = format!("{} {}", acknowledged.len(), "a".repeat(200_000));
        match client.send_message().queue_url(&url).message_body(&body).send().await {
            Ok(_) => assert!(acknowledged.insert(body) && acknowledged.len() < 20, "there is no limit"),
            Err(error) => break error.into_service_error(),
        }
    };
    assert!(refused.meta().message().is_some_and(|message| message.contains("cannot write")), "{refused:?}");
    process.kill().await;

    let process = Process::start(&directory.0).await;
    let (client, url) = (process.sqs(), process.queue("job-events-dead"));
    let mut kept = BTreeSet::new();
    while kept.len() < acknowledged.len() {
        let received = receive(&client, &url, MessageSystemAttributeName::All).await;
        assert!(!received.is_empty(), "{} of {} are there", kept.len(), acknowledged.len());
        kept.extend(received.into_iter().filter_map(|message| message.body));
    }
    assert_eq!(kept, acknowledged);
    process.kill().await;
}

/// Sends `events` to a process that is killed `kills` times, and waits until all acknowledged events have arrived.
/// `limit` must be sufficient for a busy machine, on which messages of a timed-out batch become visible again after
/// three minutes.
async fn survive(events: usize, kills: usize, limit: Duration) {
    let (directory, receiver, started) = (Directory::new(), Receiver::start().await, Instant::now());
    let mut process = Process::start(&directory.0).await;
    let (sender, service) = watch::channel((process.sqs(), process.queue("job-events")));
    let (acknowledged, progress) = watch::channel(0);
    let sends = Mutex::new(BTreeMap::new());

    let send = stream::iter(0..events).for_each_concurrent(16, async |job| {
        let job = job.to_string();
        loop {
            *sends.lock().await.entry(job.clone()).or_insert(0) += 1;
            let (client, url) = service.borrow().clone();
            let body = callback("tenant-1", &job, receiver.url("/")).to_string();
            if client.send_message().queue_url(url).message_body(body).send().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        acknowledged.send_modify(|acknowledged| *acknowledged += 1);
    });
    let mut progress = progress;
    let kill = async {
        for kill in 1..=kills {
            progress
                .wait_for(|acknowledged| acknowledged * (kills + 1) >= events * kill)
                .await
                .expect("the process continues");
            process.kill().await;
            process = Process::start(&directory.0).await;
            sender.send_replace((process.sqs(), process.queue("job-events")));
        }
        process
    };
    let process = tokio::join!(send, kill).1;

    let client = process.sqs();
    // On a busy machine, the receiver occasionally takes longer than half a second, and its attempts are repeated
    // later.
    let left = async || {
        let queues =
            ["job-events", "slow-deliveries", "hanging-deliveries", "deliveries"].map(|queue| process.queue(queue));
        let counts = join_all(queues.iter().map(|url| counts(&client, url))).await;
        counts.into_iter().flatten().sum::<usize>()
    };
    while left().await > 0 {
        assert!(started.elapsed() < limit, "{} messages are left", left().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(counts(&client, &process.queue("job-events-dead")).await, [0, 0, 0]);
    process.kill().await;

    let sends = sends.into_inner();
    let mut arrived = BTreeMap::<_, Vec<_>>::new();
    for delivery in receiver.received().await {
        let job = delivery.json()["job_id"].as_str().expect("a job").to_owned();
        arrived.entry(job).or_default().push(delivery);
    }
    assert_eq!(arrived.len(), events, "all arrive");
    for (job, deliveries) in &arrived {
        let is_same =
            |header| deliveries.iter().all(|delivery| delivery.header(header) == deliveries[0].header(header));
        assert!(is_same("webhook-id"), "{deliveries:?}");
        assert!(sends[job] > 1 || is_same("x-event-time"), "a copy of a message keeps its time: {deliveries:?}");
    }
    let deliveries = arrived.values().map(Vec::len).sum::<usize>();
    let again = sends.values().filter(|sends| **sends > 1).count();
    let of_the_queue = arrived.iter().filter(|(job, deliveries)| sends[*job] == 1 && deliveries.len() > 1).count();
    eprintln!(
        "{events} events, {kills} kills, {again} sent again without an acknowledgement, {:.1} s: all arrived, {} \
         duplicates, {of_the_queue} of them of events that were sent once",
        started.elapsed().as_secs_f64(),
        deliveries - events,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_events_survive_two_kills_of_the_whole_process() {
    survive(300, 2, Duration::from_mins(5)).await;
}

/// The full version: `cargo test --test service -- --ignored five_thousand --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; the test above is a smaller version"]
async fn five_thousand_events_survive_ten_kills_of_the_whole_process() {
    survive(5000, 10, Duration::from_mins(15)).await;
}
