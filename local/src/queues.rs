//! The embedded SQS: our own standard queues, and a crate for the queues' attributes and the protocol.
//!
//! The crate neither selects messages by group nor keeps them, and accepts more than SQS does. FIFO queues are not
//! supported. docs/architecture.md lists the remaining differences.

mod errors;
mod fair_order;
mod journal;
mod limits;
mod messages;
mod receipt;
mod received_message;
mod redrive;
mod store;

use std::{path::Path, pin::Pin, sync::Arc};

use anyhow::Result;
use bytes::Bytes;
use rustack_sqs_core::{config::SqsConfig, handler::RustackSqsHandler, provider::RustackSqs, queue::QueueAttributes};
use rustack_sqs_http::{dispatch::SqsHandler, response::json_response};
use rustack_sqs_model::{
    error::SqsError,
    input::{
        ChangeMessageVisibilityBatchInput, ChangeMessageVisibilityInput, CreateQueueInput, DeleteMessageBatchInput,
        DeleteMessageInput, DeleteQueueInput, GetQueueAttributesInput, PurgeQueueInput, ReceiveMessageInput,
        SendMessageBatchInput, SendMessageInput, SetQueueAttributesInput,
    },
    operations::SqsOperation,
    output::{
        ChangeMessageVisibilityBatchOutput, ChangeMessageVisibilityOutput, CreateQueueOutput, DeleteMessageBatchOutput,
        DeleteMessageOutput, DeleteQueueOutput, GetQueueAttributesOutput, PurgeQueueOutput, ReceiveMessageOutput,
        SendMessageBatchOutput, SendMessageOutput, SetQueueAttributesOutput,
    },
    types::{ChangeMessageVisibilityBatchResultEntry, DeleteMessageBatchResultEntry, SendMessageBatchResultEntry},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

pub(crate) use self::journal::Journal;
use self::{
    errors::{QueueError, Response},
    messages::{Draft, Messages, queue_name},
    receipt::Receipt,
};

/// The attributes of a queue that determine what happens to its messages.
const SETTINGS: [&str; 5] =
    ["DelaySeconds", "MaximumMessageSize", "ReceiveMessageWaitTimeSeconds", "RedrivePolicy", "VisibilityTimeout"];

/// The attributes with the numbers of messages that are visible, in flight and delayed.
const COUNTS: [&str; 3] =
    ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"];

/// The queues. Clones share them.
#[derive(Clone)]
pub(crate) struct Queues {
    /// All queues with their attributes.
    sqs: Arc<RustackSqs>,
    /// Handles all operations without extensions.
    rest: Arc<RustackSqsHandler>,
    /// The queues' messages.
    messages: Arc<Messages>,
}

/// Returns the queues, with URLs below `http://127.0.0.1:port/account`. If `path` is given, also returns the journal at
/// that path, which lets messages outlive the process. Once the journal is dropped, the queues accept no more messages.
///
/// # Errors
/// The journal cannot be opened.
pub(crate) fn open(
    region: &str,
    account: &str,
    port: u16,
    path: Option<&Path>,
) -> Result<(Queues, Option<Arc<Journal>>)> {
    let config = SqsConfig {
        default_region: region.to_owned(),
        account_id: account.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        skip_signature_validation: true,
    };
    let sqs = Arc::new(RustackSqs::new(config));
    let rest = Arc::new(RustackSqsHandler::new(Arc::clone(&sqs)));
    let (journal, earlier) = path.map(Journal::open).transpose()?.unzip();
    let journal = journal.map(Arc::new);
    let messages = Messages::new(account, journal.as_ref().map(Arc::downgrade), earlier.unwrap_or_default());
    Ok((Queues { sqs, rest, messages: Arc::new(messages) }, journal))
}

impl SqsHandler for Queues {
    fn handle_operation(
        &self,
        operation: SqsOperation,
        body: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Response, SqsError>> + Send>> {
        let queues = self.clone();
        Box::pin(async move { queues.answer(operation, body).await.or_else(|refusal| Ok(refusal.response())) })
    }
}

impl Queues {
    async fn answer(&self, operation: SqsOperation, body: Bytes) -> Result<Response, QueueError> {
        match operation {
            SqsOperation::CreateQueue => answer(&self.create(read(&body)?).await?),
            SqsOperation::DeleteQueue => answer(&self.delete_queue(read(&body)?).await?),
            SqsOperation::PurgeQueue => answer(&self.purge(read(&body)?).await?),
            SqsOperation::SendMessage => answer(&self.send(read(&body)?).await?),
            SqsOperation::SendMessageBatch => answer(&self.send_batch(read(&body)?).await?),
            SqsOperation::ReceiveMessage => answer(&self.receive(read(&body)?).await?),
            SqsOperation::DeleteMessage => answer(&self.delete(read(&body)?).await?),
            SqsOperation::DeleteMessageBatch => answer(&self.delete_batch(read(&body)?).await?),
            SqsOperation::ChangeMessageVisibility => answer(&self.change_visibility(read(&body)?).await?),
            SqsOperation::ChangeMessageVisibilityBatch => answer(&self.change_visibility_batch(read(&body)?).await?),
            SqsOperation::StartMessageMoveTask => answer(&self.start_move(read(&body)?).await?),
            SqsOperation::SetQueueAttributes => answer(&self.set_attributes(read(&body)?).await?),
            SqsOperation::GetQueueAttributes => answer(&self.attributes(read(&body)?).await?),
            SqsOperation::ListDeadLetterSourceQueues => {
                let sources = self.sqs.list_dead_letter_source_queues(read(&body)?).await?;
                // Written by hand, because this is the only name in the protocol that starts with a lower-case letter.
                answer(&json!({ "queueUrls": sources.queue_urls }))
            }
            other => Ok(self.rest.handle_operation(other, body).await?),
        }
    }

    async fn create(&self, mut input: CreateQueueInput) -> Result<CreateQueueOutput, QueueError> {
        if input.queue_name.ends_with(".fifo") {
            let code = "AWS.SimpleQueueService.UnsupportedOperation";
            return Err(QueueError::new(code, "FIFO queues are not supported."));
        }
        let max_size = limits::max_size(&mut input.attributes)?;
        let output = self.sqs.create_queue(input).await?;
        if let Some(queue_url) = &output.queue_url {
            self.set_up(queue_url, max_size).await?;
        }
        Ok(output)
    }

    async fn set_attributes(&self, mut input: SetQueueAttributesInput) -> Result<SetQueueAttributesOutput, QueueError> {
        let queue_url = input.queue_url.clone();
        let max_size = limits::max_size(&mut input.attributes)?;
        let output = self.sqs.set_queue_attributes(input).await?;
        self.set_up(&queue_url, max_size).await?;
        Ok(output)
    }

    /// Applies the attributes of a queue to its messages, and the maximum size if there is a new one.
    async fn set_up(&self, queue_url: &str, max_size: Option<usize>) -> Result<(), QueueError> {
        let attribute_names = SETTINGS.iter().chain(&["QueueArn"]).map(|name| (*name).to_owned()).collect();
        let input = GetQueueAttributesInput { queue_url: queue_url.to_owned(), attribute_names };
        let mut attributes = self.sqs.get_queue_attributes(input).await?.attributes;
        let arn = attributes.remove("QueueArn").unwrap_or_default();
        self.messages.set_up(queue_name(queue_url), &arn, QueueAttributes::from_map(&attributes, false)?, max_size);
        Ok(())
    }

    async fn delete_queue(&self, input: DeleteQueueInput) -> Result<DeleteQueueOutput, QueueError> {
        let queue = queue_name(&input.queue_url).to_owned();
        let output = self.sqs.delete_queue(input).await?;
        self.messages.remove(&queue).wait().await?;
        Ok(output)
    }

    async fn purge(&self, input: PurgeQueueInput) -> Result<PurgeQueueOutput, QueueError> {
        let queue = queue_name(&input.queue_url).to_owned();
        let output = self.sqs.purge_queue(input).await?;
        self.messages.purge(&queue).wait().await?;
        Ok(output)
    }

    async fn send(&self, input: SendMessageInput) -> Result<SendMessageOutput, QueueError> {
        let group = input.message_group_id.as_deref();
        let max_size = self.messages.max_size(&input.queue_url)?;
        limits::message(max_size, &input.message_body, input.delay_seconds, group, &input.message_attributes)?;
        limits::deduplication_id(input.message_deduplication_id.as_deref())?;
        let draft = Draft {
            body: input.message_body,
            attributes: input.message_attributes,
            delay: input.delay_seconds,
            group: input.message_group_id,
        };
        let (mut sent, written) = self.messages.send(&input.queue_url, vec![draft])?;
        written.wait().await?;
        let sent = sent.pop();
        Ok(SendMessageOutput {
            message_id: sent.as_ref().map(|sent| sent.id.clone()),
            md5_of_message_body: sent.as_ref().map(|sent| sent.md5_of_body.clone()),
            md5_of_message_attributes: sent.and_then(|sent| sent.md5_of_attributes),
            ..SendMessageOutput::default()
        })
    }

    async fn send_batch(&self, mut input: SendMessageBatchInput) -> Result<SendMessageBatchOutput, QueueError> {
        let max_size = self.messages.max_size(&input.queue_url)?;
        limits::batch_size(&input.entries)?;
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                let group = entry.message_group_id.as_deref();
                limits::message(max_size, &entry.message_body, entry.delay_seconds, group, &entry.message_attributes)?;
                limits::deduplication_id(entry.message_deduplication_id.as_deref())
            },
        )?;
        let mut output = self.send_entries(input).await?;
        output.failed.extend(refused);
        Ok(output)
    }

    /// Sends the entries of a batch that are valid.
    async fn send_entries(&self, input: SendMessageBatchInput) -> Result<SendMessageBatchOutput, QueueError> {
        if input.entries.is_empty() {
            return Ok(SendMessageBatchOutput::default());
        }
        let drafts = input.entries.into_iter().map(|entry| {
            let draft = Draft {
                body: entry.message_body,
                attributes: entry.message_attributes,
                delay: entry.delay_seconds,
                group: entry.message_group_id,
            };
            (entry.id, draft)
        });
        let (ids, drafts): (Vec<_>, _) = drafts.unzip();
        let (sent, written) = self.messages.send(&input.queue_url, drafts)?;
        written.wait().await?;
        let successful = ids.into_iter().zip(sent).map(|(id, sent)| SendMessageBatchResultEntry {
            id,
            message_id: sent.id,
            md5_of_message_body: sent.md5_of_body,
            md5_of_message_attributes: sent.md5_of_attributes,
            sequence_number: None,
        });
        Ok(SendMessageBatchOutput { successful: successful.collect(), failed: Vec::new() })
    }

    async fn receive(&self, input: ReceiveMessageInput) -> Result<ReceiveMessageOutput, QueueError> {
        limits::receive(&input)?;
        Ok(ReceiveMessageOutput { messages: self.messages.receive(&input).await? })
    }

    async fn delete(&self, input: DeleteMessageInput) -> Result<DeleteMessageOutput, QueueError> {
        let receipt = Receipt::read(&input.receipt_handle)?;
        self.messages.delete(&input.queue_url, &[receipt])?.wait().await?;
        Ok(DeleteMessageOutput {})
    }

    async fn delete_batch(&self, mut input: DeleteMessageBatchInput) -> Result<DeleteMessageBatchOutput, QueueError> {
        let mut receipts = Vec::new();
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                receipts.push(Receipt::read(&entry.receipt_handle)?);
                Ok(())
            },
        )?;
        self.messages.delete(&input.queue_url, &receipts)?.wait().await?;
        let deleted = input.entries.into_iter().map(|entry| DeleteMessageBatchResultEntry { id: entry.id });
        Ok(DeleteMessageBatchOutput { successful: deleted.collect(), failed: refused })
    }

    async fn change_visibility(
        &self,
        input: ChangeMessageVisibilityInput,
    ) -> Result<ChangeMessageVisibilityOutput, QueueError> {
        limits::visibility(input.visibility_timeout)?;
        let receipt = Receipt::read(&input.receipt_handle)?;
        self.messages.change_visibility(&input.queue_url, receipt, input.visibility_timeout)?;
        Ok(ChangeMessageVisibilityOutput {})
    }

    async fn change_visibility_batch(
        &self,
        mut input: ChangeMessageVisibilityBatchInput,
    ) -> Result<ChangeMessageVisibilityBatchOutput, QueueError> {
        let queue_url = input.queue_url.clone();
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                limits::visibility(entry.visibility_timeout)?;
                let receipt = Receipt::read(&entry.receipt_handle)?;
                // The last check: whether the receipt is still valid.
                self.messages.change_visibility(&queue_url, receipt, entry.visibility_timeout)
            },
        )?;
        let changed = input.entries.into_iter().map(|entry| ChangeMessageVisibilityBatchResultEntry { id: entry.id });
        Ok(ChangeMessageVisibilityBatchOutput { successful: changed.collect(), failed: refused })
    }

    async fn attributes(&self, input: GetQueueAttributesInput) -> Result<GetQueueAttributesOutput, QueueError> {
        let none_wanted = input.attribute_names.is_empty();
        let counts = self.messages.counts(&input.queue_url);
        let max_size = self.messages.max_size(&input.queue_url).ok();
        let mut output = self.sqs.get_queue_attributes(input).await?;
        if none_wanted {
            output.attributes.clear();
        }
        for (name, count) in COUNTS.iter().zip(counts.into_iter().flatten()) {
            if let Some(value) = output.attributes.get_mut(*name) {
                *value = count.to_string();
            }
        }
        // The embedded crate knows only the former limit.
        if let Some((value, size)) = output.attributes.get_mut("MaximumMessageSize").zip(max_size) {
            *value = size.to_string();
        }
        Ok(output)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, QueueError> {
    serde_json::from_slice(body).map_err(|error| {
        let message = error.to_string();
        let missing = message.starts_with("missing field");
        QueueError::new(if missing { "MissingParameter" } else { "InvalidParameterValue" }, message)
    })
}

fn answer<T: Serialize>(output: &T) -> Result<Response, QueueError> {
    let json = serde_json::to_vec(output).map_err(|error| SqsError::internal_error(error.to_string()))?;
    Ok(json_response(json, &uuid::Uuid::new_v4().to_string()))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_fifo_queue_is_refused() {
        let (queues, _) = open("eu-central-1", "123456789012", 9324, None).expect("queues");
        let create = async |name: &str| {
            let body = json!({ "QueueName": name }).to_string().into();
            queues.answer(SqsOperation::CreateQueue, body).await.unwrap_or_else(QueueError::response)
        };
        assert_eq!(create("events").await.status(), 200);
        let refused = create("events.fifo").await;
        assert_eq!(refused.status(), 400);
        let body = refused.into_body().collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body.get("message"), Some(&json!("FIFO queues are not supported.")));
    }
}
