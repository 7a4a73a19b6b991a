//! Records from the queues, and the reasons for leaving a record in its queue.

use std::any::Any;

use aws_lambda_events::sqs::SqsMessage;
use common::{error::Error, timestamp::Timestamp, webhooks::event::Malformed};

/// A record of a batch.
pub(crate) struct Record {
    /// The number of the record in the batch.
    pub(crate) index: usize,
    /// Whether the record has been received before.
    pub(crate) is_repeated: bool,
    /// The number of times that the record has been received, including this one.
    pub(crate) receives: u32,
    /// When its message was sent.
    pub(crate) sent_at: Timestamp,
}

/// Why a record stays in its queue.
pub(crate) enum RecordError {
    /// The record can never succeed. The queue's redrive policy moves it to the dead-letter queue.
    Malformed(Malformed),
    /// The service failed. A retry may succeed.
    Failed(Error),
    /// The handling of the record panicked. The other records of the batch are not affected.
    Panicked(Box<dyn Any + Send>),
}

fn attribute(record: &SqsMessage, name: &str) -> Option<i64> {
    record.attributes.get(name).and_then(|value| value.parse().ok())
}

impl Record {
    pub(crate) fn of(index: usize, record: &SqsMessage) -> Self {
        let receives = attribute(record, "ApproximateReceiveCount").unwrap_or(1).try_into().unwrap_or(u32::MAX);
        let sent_at = attribute(record, "SentTimestamp").map_or_else(Timestamp::now, Timestamp::from_millisecond);
        Self { index, is_repeated: receives > 1, receives, sent_at }
    }
}

impl From<Error> for RecordError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
