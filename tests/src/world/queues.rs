//! The queues.

use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::{Client, types::QueueAttributeName};
use common::{timestamp::Timestamp, webhooks::log::due_rows::SWEEPERS};
use futures::future::join_all;
use local::Worker;
use serde_json::{Value, json};

use super::{World, tables::item};

/// The number of a queue's messages: visible, being handled, delayed.
pub async fn counts(client: &Client, url: &str) -> [usize; 3] {
    let names = [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    ];
    let attributes = client.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
    let attributes = attributes.send().await.expect("the queue answers").attributes.expect("attributes");
    names.map(|name| attributes[&name].parse().expect("a number"))
}

impl World {
    /// The queues that functions read: all except dead-letter queues.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.stack.queues().keys().map(String::as_str).filter(|name| !is_dead(name))
    }

    /// The queues of due attempts: all queues except the event queue.
    pub fn due_queues(&self) -> impl Iterator<Item = &str> {
        self.queues().filter(|name| *name != "job-events")
    }

    /// The queues of due attempts that have messages to receive. If all counts are 0, returns all these queues, because
    /// a message is counted only some time after its delay.
    pub async fn filled<'a>(&self, queues: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let (all, mut filled) = (queues.collect::<Vec<_>>(), Vec::new());
        for queue in &all {
            if self.counts(queue).await[0] > 0 {
                filled.push(*queue);
            }
        }
        if filled.is_empty() { all } else { filled }
    }

    /// The number of messages in all queues that functions read.
    pub async fn left(&self) -> usize {
        let counts = join_all(self.queues().map(|queue| self.counts(queue))).await;
        counts.as_flattened().iter().sum()
    }

    /// Sends a message to a queue.
    pub async fn enqueue(&self, queue: &str, body: impl ToString) {
        let url = self.stack.queues().get(queue).expect("a queue with that name");
        self.stack
            .sqs_client()
            .send_message()
            .queue_url(url)
            .message_body(body.to_string())
            .send()
            .await
            .expect("the send succeeds");
    }

    /// Handles a batch from a queue, and returns the number of records in it.
    pub async fn poll(&self, queue: &str) -> usize {
        self.stack.poll(queue).await.expect("a step")
    }

    /// Handles a queue until it is empty.
    pub async fn poll_all(&self, queue: &str) {
        while self.poll(queue).await > 0 {}
    }

    /// Handles a batch of due attempts from each queue with messages, and returns the number of records. Waits up to a
    /// second for the first record.
    pub async fn poll_due(&self) -> usize {
        let polled = self.filled(self.due_queues()).await;
        join_all(polled.into_iter().map(|queue| self.poll(queue))).await.into_iter().sum()
    }

    /// Handles a batch from each queue that functions read, and returns the number of records.
    pub async fn poll_each(&self) -> usize {
        let polled = self.filled(self.queues()).await;
        join_all(polled.into_iter().map(|queue| self.poll(queue))).await.into_iter().sum()
    }

    /// Handles all queues until they are empty, including delayed messages.
    pub async fn handle_all(&self) {
        while self.left().await > 0 {
            self.poll_each().await;
        }
    }

    /// Sends an event and handles it, with the first attempts at new receivers.
    pub async fn deliver(&self, event: impl ToString) {
        self.enqueue("job-events", event).await;
        assert_eq!(self.poll("job-events").await, 1);
        self.drain_late().await;
    }

    /// Makes the parked attempts at receivers that are not silent.
    pub async fn drain_late(&self) {
        while self.counts("slow-deliveries").await[0] > 0 {
            self.poll("slow-deliveries").await;
        }
    }

    /// Runs the sweep for the minute that contains this time. The first sweep covers the minutes since the service was
    /// started, instead of the last half hour, and wakes from the first minute with such rows, because each minute
    /// takes many calls.
    pub async fn sweep(&self, at: Timestamp) {
        if !self.is_swept.swap(true, Ordering::Relaxed) {
            self.begin_sweeps(at).await;
        }
        self.stack.invoke("deliveries-wake", json!({"time": at})).await.expect("a sweep");
    }

    /// Undoes the progress of all sweeps, as if none had run yet.
    pub async fn forget_sweeps(&self) {
        self.is_swept.store(false, Ordering::Relaxed);
        self.put_cursors(&json!({})).await;
    }

    /// Makes sweepers without progress begin with the minute before the service was started, or half an hour before `at`.
    async fn begin_sweeps(&self, at: Timestamp) {
        let minute = |time: Timestamp| time.as_second() / 60;
        let first = minute(self.started).max(minute(at) - 30) - 1;
        let items = self.items("deliveries").await;
        let is_wait = |key: &String| key.starts_with("wake") || key.starts_with("index/");
        let waits = items.iter().filter(|item| item["delivery"].as_s().is_ok_and(is_wait));
        let minutes = waits.filter_map(|item| {
            let (minute, _) = item["destination"].as_s().ok()?.strip_prefix("due/")?.split_once('.')?;
            minute.parse().ok()
        });
        let woken = minutes.chain([minute(at)]).map(|minute: i64| minute - 1).min().unwrap_or_default().max(first);
        for sweeper in 0..SWEEPERS {
            let update = self.stack.dynamodb_client().update_item().table_name("deliveries");
            let update = update.key("destination", AttributeValue::S("due".to_owned()));
            let update = update.key("delivery", AttributeValue::S(format!("cursor.{sweeper}")));
            let update = update.expression_attribute_values(":first", AttributeValue::N(first.to_string()));
            let update = update.expression_attribute_values(":woken", AttributeValue::N(woken.to_string()));
            let progress = "SET woken = if_not_exists(woken, :woken), checked = if_not_exists(checked, :first)";
            update.update_expression(progress).send().await.expect("the write succeeds");
        }
    }

    /// Stores these attributes in each sweeper's item, which contains its cursor and lease.
    pub async fn put_cursors(&self, fields: &Value) {
        for sweeper in 0..SWEEPERS {
            let mut cursor = fields.clone();
            cursor["destination"] = json!("due");
            cursor["delivery"] = json!(format!("cursor.{sweeper}"));
            self.put("deliveries", item(&cursor)).await;
        }
    }

    /// Makes unacknowledged messages visible again after this many seconds, instead of the template's three minutes.
    pub async fn come_back_after(&self, seconds: u32) {
        for queue in self.queues() {
            let set = self.stack.sqs_client().set_queue_attributes().queue_url(&self.stack.queues()[queue]);
            let set = set.attributes(QueueAttributeName::VisibilityTimeout, seconds.to_string());
            set.send().await.expect("the write succeeds");
        }
    }

    /// The number of a queue's messages: visible, being handled, delayed.
    pub async fn counts(&self, queue: &str) -> [usize; 3] {
        counts(&self.stack.sqs_client(), &self.stack.queues()[queue]).await
    }

    /// Starts another process that handles the queues.
    #[must_use]
    pub fn worker(&self, settings: &[(&str, &str)]) -> Worker {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Worker::new(self.stack.dynamodb(), self.stack.sqs(), &settings.collect()).expect("a worker")
    }

    /// Removes and returns all of a queue's visible messages.
    pub async fn drain(&self, queue: &str) -> Vec<Value> {
        let (sqs, url) = (self.stack.sqs_client(), self.stack.queues().get(queue).expect("a queue with that name"));
        let mut messages = Vec::new();
        loop {
            let batch = sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await;
            let batch = batch.expect("the queue answers").messages.unwrap_or_default();
            if batch.is_empty() {
                return messages;
            }
            for message in batch {
                let body = message.body().expect("a body");
                messages.push(serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())));
                let handle = message.receipt_handle().expect("a receipt handle");
                sqs.delete_message().queue_url(url).receipt_handle(handle).send().await.expect("the deletion succeeds");
            }
        }
    }

    /// Removes and returns all visible messages about due attempts.
    pub async fn drain_due(&self) -> Vec<Value> {
        join_all(self.due_queues().map(|queue| self.drain(queue))).await.concat()
    }

    /// Removes and returns all messages in dead-letter queues.
    pub async fn dead_letters(&self) -> Vec<Value> {
        let dead = self.stack.queues().keys().filter(|name| is_dead(name));
        join_all(dead.map(|queue| self.drain(queue))).await.concat()
    }
}

fn is_dead(queue: &str) -> bool {
    queue.ends_with("-dead")
}
