//! The embedded SQS, extended with features of the real one: limits, message groups, and the error names that the SDKs
//! expect. docs/architecture.md lists the remaining differences.

mod journal;
mod limits;
mod messages;
mod moves;
mod refusal;
mod restore;

use std::{collections::HashMap, path::Path, pin::Pin, sync::Arc};

use anyhow::Result;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use rustack_sqs_core::{config::SqsConfig, handler::RustackSqsHandler, provider::RustackSqs};
use rustack_sqs_http::{
    dispatch::SqsHandler,
    response::json_response,
    service::{SqsHttpConfig, SqsHttpService},
};
use rustack_sqs_model::{
    error::SqsError,
    input::{
        ChangeMessageVisibilityBatchInput, ChangeMessageVisibilityInput, DeleteMessageBatchInput, DeleteMessageInput,
        DeleteQueueInput, GetQueueAttributesInput, PurgeQueueInput, ReceiveMessageInput, SendMessageBatchInput,
        SendMessageInput,
    },
    operations::SqsOperation,
    output::{
        ChangeMessageVisibilityBatchOutput, DeleteMessageBatchOutput, DeleteMessageOutput, DeleteQueueOutput,
        GetQueueAttributesOutput, PurgeQueueOutput, ReceiveMessageOutput, SendMessageBatchOutput, SendMessageOutput,
    },
    types::{ChangeMessageVisibilityBatchRequestEntry, RedrivePolicy},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::RwLock;

pub(crate) use self::journal::Journal;
use self::{
    messages::{Messages, queue_name},
    refusal::{Refusal, Response},
};

/// The number of seconds that a message is kept in flight when it is about to be deleted. Deleting it takes less time.
const HOLD: i32 = 30;

/// The attribute with a message's receive count.
const RECEIVES: &str = "ApproximateReceiveCount";

/// The queues. Clones share them.
#[derive(Clone)]
pub(crate) struct Queues {
    sqs: Arc<RustackSqs>,
    /// Handles all operations without extensions.
    rest: Arc<RustackSqsHandler>,
    messages: Arc<RwLock<Messages>>,
}

/// A queue's dead-letter queue, and the number of receives after which a message moves there.
struct Redrive {
    target: String,
    after: u32,
}

/// Returns the HTTP service for queues with URLs below `http://127.0.0.1:port/account`. If `path` is given, also
/// returns the journal at that path, which lets messages outlive the process. Once the journal is dropped, the queues
/// accept no more messages.
///
/// # Errors
/// The journal cannot be opened.
pub(crate) fn service(
    region: &str,
    account: &str,
    port: u16,
    path: Option<&Path>,
) -> Result<(SqsHttpService<Queues>, Option<Arc<Journal>>)> {
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
    let messages = Messages::new(journal.as_ref().map(Arc::downgrade), earlier.unwrap_or_default());
    let queues = Queues { sqs, rest, messages: Arc::new(RwLock::new(messages)) };
    let config = SqsHttpConfig { region: region.to_owned(), ..Default::default() };
    Ok((SqsHttpService::new(Arc::new(queues), config), journal))
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
    async fn answer(&self, operation: SqsOperation, body: Bytes) -> Result<Response, Refusal> {
        match operation {
            SqsOperation::CreateQueue => answer(&self.create(read(&body)?).await?),
            SqsOperation::DeleteQueue => answer(&self.delete_queue(read(&body)?).await?),
            SqsOperation::PurgeQueue => answer(&self.purge(read(&body)?).await?),
            SqsOperation::SendMessage => answer(&self.send(read(&body)?).await?),
            SqsOperation::SendMessageBatch => answer(&self.send_batch(read(&body)?).await?),
            SqsOperation::ReceiveMessage => answer(&self.receive(read(&body)?).await?),
            SqsOperation::DeleteMessage => answer(&self.delete(read(&body)?).await?),
            SqsOperation::DeleteMessageBatch => answer(&self.delete_batch(read(&body)?).await?),
            SqsOperation::ChangeMessageVisibility => {
                let input: ChangeMessageVisibilityInput = read(&body)?;
                limits::visibility(input.visibility_timeout)?;
                message_id(&input.receipt_handle)?;
                answer(&self.sqs.change_message_visibility(input).await?)
            }
            SqsOperation::ChangeMessageVisibilityBatch => answer(&self.change_visibility_batch(read(&body)?).await?),
            SqsOperation::StartMessageMoveTask => answer(&self.start_move(read(&body)?).await?),
            SqsOperation::GetQueueAttributes => answer(&self.attributes(read(&body)?).await?),
            SqsOperation::ListDeadLetterSourceQueues => {
                let sources = self.sqs.list_dead_letter_source_queues(read(&body)?).await?;
                // Written by hand, because this is the only name in the protocol that starts with a lower-case letter.
                answer(&json!({ "queueUrls": sources.queue_urls }))
            }
            other => Ok(self.rest.handle_operation(other, body).await?),
        }
    }

    async fn delete_queue(&self, input: DeleteQueueInput) -> Result<DeleteQueueOutput, Refusal> {
        let queue = queue_name(&input.queue_url).to_owned();
        let mut messages = self.messages.write().await;
        let output = self.sqs.delete_queue(input).await?;
        let written = messages.purged(&queue);
        drop(messages);
        written.wait().await?;
        Ok(output)
    }

    async fn purge(&self, input: PurgeQueueInput) -> Result<PurgeQueueOutput, Refusal> {
        let queue = queue_name(&input.queue_url).to_owned();
        let mut messages = self.messages.write().await;
        let output = self.sqs.purge_queue(input).await?;
        let written = messages.purged(&queue);
        drop(messages);
        written.wait().await?;
        Ok(output)
    }

    async fn send(&self, mut input: SendMessageInput) -> Result<SendMessageOutput, Refusal> {
        let group = input.message_group_id.as_deref();
        limits::message(&input.message_body, input.delay_seconds, group, &input.message_attributes)?;
        let messages = self.messages.read().await;
        let message = (!is_fifo(&input.queue_url)).then(|| {
            let group = input.message_group_id.take();
            let (body, attributes) = (&input.message_body, &input.message_attributes);
            messages.prepare(&input.queue_url, body, attributes, input.delay_seconds, group)
        });
        let mut output = self.sqs.send_message(input).await?;
        if let (Some(message), Some(id)) = (&message, &mut output.message_id) {
            messages.note(id, message);
        }
        let written = messages.accepted(message.into_iter().collect());
        drop(messages);
        written.wait().await?;
        Ok(output)
    }

    async fn send_batch(&self, mut input: SendMessageBatchInput) -> Result<SendMessageBatchOutput, Refusal> {
        limits::batch_size(&input.entries)?;
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                let group = entry.message_group_id.as_deref();
                limits::message(&entry.message_body, entry.delay_seconds, group, &entry.message_attributes)
            },
        )?;
        let messages = self.messages.read().await;
        let mut prepared = HashMap::new();
        for entry in input.entries.iter_mut().filter(|_| !is_fifo(&input.queue_url)) {
            let group = entry.message_group_id.take();
            let (body, attributes) = (&entry.message_body, &entry.message_attributes);
            let message = messages.prepare(&input.queue_url, body, attributes, entry.delay_seconds, group);
            prepared.insert(entry.id.clone(), message);
        }
        let mut output = SendMessageBatchOutput::default();
        if !input.entries.is_empty() {
            output = self.sqs.send_message_batch(input).await?;
        }
        let mut accepted = Vec::new();
        for sent in &mut output.successful {
            if let Some(message) = prepared.remove(&sent.id) {
                messages.note(&mut sent.message_id, &message);
                accepted.push(message);
            }
        }
        let written = messages.accepted(accepted);
        drop(messages);
        written.wait().await?;
        output.failed.extend(refused);
        Ok(output)
    }

    async fn receive(&self, mut input: ReceiveMessageInput) -> Result<ReceiveMessageOutput, Refusal> {
        limits::receive(&input)?;
        let wanted: Vec<_> = input.attribute_names.iter().chain(&input.message_system_attribute_names).collect();
        let wants = |name: &str| wanted.iter().any(|wanted| *wanted == "All" || *wanted == name);
        let (wants_group, wants_receives) = (wants("MessageGroupId"), wants(RECEIVES));
        if !wants_receives {
            input.message_system_attribute_names.push(RECEIVES.to_owned());
        }
        let queue_url = input.queue_url.clone();
        let mut output = self.sqs.receive_message(input).await?;
        if output.messages.is_empty() {
            return Ok(output);
        }
        let redrive = self.redrive(&queue_url).await;
        let messages = self.messages.write().await;
        let mut received = Vec::new();
        for message in &mut output.messages {
            let receives = message.attributes.get(RECEIVES).and_then(|receives| receives.parse().ok()).unwrap_or(1);
            if !wants_receives {
                message.attributes.remove(RECEIVES);
            }
            if let Some(key) = messages.complete(message, wants_group) {
                // If the last permitted receive fails, the message becomes a dead letter. The embedded SQS does not
                // report that, so the move is recorded in advance.
                let last = redrive.as_ref().filter(|redrive| receives >= redrive.after);
                let (queue, receives) =
                    last.map_or((queue_name(&queue_url), receives), |redrive| (redrive.target.as_str(), 0));
                received.push((key, queue.to_owned(), receives));
            }
        }
        messages.received(received);
        Ok(output)
    }

    /// Returns a queue's redrive policy, if messages are kept.
    async fn redrive(&self, queue_url: &str) -> Option<Redrive> {
        if !self.messages.read().await.are_kept() {
            return None;
        }
        let attribute_names = vec!["RedrivePolicy".to_owned()];
        let input = GetQueueAttributesInput { queue_url: queue_url.to_owned(), attribute_names };
        // An error means that the queue has just been deleted.
        let attributes = self.sqs.get_queue_attributes(input).await.ok()?.attributes;
        let policy: RedrivePolicy = serde_json::from_str(attributes.get("RedrivePolicy")?).ok()?;
        let target = policy.dead_letter_target_arn.rsplit(':').next()?.to_owned();
        Some(Redrive { target, after: policy.max_receive_count.try_into().ok()? })
    }

    async fn delete(&self, input: DeleteMessageInput) -> Result<DeleteMessageOutput, Refusal> {
        let id = message_id(&input.receipt_handle)?;
        let held = self.hold(&input.queue_url, vec![(id, input.receipt_handle.clone())]).await?;
        let output = self.sqs.delete_message(input).await?;
        self.deleted(held).await?;
        Ok(output)
    }

    async fn delete_batch(&self, mut input: DeleteMessageBatchInput) -> Result<DeleteMessageBatchOutput, Refusal> {
        let mut ids = HashMap::new();
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                ids.insert(entry.id.clone(), message_id(&entry.receipt_handle)?);
                Ok(())
            },
        )?;
        let mut output = DeleteMessageBatchOutput::default();
        if !input.entries.is_empty() {
            let handles = input.entries.iter().map(|entry| (entry.id.clone(), entry.receipt_handle.clone())).collect();
            let held = self.hold(&input.queue_url, handles).await?;
            output = self.sqs.delete_message_batch(input).await?;
            self.deleted(held.iter().filter_map(|id| ids.remove(id)).collect()).await?;
        }
        output.failed.extend(refused);
        Ok(output)
    }

    /// Keeps messages in flight until they are deleted. Returns the ids for the valid handles, because the embedded SQS
    /// reports success even for an expired handle, which does not delete anything.
    async fn hold(&self, queue_url: &str, handles: Vec<(String, String)>) -> Result<Vec<String>, Refusal> {
        let entries = handles.into_iter().map(|(id, receipt_handle)| ChangeMessageVisibilityBatchRequestEntry {
            id,
            receipt_handle,
            visibility_timeout: HOLD,
        });
        let input = ChangeMessageVisibilityBatchInput { queue_url: queue_url.to_owned(), entries: entries.collect() };
        let held = self.sqs.change_message_visibility_batch(input).await?.successful;
        Ok(held.into_iter().map(|entry| entry.id).collect())
    }

    async fn deleted(&self, ids: Vec<String>) -> Result<(), Refusal> {
        let written = self.messages.read().await.deleted(&ids);
        written.wait().await?;
        self.messages.read().await.forget(&ids);
        Ok(())
    }

    async fn change_visibility_batch(
        &self,
        mut input: ChangeMessageVisibilityBatchInput,
    ) -> Result<ChangeMessageVisibilityBatchOutput, Refusal> {
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                limits::visibility(entry.visibility_timeout)?;
                message_id(&entry.receipt_handle).map(drop)
            },
        )?;
        let mut output = ChangeMessageVisibilityBatchOutput::default();
        if !input.entries.is_empty() {
            output = self.sqs.change_message_visibility_batch(input).await?;
        }
        output.failed.extend(refused);
        Ok(output)
    }

    async fn attributes(&self, input: GetQueueAttributesInput) -> Result<GetQueueAttributesOutput, Refusal> {
        let none_wanted = input.attribute_names.is_empty();
        let mut output = self.sqs.get_queue_attributes(input).await?;
        if none_wanted {
            output.attributes.clear();
        }
        Ok(output)
    }
}

/// Messages in FIFO queues are left to the embedded SQS, and are lost when the process ends.
fn is_fifo(queue_url: &str) -> bool {
    queue_url.ends_with(".fifo")
}

/// Returns the id of the message that a receipt handle belongs to. The decoded handle starts with the id.
fn message_id(receipt_handle: &str) -> Result<String, Refusal> {
    let text = BASE64_STANDARD.decode(receipt_handle).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let id = text.as_deref().and_then(|text| text.split_once(':')).map(|(id, _)| id.to_owned());
    id.ok_or_else(|| Refusal::new("ReceiptHandleIsInvalid", "The input receipt handle is invalid."))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        let message = error.to_string();
        let missing = message.starts_with("missing field");
        Refusal::new(if missing { "MissingParameter" } else { "InvalidParameterValue" }, message)
    })
}

fn answer<T: Serialize>(output: &T) -> Result<Response, Refusal> {
    let json = serde_json::to_vec(output).map_err(|error| SqsError::internal_error(error.to_string()))?;
    Ok(json_response(json, &uuid::Uuid::new_v4().to_string()))
}
