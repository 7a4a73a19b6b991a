//! Restores the messages from an earlier process when their queue is created.

use std::mem;

use rustack_sqs_model::{
    error::SqsError,
    input::{
        ChangeMessageVisibilityInput, CreateQueueInput, GetQueueAttributesInput, ReceiveMessageInput, SendMessageInput,
    },
    output::{CreateQueueOutput, SendMessageOutput},
};

use super::{
    Queues,
    journal::{self, Message},
    limits::MAX_VISIBILITY,
    messages::Messages,
    refusal::Refusal,
};

impl Queues {
    pub(super) async fn create(&self, input: CreateQueueInput) -> Result<CreateQueueOutput, Refusal> {
        let queue = input.queue_name.clone();
        let mut messages = self.messages.write().await;
        let output = self.sqs.create_queue(input).await?;
        let earlier = messages.take_earlier(&queue);
        if let (Some(queue_url), false) = (&output.queue_url, earlier.is_empty()) {
            let restored = earlier.len();
            self.restore(&messages, queue_url, earlier).await?;
            tracing::info!(queue, messages = restored, "queue.restored");
        }
        Ok(output)
    }

    /// Puts messages back into their queue. Messages that were in flight when the process ended become visible
    /// immediately, because their consumers have ended, too.
    async fn restore(&self, messages: &Messages, queue_url: &str, earlier: Vec<Message>) -> Result<(), SqsError> {
        let delay = self.delay(queue_url).await?;
        // Messages that were received before are restored first, one by one, because each must be the only visible
        // message in the queue while its receives are repeated.
        let (received, others): (Vec<_>, Vec<_>) = earlier.into_iter().partition(|message| message.receives > 0);
        let mut handles = Vec::new();
        for message in received {
            let receives = message.receives;
            if self.put_back(messages, queue_url, message, 0).await {
                handles.extend(self.receive_again(queue_url, receives).await?);
            }
        }
        for message in others {
            let delay = message.delay.unwrap_or(delay);
            let gone = i32::try_from((journal::now() - message.sent) / 1000).unwrap_or(i32::MAX);
            self.put_back(messages, queue_url, message, delay.saturating_sub(gone).clamp(0, delay)).await;
        }
        for receipt_handle in handles {
            let queue_url = queue_url.to_owned();
            let visible = ChangeMessageVisibilityInput { queue_url, receipt_handle, visibility_timeout: 0 };
            self.sqs.change_message_visibility(visible).await?;
        }
        Ok(())
    }

    /// Returns the default delay of a queue's messages, in seconds.
    async fn delay(&self, queue_url: &str) -> Result<i32, SqsError> {
        let attribute_names = vec!["DelaySeconds".to_owned()];
        let input = GetQueueAttributesInput { queue_url: queue_url.to_owned(), attribute_names };
        let attributes = self.sqs.get_queue_attributes(input).await?.attributes;
        Ok(attributes.get("DelaySeconds").and_then(|delay| delay.parse().ok()).unwrap_or(0))
    }

    /// Puts a message back. Returns whether the queue accepted it. If not, the message stays in the journal, and the
    /// next process tries again.
    async fn put_back(&self, messages: &Messages, queue_url: &str, mut message: Message, delay: i32) -> bool {
        let input = SendMessageInput {
            queue_url: queue_url.to_owned(),
            message_body: mem::take(&mut message.body),
            message_attributes: mem::take(&mut message.attributes),
            delay_seconds: Some(delay),
            ..SendMessageInput::default()
        };
        match self.sqs.send_message(input).await {
            Ok(SendMessageOutput { message_id: Some(mut id), .. }) => messages.note(&mut id, &message),
            Ok(SendMessageOutput { message_id: None, .. }) => {}
            Err(error) => {
                tracing::error!(queue = message.queue, message_id = message.id, %error, "message.restore_failed");
                return false;
            }
        }
        true
    }

    /// Receives the queue's only visible message this many times, because its receive count cannot be set directly. The
    /// message then stays invisible. Returns its last receipt handle.
    async fn receive_again(&self, queue_url: &str, receives: u32) -> Result<Option<String>, SqsError> {
        let mut handle = None;
        for left in (0..receives).rev() {
            let input = ReceiveMessageInput {
                queue_url: queue_url.to_owned(),
                visibility_timeout: Some(if left > 0 { 0 } else { MAX_VISIBILITY }),
                wait_time_seconds: Some(0),
                ..ReceiveMessageInput::default()
            };
            let message = self.sqs.receive_message(input).await?.messages.pop();
            handle = message.and_then(|message| message.receipt_handle);
        }
        Ok(handle)
    }
}
