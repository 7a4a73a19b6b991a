//! The simulated past: `webhooks-deliver` handles messages on a clock that shows when they were due. It posts to real
//! receivers and writes to the real tables, but its messages are kept here instead of in SQS.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use aws_lambda_events::sqs::SqsBatchResponse;
use common::{
    aws::clients::Aws,
    timestamp::Timestamp,
    webhooks::{
        delivery::MAX_DELAY,
        log::DeliveryLog,
        queue::{Message, parse_message},
    },
};
use serde_json::{Value, json};

use super::{api::clock, captured_messages::Caught};
use crate::{functions::Function, requests::RequestCounts};

/// The queue of job events.
pub(super) const JOB_EVENTS: &str = "job-events";

/// Lambda's maximum batch size, and the time it may take to collect a batch.
const BATCH_SIZE: usize = 10;
const BATCH_WINDOW: Duration = Duration::from_mins(1);
/// The time after which a message that could not be handled is received again, and the maximum number of receives.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_RECEIVES: u32 = 10;

/// A waiting message.
struct WaitingMessage {
    queue: String,
    body: String,
    receives: u32,
}

/// The messages, ordered by time, and the function that handles them.
pub(super) struct Past {
    deliver: Function,
    log: DeliveryLog,
    caught: Caught,
    waiting: BTreeMap<(i64, u64), WaitingMessage>,
    sent: u64,
}

impl Past {
    /// Returns a past without messages, with a separate instance of `deliver`.
    pub(super) fn new(deliver: &Function, requests: &Arc<RequestCounts>) -> Result<Self> {
        let caught = Caught::default();
        let env = deliver.env().over(requests.client());
        let log = DeliveryLog::from_env(&env, &Aws::new(&env)?)?;
        let deliver = deliver.over(caught.over(requests.client()))?;
        Ok(Self { deliver, log, caught, waiting: BTreeMap::new(), sent: 0 })
    }

    /// Adds a message that is received at `at`.
    pub(super) fn send(&mut self, at: Timestamp, queue: &str, body: String) {
        self.put(at, WaitingMessage { queue: queue.to_owned(), body, receives: 1 });
    }

    fn put(&mut self, at: Timestamp, waiting: WaitingMessage) {
        self.sent += 1;
        self.waiting.insert((at.as_millisecond(), self.sent), waiting);
    }

    /// Handles all messages up to `end`, including those that are sent in the meantime.
    pub(super) async fn until(&mut self, end: Timestamp) -> Result<()> {
        while let Some((at, batch)) = self.next(end) {
            clock(at).within(self.handle(at, batch)).await?;
        }
        Ok(())
    }

    /// Returns the messages that are due within 15 minutes after the end. For longer waits, `deliveries-wake` finds the
    /// deliveries in the log.
    pub(super) fn left(self) -> impl Iterator<Item = (Timestamp, String, String)> {
        let left = self.waiting.into_iter().map(|((at, _), left)| (Timestamp::from_millisecond(at), left));
        let left = left.filter(|(at, _)| at.since(Timestamp::now()) <= MAX_DELAY);
        left.map(|(at, WaitingMessage { queue, body, .. })| (at, queue, body))
    }

    /// Returns the next batch, and when it is handled. Each job event is a separate batch, so it never waits.
    fn next(&mut self, end: Timestamp) -> Option<(Timestamp, Vec<WaitingMessage>)> {
        let (mut at, mut batch) = (None, Vec::<WaitingMessage>::new());
        while let Some(next) = self.waiting.first_entry() {
            let due = Timestamp::from_millisecond(next.key().0);
            let fits = match (batch.first(), at) {
                (Some(first), Some(at)) => {
                    batch.len() < BATCH_SIZE
                        && first.queue != JOB_EVENTS
                        && first.queue == next.get().queue
                        && due.since(at) < BATCH_WINDOW
                }
                _ => true,
            };
            if !fits || due > end {
                break;
            }
            at = Some(due);
            batch.push(next.remove());
        }
        at.map(|at| (at, batch))
    }

    async fn handle(&mut self, at: Timestamp, batch: Vec<WaitingMessage>) -> Result<()> {
        let records: Vec<_> = batch.iter().enumerate().map(|(index, waiting)| record(index, waiting, at)).collect();
        let answer = self.deliver.invoke(json!({ "Records": records })).await?;
        let answer: SqsBatchResponse = serde_json::from_value(answer).context("not a batch response")?;
        let now = Timestamp::now();
        for sent in self.caught.take() {
            self.send(now.after(sent.delay), &sent.queue, sent.body);
        }
        for (index, waiting) in batch.into_iter().enumerate() {
            let is_undone = |id: &String| *id == index.to_string();
            if answer.batch_item_failures.iter().any(|failure| is_undone(&failure.item_identifier)) {
                ensure!(waiting.receives < MAX_RECEIVES, "a message of {} cannot be handled", waiting.queue);
                self.put(now.after(VISIBILITY_TIMEOUT), WaitingMessage { receives: waiting.receives + 1, ..waiting });
            } else if waiting.queue != JOB_EVENTS {
                self.wake(waiting).await?;
            }
        }
        Ok(())
    }

    /// Wakes a delivery that waits longer than a message's maximum delay. Replaces `deliveries-wake`, whose sweeps over
    /// several days would take minutes.
    async fn wake(&mut self, waiting: WaitingMessage) -> Result<()> {
        let Ok(Message::Attempts(tenant, due)) = parse_message(&waiting.body) else { return Ok(()) };
        let ids: Vec<_> = due.into_iter().map(|(id, _)| id).collect();
        let known = self.log.known(&tenant, &ids).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        for (id, delivery) in known {
            if let Some(at) = delivery.next_attempt_at.filter(|at| at.since(Timestamp::now()) > MAX_DELAY) {
                let next = json!({"tenant_id": tenant.as_str(), "delivery_id": id, "attempt": delivery.attempts + 1});
                self.send(at, &waiting.queue, next.to_string());
            }
        }
        Ok(())
    }
}

/// Returns a record in Lambda's format.
fn record(index: usize, waiting: &WaitingMessage, at: Timestamp) -> Value {
    json!({
        "messageId": index.to_string(),
        "body": waiting.body,
        "attributes": {
            "SentTimestamp": at.as_millisecond().to_string(),
            "ApproximateReceiveCount": waiting.receives.to_string(),
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": format!("arn:aws:sqs:eu-central-1:123456789012:{}", waiting.queue),
        "awsRegion": "eu-central-1",
    })
}
