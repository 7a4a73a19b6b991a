//! Records of the queues, and why a record may stay in its queue.

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

/// A job event that has waited longer than this shows that all invocations have work.
const BACKLOG: Duration = Duration::from_millis(500);

/// A record of a batch.
pub(crate) struct Record {
    /// Its number in the batch.
    pub(crate) index: usize,
    /// Whether it has been received before.
    pub(crate) is_repeated: bool,
    /// The queue it is from: events are shared, too.
    pub(crate) queue: Queue,
    /// Marks the work of a message as under way until the result is stored.
    pub(crate) mark: Option<Arc<Mark>>,
}

/// What a record asks for.
pub(crate) enum Content {
    /// The first attempts of an event.
    Event(JobEvent),
    /// An attempt that is due.
    Attempt(DueAttempt),
    /// The first attempts of an event that version 0.1.0 has parked.
    Parked(ParkedEvent),
}

/// Why a record stays in its queue.
pub(crate) enum Undone {
    /// It can never succeed; the queue's redrive policy moves it to the dead-letter queue.
    Malformed(Malformed),
    /// It failed on our side, and can be tried again.
    Failed(Error),
    /// Handling it panicked. The other records of the batch are not affected.
    Panicked(Box<dyn Any + Send>),
}

/// Whether a job event has waited in its queue for so long that events wait for an invocation. When a repeated record was
/// ready, and a message with a delay, is not known.
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
    /// Reads a record of one of the queues. `None` if this process works on the same message already: then the other record
    /// answers for both.
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
