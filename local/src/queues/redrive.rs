//! Redriving: moves the messages in a dead-letter queue back to the queue that they came from.

use rustack_sqs_model::input::{
    DeleteMessageInput, GetQueueUrlInput, ListDeadLetterSourceQueuesInput, ReceiveMessageInput, SendMessageInput,
    StartMessageMoveTaskInput,
};
use serde_json::{Value, json};

use super::{Queues, errors::QueueError};

/// The maximum number of messages in a receive call.
const BATCH_SIZE: i32 = 10;

/// The number of seconds that a message is in flight at most before it is moved. Moving it takes less time.
const VISIBILITY_SECONDS: i32 = 30;

impl Queues {
    /// Unlike SQS, moves all visible messages before responding. As in SQS, a moved message counts as a new one.
    pub(super) async fn start_move(&self, input: StartMessageMoveTaskInput) -> Result<Value, QueueError> {
        let name = input.source_arn.rsplit(':').next().unwrap_or_default();
        let queue = GetQueueUrlInput { queue_name: name.to_owned(), ..Default::default() };
        let queue_url = self.sqs.get_queue_url(queue).await?.queue_url.unwrap_or_default();
        let sources = ListDeadLetterSourceQueuesInput { queue_url: queue_url.clone(), ..Default::default() };
        let sources = self.sqs.list_dead_letter_source_queues(sources).await?.queue_urls;
        let [target] = &sources[..] else {
            return Err(QueueError::invalid("Source queue must be the dead-letter queue of one queue."));
        };
        loop {
            let receive = ReceiveMessageInput {
                queue_url: queue_url.clone(),
                max_number_of_messages: Some(BATCH_SIZE),
                visibility_timeout: Some(VISIBILITY_SECONDS),
                wait_time_seconds: Some(0),
                message_system_attribute_names: vec!["MessageGroupId".to_owned()],
                message_attribute_names: vec!["All".to_owned()],
                ..Default::default()
            };
            let letters = self.receive(receive).await?.messages;
            if letters.is_empty() {
                return Ok(json!({ "TaskHandle": uuid::Uuid::new_v4() }));
            }
            for mut letter in letters {
                let send = SendMessageInput {
                    queue_url: target.clone(),
                    message_body: letter.body.unwrap_or_default(),
                    message_group_id: letter.attributes.remove("MessageGroupId"),
                    message_attributes: letter.message_attributes,
                    ..Default::default()
                };
                self.send(send).await?;
                let receipt_handle = letter.receipt_handle.unwrap_or_default();
                self.delete(DeleteMessageInput { queue_url: queue_url.clone(), receipt_handle }).await?;
            }
        }
    }
}
