//! Rejects requests that SQS rejects but the embedded SQS accepts
//! (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Operations.html>).

use std::collections::{HashMap, HashSet};

use rustack_sqs_model::{
    input::ReceiveMessageInput,
    types::{BatchResultErrorEntry, MessageAttributeValue, SendMessageBatchRequestEntry},
};

use super::errors::QueueError;

type Attributes = HashMap<String, MessageAttributeValue>;

/// The limit for the size of a message and of a batch, in bytes.
pub(super) const MAX_SIZE: usize = 1024 * 1024;
const MAX_ATTRIBUTES: usize = 10;
const MAX_ENTRIES: usize = 10;
const MAX_DELAY: i32 = 900;
const MAX_VISIBILITY: i32 = 12 * 60 * 60;
const MAX_WAIT: i32 = 20;
const MAX_RECEIVED: i32 = 10;

/// Takes the maximum size of a queue's messages from its new attributes, if it is one of them. The embedded crate
/// rejects more than 256 KiB, the former limit.
pub(super) fn max_size(attributes: &mut HashMap<String, String>) -> Result<Option<usize>, QueueError> {
    const NAME: &str = "MaximumMessageSize";
    let Some(value) = attributes.remove(NAME) else { return Ok(None) };
    match value.parse() {
        Ok(size) if (1024..=MAX_SIZE).contains(&size) => Ok(Some(size)),
        _ => Err(QueueError::new("InvalidAttributeValue", format!("Invalid value for the parameter {NAME}."))),
    }
}

/// Checks a message before it is sent to a queue with this limit for a message's size.
pub(super) fn message(
    max_size: usize,
    body: &str,
    delay: Option<i32>,
    group: Option<&str>,
    attributes: &Attributes,
) -> Result<(), QueueError> {
    if body.is_empty() {
        return Err(QueueError::new("MissingParameter", "The request must contain the parameter MessageBody."));
    }
    if !body.chars().all(is_allowed) {
        return Err(QueueError::new(
            "InvalidMessageContents",
            "The message contains characters outside the allowed set.",
        ));
    }
    if attributes.len() > MAX_ATTRIBUTES {
        let (number, most) = (attributes.len(), MAX_ATTRIBUTES);
        return Err(QueueError::invalid(format!(
            "Number of message attributes [{number}] exceeds the allowed maximum [{most}]."
        )));
    }
    if size(body, attributes) > max_size {
        let message =
            format!("One or more parameters are invalid. Reason: Message must be shorter than {max_size} bytes.");
        return Err(QueueError::invalid(message));
    }
    if group.is_some_and(|group| {
        group.is_empty() || group.len() > 128 || !group.bytes().all(|byte| byte.is_ascii_graphic())
    }) {
        return Err(QueueError::invalid(
            "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.",
        ));
    }
    delay.map_or(Ok(()), |delay| range("DelaySeconds", delay, 0, MAX_DELAY))
}

/// Rejects a deduplication id, which only FIFO queues accept.
pub(super) fn deduplication_id(id: Option<&str>) -> Result<(), QueueError> {
    if id.is_some() {
        return Err(QueueError::invalid(
            "The request includes a parameter that is not valid for this queue type: MessageDeduplicationId.",
        ));
    }
    Ok(())
}

/// Checks a batch's entries, both individually and as a whole. Keeps the valid entries, and returns the responses for
/// the others.
pub(super) fn batch<E>(
    entries: &mut Vec<E>,
    id: impl Fn(&E) -> &str,
    mut check: impl FnMut(&E) -> Result<(), QueueError>,
) -> Result<Vec<BatchResultErrorEntry>, QueueError> {
    let refuse = |code, message| Err(QueueError::new(code, message));
    if entries.is_empty() {
        return refuse(
            "AWS.SimpleQueueService.EmptyBatchRequest",
            "There should be at least one entry in the request.",
        );
    }
    if entries.len() > MAX_ENTRIES {
        return refuse(
            "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10.",
        );
    }
    let is_id = |id: &str| {
        (1..=80).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if !entries.iter().all(|entry| is_id(id(entry))) {
        return refuse(
            "AWS.SimpleQueueService.InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 \
             letters long.",
        );
    }
    let mut seen = HashSet::new();
    if !entries.iter().all(|entry| seen.insert(id(entry))) {
        return refuse(
            "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            "Two or more batch entries have the same Id.",
        );
    }
    drop(seen);
    let mut refused = Vec::new();
    entries.retain(|entry| check(entry).map_err(|refusal| refused.push(refusal.of_entry(id(entry)))).is_ok());
    Ok(refused)
}

/// Checks the total size of the messages in a batch.
pub(super) fn batch_size(entries: &[SendMessageBatchRequestEntry]) -> Result<(), QueueError> {
    let sent = entries.iter().map(|entry| size(&entry.message_body, &entry.message_attributes)).sum::<usize>();
    if sent > MAX_SIZE {
        let message = format!("Batch requests cannot be longer than {MAX_SIZE} bytes. You have sent {sent} bytes.");
        return Err(QueueError::new("AWS.SimpleQueueService.BatchRequestTooLong", message));
    }
    Ok(())
}

pub(super) fn receive(input: &ReceiveMessageInput) -> Result<(), QueueError> {
    for (name, value, least, most) in [
        ("MaxNumberOfMessages", input.max_number_of_messages, 1, MAX_RECEIVED),
        ("WaitTimeSeconds", input.wait_time_seconds, 0, MAX_WAIT),
        ("VisibilityTimeout", input.visibility_timeout, 0, MAX_VISIBILITY),
    ] {
        value.map_or(Ok(()), |value| range(name, value, least, most))?;
    }
    Ok(())
}

pub(super) fn visibility(timeout: i32) -> Result<(), QueueError> {
    range("VisibilityTimeout", timeout, 0, MAX_VISIBILITY)
}

fn range(name: &str, value: i32, least: i32, most: i32) -> Result<(), QueueError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("Value {value} for parameter {name} is invalid. Reason: Must be between {least} and {most}.");
    Err(QueueError::invalid(message))
}

/// The characters that XML 1.0 allows.
fn is_allowed(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn size(body: &str, attributes: &Attributes) -> usize {
    let sizes = attributes.iter().map(|(name, attribute)| {
        let text = attribute.string_value.as_ref().map_or(0, String::len);
        let bytes = attribute.binary_value.as_ref().map_or(0, Vec::len);
        name.len() + attribute.data_type.len() + text + bytes
    });
    body.len() + sizes.sum::<usize>()
}
