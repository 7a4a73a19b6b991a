//! The embedded SQS behaves like the real one, as far as clients can tell.

use aws_sdk_sqs::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::{
        ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message, MessageAttributeValue,
        MessageSystemAttributeName, SendMessageBatchRequestEntry, SendMessageBatchResultEntry,
    },
};
use common::aws::clients::Aws;
use tests::World;

/// Starts a world. Returns it with an HTTP client, as other programs have, and the URL of an empty queue.
async fn queue() -> (World, Client, String) {
    let world = World::start().await;
    let client = Aws::new(&world.delivering()).expect("settings").sqs();
    let url = world.stack.queues()["job-events"].clone();
    (world, client, url)
}

fn code<T, E: ProvideErrorMetadata>(result: Result<T, SdkError<E>>) -> Option<String> {
    Some(result.err()?.code()?.to_owned())
}

fn entry(id: &str, body: &str) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().expect("an entry")
}

async fn send_batch(client: &Client, url: &str, entries: Vec<SendMessageBatchRequestEntry>) -> Option<String> {
    code(client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await)
}

pub(crate) async fn receive(client: &Client, url: &str, attribute: MessageSystemAttributeName) -> Vec<Message> {
    let receive = client.receive_message().queue_url(url).max_number_of_messages(10).wait_time_seconds(1);
    let received = receive.message_system_attribute_names(attribute).send().await.expect("an answer");
    received.messages.unwrap_or_default()
}

pub(crate) fn group(message: &Message) -> Option<&str> {
    message.attributes.as_ref()?.get(&MessageSystemAttributeName::MessageGroupId).map(String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sources_of_a_dead_letter_queue_are_listed() {
    let (world, client, url) = queue().await;
    let dead = &world.stack.queues()["job-events-dead"];
    let sources = client.list_dead_letter_source_queues().queue_url(dead).send().await.expect("an answer");
    assert_eq!(sources.queue_urls(), [url]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_message_has_its_group() {
    let (_world, client, url) = queue().await;
    client
        .send_message()
        .queue_url(&url)
        .message_body("one")
        .message_group_id("a")
        .send()
        .await
        .expect("the send succeeds");
    let mut second = entry("1", "two");
    second.message_group_id = Some("b".to_owned());
    assert_eq!(send_batch(&client, &url, vec![second, entry("2", "three")]).await, None);
    let received = receive(&client, &url, MessageSystemAttributeName::All).await;
    let mut groups: Vec<_> =
        received.iter().map(|message| (message.body().unwrap_or_default(), group(message))).collect();
    groups.sort_unstable();
    assert_eq!(groups, [("one", Some("a")), ("three", None), ("two", Some("b"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_returned_only_on_request_and_survives_a_redrive() {
    let (world, client, url) = queue().await;
    client
        .send_message()
        .queue_url(&url)
        .message_body("one")
        .message_group_id("a")
        .send()
        .await
        .expect("the send succeeds");
    // After fifteen receives, the message moves to the dead-letter queue.
    for _ in 0..15 {
        let received = receive(&client, &url, MessageSystemAttributeName::SentTimestamp).await;
        assert_eq!(group(&received[0]), None);
        let handle = received[0].receipt_handle().expect("a receipt handle");
        let visible = client.change_message_visibility().queue_url(&url).receipt_handle(handle).visibility_timeout(0);
        visible.send().await.expect("the message is visible");
    }
    assert!(receive(&client, &url, MessageSystemAttributeName::All).await.is_empty());
    let dead = &world.stack.queues()["job-events-dead"];
    let received = receive(&client, dead, MessageSystemAttributeName::MessageGroupId).await;
    assert_eq!(group(&received[0]), Some("a"));
}

/// Sends this many messages of `group`, whose bodies are the group.
async fn send_of(client: &Client, url: &str, group: &str, number: usize) {
    let entries: Vec<_> = (0..number)
        .map(|id| {
            let entry = SendMessageBatchRequestEntry::builder().id(id.to_string()).message_body(group);
            entry.message_group_id(group).build().expect("an entry")
        })
        .collect();
    for batch in entries.chunks(10) {
        assert_eq!(send_batch(client, url, batch.to_vec()).await, None);
    }
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().filter_map(Message::body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_many_messages_in_flight_does_not_delay_others() {
    let (world, client, url) = queue().await;
    send_of(&client, &url, "busy", 60).await;
    send_of(&client, &url, "quiet", 1).await;
    for _ in 0..3 {
        assert_eq!(bodies(&receive(&client, &url, MessageSystemAttributeName::All).await), ["busy"; 10]);
    }
    assert_eq!(world.counts("job-events").await, [31, 30, 0]);
    let received = receive(&client, &url, MessageSystemAttributeName::All).await;
    assert_eq!(bodies(&received), [&["quiet"], &["busy"; 9][..]].concat());
    // If only the busy group has messages, they are received.
    for number in [10, 10, 1] {
        let received = receive(&client, &url, MessageSystemAttributeName::All).await;
        assert_eq!(bodies(&received), vec!["busy"; number]);
    }
    assert_eq!(world.counts("job-events").await, [0, 61, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_slow_messages_does_not_delay_others() {
    let (_world, client, url) = queue().await;
    send_of(&client, &url, "slow", 2).await;
    let received = client.receive_message().queue_url(&url).send().await.expect("an answer").messages;
    let received = received.expect("a message");
    send_of(&client, &url, "quiet", 1).await;
    let handle = received[0].receipt_handle().expect("a receipt handle");
    client.delete_message().queue_url(&url).receipt_handle(handle).send().await.expect("the deletion succeeds");
    let received = receive(&client, &url, MessageSystemAttributeName::All).await;
    assert_eq!(bodies(&received), ["quiet", "slow"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_groups_the_oldest_message_is_received_first() {
    let (_world, client, url) = queue().await;
    let bodies_sent: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    for batch in bodies_sent.chunks(10) {
        assert_eq!(send_batch(&client, &url, batch.iter().map(|body| entry(body, body)).collect()).await, None);
    }
    for batch in bodies_sent.chunks(10) {
        assert_eq!(bodies(&receive(&client, &url, MessageSystemAttributeName::All).await), batch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_returns_the_group_too() {
    let (_world, client, url) = queue().await;
    for round in 0..50 {
        let group_id = round.to_string();
        let send = client.send_message().queue_url(&url).message_body("one").message_group_id(&group_id).send();
        let (received, sent) = tokio::join!(receive(&client, &url, MessageSystemAttributeName::All), send);
        sent.expect("the send succeeds");
        assert_eq!(received.first().and_then(group), Some(group_id.as_str()));
        let handle = received[0].receipt_handle().expect("a receipt handle");
        client.delete_message().queue_url(&url).receipt_handle(handle).send().await.expect("the deletion succeeds");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_limits() {
    let (world, client, _) = queue().await;
    // This queue does not have its own limit.
    let url = &world.stack.queues()["deliveries"];
    let send = |body: &str| client.send_message().queue_url(url).message_body(body);
    let attribute = |value: &str| {
        MessageAttributeValue::builder().data_type("String").string_value(value).build().expect("an attribute")
    };
    let invalid = Some("InvalidParameterValue".to_owned());
    for delay in [-1, 901] {
        assert_eq!(code(send("one").delay_seconds(delay).send().await), invalid, "{delay}");
    }
    for group in ["", "a b", "caf\u{e9}", &"a".repeat(129)] {
        assert_eq!(code(send("one").message_group_id(group).send().await), invalid, "{group}");
    }
    assert_eq!(code(send(&"a".repeat(1_048_577)).send().await), invalid);
    let with_attribute = send(&"a".repeat(1_048_576 - 10)).message_attributes("name", attribute("a"));
    assert_eq!(code(with_attribute.send().await), invalid, "name, type and value also count");
    assert_eq!(code(send("").send().await).as_deref(), Some("MissingParameter"));

    assert_eq!(code(send(&"a".repeat(1_048_576)).send().await), None);
    assert_eq!(code(send("one").delay_seconds(900).message_group_id("!".repeat(128)).send().await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_contain_the_characters_of_xml() {
    let (_world, client, url) = queue().await;
    for character in ['\0', '\u{1}', '\u{8}', '\u{b}', '\u{c}', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
        let sent = client.send_message().queue_url(&url).message_body(format!("a{character}")).send().await;
        let error = sent.expect_err("it is refused").into_service_error();
        assert!(error.is_invalid_message_contents(), "{character:?}: {error:?}");
    }
    let held = "\t\n\r ~\u{7f}\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}";
    client.send_message().queue_url(&url).message_body(held).send().await.expect("the send succeeds");
    assert_eq!(receive(&client, &url, MessageSystemAttributeName::All).await[0].body(), Some(held));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_limits() {
    let (_world, client, url) = queue().await;
    let large = "a".repeat(524_289);
    for (entries, expected) in [
        (vec![], "EmptyBatchRequest"),
        ((0..11).map(|id| entry(&id.to_string(), "one")).collect(), "TooManyEntriesInBatchRequest"),
        (vec![entry("1", "one"), entry("1", "two")], "BatchEntryIdsNotDistinct"),
        (vec![entry("a b", "one")], "InvalidBatchEntryId"),
        (vec![entry("", "one")], "InvalidBatchEntryId"),
        (vec![entry(&"a".repeat(81), "one")], "InvalidBatchEntryId"),
        (vec![entry("1", &large), entry("2", &large)], "BatchRequestTooLong"),
    ] {
        let refused = send_batch(&client, &url, entries).await;
        assert_eq!(refused, Some(format!("AWS.SimpleQueueService.{expected}")));
    }
    let entries = (0..10).map(|id| entry(&id.to_string(), &"a".repeat(104_000))).collect();
    assert_eq!(send_batch(&client, &url, entries).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_entry_does_not_keep_the_others_from_being_sent() {
    let (_world, client, url) = queue().await;
    let mut late = entry("late", "one");
    late.delay_seconds = Some(901);
    let entries = vec![entry("good", "two"), late, entry("bad", "\u{ffff}")];
    let answer =
        client.send_message_batch().queue_url(&url).set_entries(Some(entries)).send().await.expect("an answer");
    let sent: Vec<_> = answer.successful().iter().map(SendMessageBatchResultEntry::id).collect();
    let failed: Vec<_> = answer.failed().iter().map(|entry| (entry.id(), entry.code(), entry.sender_fault())).collect();
    assert_eq!(sent, ["good"]);
    assert_eq!(failed, [("late", "InvalidParameterValue", true), ("bad", "InvalidMessageContents", true)]);
    assert_eq!(receive(&client, &url, MessageSystemAttributeName::All).await[0].body(), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn receive_and_delete_have_limits_and_reject_bad_numbers() {
    let (_world, client, url) = queue().await;
    let invalid = Some("InvalidParameterValue".to_owned());
    let receive_with = || client.receive_message().queue_url(&url);
    for number in [0, 11] {
        assert_eq!(code(receive_with().max_number_of_messages(number).send().await), invalid, "{number}");
    }
    for number in [-1, 21] {
        assert_eq!(code(receive_with().wait_time_seconds(number).send().await), invalid, "{number}");
    }
    client.send_message().queue_url(&url).message_body("one").send().await.expect("the send succeeds");
    for number in [-1, 43_201] {
        assert_eq!(code(receive_with().visibility_timeout(number).send().await), invalid, "{number}");
    }
    let message = receive(&client, &url, MessageSystemAttributeName::All).await.remove(0);
    let handle = message.receipt_handle().expect("a receipt handle");
    let change = |handle, timeout| {
        client.change_message_visibility().queue_url(&url).receipt_handle(handle).visibility_timeout(timeout).send()
    };
    assert_eq!(code(change(handle, -1).await), invalid);
    assert_eq!(code(change("nonsense", 5).await).as_deref(), Some("ReceiptHandleIsInvalid"));
    assert_eq!(code(change(handle, 5).await), None);

    let entry = |id: &str, handle: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().expect("an entry")
    };
    let delete =
        client.delete_message_batch().queue_url(&url).entries(entry("1", handle)).entries(entry("2", "nonsense"));
    let deleted = delete.send().await.expect("an answer");
    assert_eq!((deleted.successful()[0].id(), deleted.failed()[0].code()), ("1", "ReceiptHandleIsInvalid"));
    let delete = client.delete_message().queue_url(&url).receipt_handle("nonsense").send().await;
    assert_eq!(code(delete).as_deref(), Some("ReceiptHandleIsInvalid"));
    let change =
        ChangeMessageVisibilityBatchRequestEntry::builder().id("1").receipt_handle(handle).visibility_timeout(5);
    let change = client.change_message_visibility_batch().queue_url(&url).entries(change.build().expect("an entry"));
    let changed = change.send().await.expect("an answer");
    assert_eq!(changed.failed().len(), 1, "it is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_names_of_both_protocols() {
    let (world, client, url) = queue().await;
    let missing = format!("{url}-not");
    let error = client.send_message().queue_url(&missing).message_body("one").send().await.expect_err("no such queue");
    assert!(error.into_service_error().is_queue_does_not_exist());
    let request = world.http.post(world.stack.sqs()).header("x-amz-target", "AmazonSQS.GetQueueAttributes");
    let answer = world.send(request.body(format!(r#"{{"QueueUrl":"{missing}"}}"#))).await;
    assert_eq!((answer.status, &answer.body["__type"]), (400, &"com.amazonaws.sqs#QueueDoesNotExist".into()));
    assert_eq!(answer.headers["x-amzn-query-error"], "AWS.SimpleQueueService.NonExistentQueue;Sender");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_attributes_are_returned_only_on_request() {
    let (_world, client, url) = queue().await;
    let none = client.get_queue_attributes().queue_url(&url).send().await.expect("an answer");
    assert!(none.attributes().is_none_or(std::collections::HashMap::is_empty), "{none:?}");
}
