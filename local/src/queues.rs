//! The embedded SQS, extended with what clients expect of the real one: fair queues, limits, and the error names that
//! the SDKs know. docs/architecture.md lists what is still missing.

mod limits;
mod refusal;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use rustack_sqs_core::{config::SqsConfig, handler::RustackSqsHandler, provider::RustackSqs};
use rustack_sqs_http::{
    body::SqsResponseBody,
    dispatch::SqsHandler,
    response::json_response,
    service::{SqsHttpConfig, SqsHttpService},
};
use rustack_sqs_model::{
    error::SqsError,
    input::{
        ChangeMessageVisibilityBatchInput, ChangeMessageVisibilityInput, DeleteMessageBatchInput, DeleteMessageInput,
        GetQueueAttributesInput, ReceiveMessageInput, SendMessageBatchInput, SendMessageInput,
    },
    operations::SqsOperation,
    output::{
        ChangeMessageVisibilityBatchOutput, DeleteMessageBatchOutput, DeleteMessageOutput, GetQueueAttributesOutput,
        ReceiveMessageOutput, SendMessageBatchOutput, SendMessageOutput,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::RwLock;

use self::refusal::Refusal;

type Response = axum::http::Response<SqsResponseBody>;

/// The queues. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Queues {
    sqs: Arc<RustackSqs>,
    /// Handles the operations that need no change.
    rest: Arc<RustackSqsHandler>,
    groups: Arc<RwLock<Groups>>,
}

/// The `MessageGroupId` of each message that has one, by message id. On a standard queue, SQS uses it to share the
/// queue fairly and returns it on receive; the embedded SQS rejects it. (The order in which groups are served is not
/// part of a queue's contract.)
///
/// A message may be received before the response to its send arrives with the id. So senders hold this lock shared
/// until they have recorded the group, and receivers wait until nobody holds it.
#[derive(Default)]
struct Groups(Mutex<HashMap<String, String>>);

/// The HTTP service, for queues whose URLs start with `http://127.0.0.1:port/account`.
pub(crate) fn service(region: &str, account: &str, port: u16) -> SqsHttpService<Queues> {
    let config = SqsConfig {
        default_region: region.to_owned(),
        account_id: account.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        skip_signature_validation: true,
    };
    let sqs = Arc::new(RustackSqs::new(config));
    let rest = Arc::new(RustackSqsHandler::new(Arc::clone(&sqs)));
    let queues = Queues { sqs, rest, groups: Arc::default() };
    SqsHttpService::new(Arc::new(queues), SqsHttpConfig { region: region.to_owned(), ..Default::default() })
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
            SqsOperation::GetQueueAttributes => answer(&self.attributes(read(&body)?).await?),
            SqsOperation::ListDeadLetterSourceQueues => {
                let sources = self.sqs.list_dead_letter_source_queues(read(&body)?).await?;
                // The only name in the protocol that starts with a lower-case letter.
                answer(&json!({ "queueUrls": sources.queue_urls }))
            }
            other => Ok(self.rest.handle_operation(other, body).await?),
        }
    }

    async fn send(&self, mut input: SendMessageInput) -> Result<SendMessageOutput, Refusal> {
        let group = input.message_group_id.as_deref();
        limits::message(&input.message_body, input.delay_seconds, group, &input.message_attributes)?;
        let group = if is_fifo(&input.queue_url) { None } else { input.message_group_id.take() };
        let groups = self.groups.read().await;
        let output = self.sqs.send_message(input).await?;
        groups.note(output.message_id.as_ref(), group);
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
        let mut waiting = HashMap::new();
        if !is_fifo(&input.queue_url) {
            waiting.extend(input.entries.iter_mut().map(|entry| (entry.id.clone(), entry.message_group_id.take())));
        }
        let groups = self.groups.read().await;
        let mut output = SendMessageBatchOutput::default();
        if !input.entries.is_empty() {
            output = self.sqs.send_message_batch(input).await?;
        }
        for sent in &output.successful {
            groups.note(Some(&sent.message_id), waiting.remove(&sent.id).flatten());
        }
        output.failed.extend(refused);
        Ok(output)
    }

    async fn receive(&self, input: ReceiveMessageInput) -> Result<ReceiveMessageOutput, Refusal> {
        limits::receive(&input)?;
        let mut wanted = input.attribute_names.iter().chain(&input.message_system_attribute_names);
        let wants_group = wanted.any(|name| name == "All" || name == "MessageGroupId");
        let mut output = self.sqs.receive_message(input).await?;
        if wants_group && !output.messages.is_empty() {
            let groups = self.groups.write().await;
            for message in &mut output.messages {
                let group = message.message_id.as_ref().and_then(|id| groups.find(id));
                message.attributes.extend(group.map(|group| ("MessageGroupId".to_owned(), group)));
            }
        }
        Ok(output)
    }

    async fn delete(&self, input: DeleteMessageInput) -> Result<DeleteMessageOutput, Refusal> {
        let id = message_id(&input.receipt_handle)?;
        let output = self.sqs.delete_message(input).await?;
        self.groups.read().await.forget(&id);
        Ok(output)
    }

    async fn delete_batch(&self, mut input: DeleteMessageBatchInput) -> Result<DeleteMessageBatchOutput, Refusal> {
        let mut ids = Vec::new();
        let refused = limits::batch(
            &mut input.entries,
            |entry| &entry.id,
            |entry| {
                ids.push(message_id(&entry.receipt_handle)?);
                Ok(())
            },
        )?;
        let mut output = DeleteMessageBatchOutput::default();
        if !input.entries.is_empty() {
            output = self.sqs.delete_message_batch(input).await?;
        }
        let groups = self.groups.read().await;
        ids.iter().for_each(|id| groups.forget(id));
        output.failed.extend(refused);
        Ok(output)
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

impl Groups {
    fn note(&self, message: Option<&String>, group: Option<String>) {
        if let (Some(message), Some(group)) = (message, group) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone(), group);
        }
    }

    fn find(&self, message: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(message).cloned()
    }

    fn forget(&self, message: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(message);
    }
}

fn is_fifo(queue_url: &str) -> bool {
    queue_url.ends_with(".fifo")
}

/// The id of the message that a receipt handle belongs to: here the handle starts with it, in base64.
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
