//! The delivery queues, whose messages identify due attempts. There is one queue for receivers that respond quickly,
//! one for receivers that respond late or with errors, and one for receivers that hang, so a delivery never waits for
//! slower receivers.

use std::borrow::Cow;

use aws_sdk_sqs::{Client, types::SendMessageBatchRequestEntry};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{
    delivery::{Delivery, DueAttempt, MAX_DELAY, Queue},
    event::{Malformed, malformed},
};
use crate::{
    aws::{clients::Aws, failure},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

/// The maximum number of messages in a call to SQS.
const BATCH: usize = 10;
/// The maximum number of concurrent calls per caller.
const CONCURRENCY: usize = 16;

/// A message in these queues. The body, the URL and the secret are in the log, not in the message.
#[derive(Serialize, Deserialize)]
struct Message<'a> {
    tenant_id: Cow<'a, str>,
    delivery_id: Cow<'a, str>,
    attempt: u32,
}

/// Sends messages to the delivery queues. Cloning is cheap.
#[derive(Clone)]
pub struct Queues {
    sqs: Client,
    /// The URLs, in the order of [`Queue::ALL`].
    urls: [String; 3],
}

crate::from_env! {
    /// Sends messages only to the `deliveries` queue. Cloning is cheap.
    #[derive(Clone)]
    pub struct SharedQueue {
        sqs: Client,
        url: String = "DELIVERIES_QUEUE_URL",
    }
}

/// Returns the organization of a job event, or of a message from these queues.
#[must_use]
pub fn tenant_of(text: &str) -> Option<TenantId> {
    #[derive(Deserialize)]
    struct Owned<'a> {
        tenant_id: Cow<'a, str>,
    }

    serde_json::from_str::<Owned<'_>>(text).ok()?.tenant_id.parse().ok()
}

/// Parses a message from these queues, which identifies an attempt.
///
/// # Errors
/// `text` is not a message from these queues.
pub fn parse_message(text: &str) -> Result<DueAttempt, Malformed> {
    let Message { tenant_id, delivery_id, attempt } = serde_json::from_str(text).map_err(malformed)?;
    let wrong = |field: &str| Malformed(format!("{field} is malformed"));
    let tenant = tenant_id.parse().map_err(|_not_an_id| wrong("tenant_id"))?;
    let id = delivery_id.parse().map_err(|_not_an_id| wrong("delivery_id"))?;
    Ok(DueAttempt { tenant, id, attempt })
}

/// Serializes the message for an attempt.
fn written(DueAttempt { tenant, id, attempt }: &DueAttempt) -> Result<String> {
    let message = Message { tenant_id: tenant.as_str().into(), delivery_id: id.to_string().into(), attempt: *attempt };
    serde_json::to_string(&message).map_err(Error::internal("writing a message"))
}

impl Queues {
    /// Reads the URLs of the queues from `env`.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let [shared, slow, hanging] =
            ["DELIVERIES_QUEUE_URL", "SLOW_DELIVERIES_QUEUE_URL", "HANGING_DELIVERIES_QUEUE_URL"];
        Ok(Self { sqs: aws.sqs(), urls: [env.required(shared)?, env.required(slow)?, env.required(hanging)?] })
    }

    /// The queue with this ARN, or `None` for any other ARN.
    pub fn with_arn(&self, arn: &str) -> Option<Queue> {
        let name = arn.rsplit(':').next()?;
        let mut queues = self.urls.iter().zip(Queue::ALL);
        queues.find_map(|(url, queue)| (url.rsplit('/').next() == Some(name)).then_some(queue))
    }

    /// Sends messages to `queue`. Each message arrives when its attempt is due, or after SQS's maximum delay if that is
    /// sooner. Returns the results in the same order.
    pub async fn send(&self, queue: Queue, due: &[(DueAttempt, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
        let [shared, slow, hanging] = &self.urls;
        let url = match queue {
            Queue::Shared => shared,
            Queue::Slow => slow,
            Queue::Hanging => hanging,
        };
        send(&self.sqs, url, due, now).await
    }
}

impl SharedQueue {
    /// Sends the message for a delivery's next attempt, if it is due soon. The due row must have been written: if the
    /// message cannot be sent, the sweep wakes the delivery.
    pub async fn wake(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) {
        // A pull delivery is never due soon, and does not need a message.
        let due = DueAttempt::soon(tenant, delivery, now);
        for error in send(&self.sqs, &self.url, due.as_slice(), now).await.into_iter().filter_map(Result::err) {
            crate::log!("attempt.delayed", %tenant, delivery_id = %delivery.id, ?error);
        }
    }
}

async fn send(sqs: &Client, url: &str, due: &[(DueAttempt, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
    let calls: Vec<_> = due.chunks(BATCH).map(|batch| send_batch(sqs, url, batch, now)).collect();
    stream::iter(calls).buffered(CONCURRENCY).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

async fn send_batch(sqs: &Client, url: &str, batch: &[(DueAttempt, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
    let mut sent: Vec<Result<()>> = batch.iter().map(|_| Ok(())).collect();
    if let Err(error) = try_send(sqs, url, batch, now, &mut sent).await {
        crate::log!("messages.unsent", ?error);
        sent.iter_mut().for_each(|sent| *sent = Err(Error::Busy));
    }
    sent
}

async fn try_send(
    sqs: &Client,
    url: &str,
    batch: &[(DueAttempt, Timestamp)],
    now: Timestamp,
    sent: &mut [Result<()>],
) -> Result<()> {
    let entries = batch.iter().enumerate().map(|(index, (attempt, at))| {
        let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
        let entry = entry.message_body(written(attempt)?).message_group_id(attempt.tenant.as_str());
        entry.delay_seconds(delay(*at, now)).build().map_err(Error::internal("writing a message"))
    });
    let entries = entries.collect::<Result<_>>()?;
    let call = sqs.send_message_batch().queue_url(url).set_entries(Some(entries)).send();
    let answer = Box::pin(call).await.map_err(failure("sending messages"))?;
    for failed in answer.failed {
        crate::log!("message.refused", code = failed.code, cause = failed.message);
        let refused = failed.id.parse().ok().and_then(|index: usize| sent.get_mut(index));
        if let Some(sent) = refused {
            *sent = Err(Error::Busy);
        }
    }
    Ok(())
}

/// The delay for SQS, rounded up to whole seconds.
fn delay(at: Timestamp, now: Timestamp) -> i32 {
    let wait = at.since(now).min(MAX_DELAY);
    i32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_and_at_most_15_minutes() {
        let now = Timestamp::from_second(1_000).expect("a time");
        let delay_in = |ms: i64| delay(Timestamp::from_millisecond(1_000_000 + ms), now);
        assert_eq!(delay_in(-5), 0);
        assert_eq!(delay_in(0), 0);
        assert_eq!(delay_in(1), 1);
        assert_eq!(delay_in(5_000), 5);
        assert_eq!(delay_in(86_400_000), 900);
    }

    #[test]
    fn a_message_has_a_key_and_the_number_of_the_attempt() {
        let text = r#"{"tenant_id":"t","delivery_id":"callback.3.1769860800999.0123456789abcdef0123456789abcdef","attempt":3}"#;
        let attempt = parse_message(text).expect("an attempt");
        assert_eq!(written(&attempt).expect("a message"), text);
        for other in [
            r#"{"tenant_id":"t","attempt":3}"#,
            r#"{"tenant_id":"t","parked":"msg_0123456789abcdef0123456789abcdef"}"#,
            r#"{"tenant_id":"t","delivery_id":"callback.3","attempt":3}"#,
        ] {
            assert!(parse_message(other).is_err(), "{other}");
        }
    }
}
