//! Lambda's event source mapping: receives batches from a queue, passes them to a function, and deletes the messages
//! that succeeded.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use aws_lambda_events::sqs::SqsBatchResponse;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{functions::Function, template::Mapping};

/// One machine has capacity for half of the concurrent invocations that the template allows.
const CONCURRENCY_DIVISOR: usize = 2;

/// The number of seconds that a receive call waits for the first message.
const WAIT_SECONDS: i32 = 1;

/// The maximum size of an invocation's event, and a record without its body.
const MAX_EVENT_BYTES: usize = 6_000_000;
const RECORD_BYTES: usize = 1_000;

/// A queue and the function that processes its messages.
pub(crate) struct Poller {
    pub(crate) mapping: Mapping,
    pub(crate) queue_url: String,
    pub(crate) region: String,
    pub(crate) client: aws_sdk_sqs::Client,
    pub(crate) function: Arc<Function>,
}

impl Poller {
    /// Polls until `stop` is triggered, and then waits for running invocations.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let concurrency = self.mapping.scaling_config.maximum_concurrency.div_ceil(CONCURRENCY_DIVISOR);
        let permits = Arc::new(Semaphore::new(concurrency));
        while let Some(received) = stop.run_until_cancelled(self.receive_permitted(&permits)).await {
            match received {
                Ok((_, messages)) if messages.is_empty() => {}
                Ok((permit, messages)) => {
                    let poller = Arc::clone(&self);
                    tokio::spawn(async move {
                        poller.process_logged(&messages).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::error!(
                        queue = self.mapping.queue_name(),
                        error = format!("{error:#}"),
                        "queue.receive_failed"
                    );
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        // All permits are back once no invocation is running. The semaphore is never closed.
        drop(permits.acquire_many(u32::try_from(concurrency).unwrap_or(u32::MAX)).await);
    }

    /// Receives one batch and processes it. Returns the number of records received.
    pub(crate) async fn step(&self) -> Result<usize> {
        let messages = self.receive().await?;
        if !messages.is_empty() {
            self.process_logged(&messages).await;
        }
        Ok(messages.len())
    }

    async fn receive_permitted(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Result<(tokio::sync::OwnedSemaphorePermit, Vec<Message>)> {
        let permit = Arc::clone(permits).acquire_owned().await?;
        Ok((permit, self.receive().await?))
    }

    async fn receive(&self) -> Result<Vec<Message>> {
        let request = self.client.receive_message().queue_url(&self.queue_url);
        let received = request
            .max_number_of_messages(self.mapping.batch_size)
            .wait_time_seconds(WAIT_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await?;
        Ok(received.messages.unwrap_or_default())
    }

    /// If the function itself fails, no record is deleted, and all of them become visible again after the visibility
    /// timeout.
    async fn process_logged(&self, messages: &[Message]) {
        for batch in batches(messages) {
            if let Err(error) = self.process(batch).await {
                tracing::error!(queue = self.mapping.queue_name(), error = format!("{error:#}"), "batch.failed");
            }
        }
    }

    async fn process(&self, messages: &[Message]) -> Result<()> {
        let records: Vec<_> = messages.iter().map(|message| self.record(message)).collect();
        let answer = self.function.invoke(json!({ "Records": records })).await?;
        let failed = if self.mapping.reports_item_failures() { failures(answer, messages)? } else { Vec::new() };
        self.delete(messages.iter().filter(|message| !failed.iter().any(|id| Some(id) == message.message_id.as_ref())))
            .await
    }

    fn record(&self, message: &Message) -> Value {
        let attributes = message.attributes.iter().flatten();
        json!({
            "messageId": message.message_id,
            "receiptHandle": message.receipt_handle,
            "body": message.body,
            "md5OfBody": message.md5_of_body,
            "attributes": attributes.map(|(name, value)| (name.to_string(), json!(value))).collect::<serde_json::Map<_, _>>(),
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": self.mapping.queue,
            "awsRegion": self.region,
        })
    }

    async fn delete(&self, messages: impl Iterator<Item = &Message>) -> Result<()> {
        let entries = messages.enumerate().map(|(index, message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            entry.set_receipt_handle(message.receipt_handle.clone()).build()
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        if entries.is_empty() {
            return Ok(());
        }
        let request = self.client.delete_message_batch().queue_url(&self.queue_url);
        let answer = request.set_entries(Some(entries)).send().await.context("cannot delete")?;
        match answer.failed.first() {
            None => Ok(()),
            Some(failed) => bail!("cannot delete: {failed:?}"),
        }
    }
}

/// Divides messages into the batches of invocations, whose events have at most 6 MB.
fn batches(messages: &[Message]) -> impl Iterator<Item = &[Message]> {
    let mut left = messages;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = left.iter().take_while(|message| {
            bytes += message.body.as_deref().map_or(0, str::len) + RECORD_BYTES;
            bytes <= MAX_EVENT_BYTES
        });
        let (batch, rest) = left.split_at_checked(fits.count().max(1))?;
        left = rest;
        Some(batch)
    })
}

/// Returns the ids of the records that the function reports as failed. If one of these ids is unknown, the whole batch
/// fails, as on Lambda.
fn failures(answer: Value, messages: &[Message]) -> Result<Vec<String>> {
    let answer: SqsBatchResponse = serde_json::from_value(answer).context("not a batch response")?;
    let failed: Vec<_> = answer.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
    let known = |id: &String| messages.iter().any(|message| message.message_id.as_ref() == Some(id));
    match failed.iter().find(|id| !known(id)) {
        None => Ok(failed),
        Some(id) => bail!("the response names the record {id:?}, which is not in the batch"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_messages_of_a_mebibyte_are_two_batches() {
        let message = |bytes| Message::builder().body("a".repeat(bytes)).build();
        let sizes = |messages: Vec<Message>| batches(&messages).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(sizes((0..10).map(|_| message(1 << 20)).collect()), [5, 5]);
        assert_eq!(sizes((0..10).map(|_| message(1000)).collect()), [10]);
        assert_eq!(sizes(vec![message(7_000_000), message(1)]), [1, 1], "a message that is too large is alone");
        assert!(sizes(Vec::new()).is_empty());
    }
}
