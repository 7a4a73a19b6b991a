//! Records of the queues, and the reasons why a record stays in its queue.

use std::{any::Any, sync::Arc, time::Duration};

use aws_lambda_events::sqs::SqsMessage;
use common::{
    error::Error,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DueAttempt, Queue},
        event::{JobEvent, Malformed},
        log::parked::ParkedEvent,
        queue::{Message, Queues},
    },
};

use crate::under_way::{Mark, UnderWay};

/// A job event that has waited longer than this shows that all invocations are busy.
const BACKLOG: Duration = Duration::from_millis(500);

/// A record of a batch.
pub(crate) struct Record {
    /// The number of the record in the batch.
    pub(crate) index: usize,
    /// Whether it has been received before.
    pub(crate) is_repeated: bool,
    /// The queue that the record came from. Events count as shared.
    pub(crate) queue: Queue,
    /// Marks the work of a message as in progress until the result is stored.
    pub(crate) mark: Option<Arc<Mark>>,
}

/// The work that a record asks for.
pub(crate) enum Content {
    /// The first attempts of an event.
    Event(JobEvent),
    /// A due attempt.
    Attempt(DueAttempt),
    /// The first attempts of an event that version 0.1.0 has parked.
    Parked(ParkedEvent),
}

/// The reason why a record stays in its queue.
pub(crate) enum Undone {
    /// The record can never succeed. The queue's redrive policy moves it to the dead-letter queue.
    Malformed(Malformed),
    /// The service failed, and can try again.
    Failed(Error),
    /// Handling it panicked. The other records of the batch are not affected.
    Panicked(Box<dyn Any + Send>),
}

/// Whether a job event has waited so long that events wait for an invocation. Repeated records and messages with a
/// delay do not count, since the time at which they became ready is not known.
pub(crate) fn has_waited(record: &SqsMessage, queues: &Queues) -> bool {
    let arn = record.event_source_arn.as_deref().unwrap_or_default();
    let is_event = queues.with_arn(arn).is_none();
    let sent_at = attribute(record, "SentTimestamp").map(Timestamp::from_millisecond);
    is_event
        && attribute(record, "ApproximateReceiveCount") == Some(1)
        && sent_at.is_some_and(|at| Timestamp::now().since(at) > BACKLOG)
}

fn attribute(record: &SqsMessage, name: &str) -> Option<i64> {
    record.attributes.get(name).and_then(|value| value.parse().ok())
}

impl Record {
    /// Reads a record of one of the queues. `None` if this process already handles the same message in another record.
    pub(crate) fn read(
        index: usize,
        record: &SqsMessage,
        queues: &Queues,
        under_way: &UnderWay,
    ) -> Result<Option<(Self, Content)>, Malformed> {
        let body = record.body.as_deref().unwrap_or_default();
        let is_repeated = attribute(record, "ApproximateReceiveCount").is_some_and(|receives| receives > 1);
        let arn = record.event_source_arn.as_deref().unwrap_or_default();
        let Some(queue) = queues.with_arn(arn) else {
            let sent_at = attribute(record, "SentTimestamp").map_or_else(Timestamp::now, Timestamp::from_millisecond);
            let event = JobEvent::parse(body, sent_at)?;
            return Ok(Some((Self { index, is_repeated, queue: Queue::Shared, mark: None }, Content::Event(event))));
        };
        let message = Message::parse(body)?;
        let Some(mark) = under_way.begin(message.clone()) else { return Ok(None) };
        let content = match message {
            Message::Attempt(attempt) => Content::Attempt(attempt),
            Message::Parked(event) => Content::Parked(event),
        };
        Ok(Some((Self { index, is_repeated, queue, mark: Some(Arc::new(mark)) }, content)))
    }
}

impl From<Malformed> for Undone {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
