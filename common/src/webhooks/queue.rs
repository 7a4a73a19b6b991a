//! The deliveries queues, which say when an attempt is due: one for receivers that answer soon, and one for slow receivers,
//! so that what waits for a slow receiver is in nobody's way.

use aws_sdk_sqs::{Client, types::SendMessageBatchRequestEntry};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{
    delivery::{Delivery, DueAttempt, DueEvent, MAX_DELAY},
    event::{Malformed, malformed},
};
use crate::{
    aws::{clients::Aws, failure},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

/// The most messages that SQS takes in one call.
const BATCH: usize = 10;
/// How many calls one caller may have under way.
const CONCURRENCY: usize = 16;

/// A message of these queues. It has no body, URL or secret: those are in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// An attempt is due.
    Attempt(DueAttempt),
    /// The first attempts of an event are due.
    Event(DueEvent),
}

impl From<DueAttempt> for Message {
    fn from(attempt: DueAttempt) -> Self {
        Self::Attempt(attempt)
    }
}

impl From<DueEvent> for Message {
    fn from(event: DueEvent) -> Self {
        Self::Event(event)
    }
}

/// A message as JSON, with the members of either variant.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    tenant_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<String>,
}

/// Sends to the deliveries queues. Cloning is cheap.
#[derive(Clone)]
pub struct Queues {
    /// For receivers that are not known to be slow. An attempt from this queue is short.
    pub deliveries: Queue,
    /// For slow receivers. An attempt from this queue has all the time that a receiver may take.
    pub slow: Queue,
}

/// Sends to a queue. Cloning is cheap.
#[derive(Clone)]
pub struct Queue {
    sqs: Client,
    url: String,
}

impl Message {
    /// Parses a message of these queues.
    ///
    /// # Errors
    /// It is no such message.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let written: Written<'_> = serde_json::from_str(text).map_err(malformed)?;
        let wrong = |field: &str| Malformed(format!("{field} is not what was sent"));
        let tenant = written.tenant_id.parse().map_err(|_not_an_id| wrong("tenant_id"))?;
        match written {
            Written { delivery_id: Some(id), attempt: Some(attempt), parked: None, .. } => {
                let id = id.parse().map_err(|_not_an_id| wrong("delivery_id"))?;
                Ok(Self::Attempt(DueAttempt { tenant, id, attempt }))
            }
            Written { delivery_id: None, attempt: None, parked: Some(parked), .. } => {
                let parked = parked.parse().map_err(|_not_an_id| wrong("parked"))?;
                Ok(Self::Event(DueEvent { tenant, parked }))
            }
            _ => Err(wrong("the message")),
        }
    }

    fn tenant(&self) -> &TenantId {
        match self {
            Self::Attempt(DueAttempt { tenant, .. }) | Self::Event(DueEvent { tenant, .. }) => tenant,
        }
    }

    fn write(&self) -> Result<String> {
        let none = Written { tenant_id: self.tenant().as_str(), delivery_id: None, attempt: None, parked: None };
        let written = match self {
            Self::Attempt(DueAttempt { id, attempt, .. }) => {
                Written { delivery_id: Some(id.to_string()), attempt: Some(*attempt), ..none }
            }
            Self::Event(DueEvent { parked, .. }) => Written { parked: Some(parked.to_string()), ..none },
        };
        serde_json::to_string(&written).map_err(Error::internal("writing a message"))
    }
}

impl Queues {
    /// The queues that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let sqs = aws.sqs();
        let slow = Queue { sqs: sqs.clone(), url: env.required("SLOW_DELIVERIES_QUEUE_URL")? };
        Ok(Self { deliveries: Queue { sqs, url: env.required("DELIVERIES_QUEUE_URL")? }, slow })
    }

    /// The queue for receivers that are slow, or for those that are not.
    #[must_use]
    pub fn of(&self, is_slow: bool) -> &Queue {
        if is_slow { &self.slow } else { &self.deliveries }
    }
}

impl Queue {
    /// The queue of deliveries that are not known to go to slow receivers, as `env` names it.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { sqs: aws.sqs(), url: env.required("DELIVERIES_QUEUE_URL")? })
    }

    /// Whether this is the ARN of the queue.
    #[must_use]
    pub fn has_arn(&self, arn: &str) -> bool {
        arn.rsplit(':').next().is_some_and(|name| Some(name) == self.url.rsplit('/').next())
    }

    /// Says that the next attempt of a delivery is due now. Its due row has been written: if the message cannot be sent, the
    /// sweep wakes the delivery.
    pub async fn wake(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) {
        // What somebody has to take needs no message.
        let due = DueAttempt::soon(tenant, delivery, now);
        for error in self.send(due.as_slice(), now).await.into_iter().filter_map(Result::err) {
            tracing::warn!(?error, delivery = %delivery.id, "an attempt has to wait for the sweep");
        }
    }

    /// Sends messages, each to arrive at its time, or after SQS's longest delay if that is sooner. Returns whether each
    /// was sent, in the same order.
    pub async fn send<M: Clone + Into<Message>>(&self, due: &[(M, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
        let messages: Vec<_> = due.iter().map(|(message, at)| (message.clone().into(), *at)).collect();
        let calls: Vec<_> = messages.chunks(BATCH).map(|batch| self.send_batch(batch, now)).collect();
        stream::iter(calls).buffered(CONCURRENCY).collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    async fn send_batch(&self, batch: &[(Message, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
        let mut sent: Vec<Result<()>> = batch.iter().map(|_| Ok(())).collect();
        if let Err(error) = self.try_send(batch, now, &mut sent).await {
            tracing::error!(?error, "messages could not be sent");
            sent.iter_mut().for_each(|sent| *sent = Err(Error::Busy));
        }
        sent
    }

    async fn try_send(&self, batch: &[(Message, Timestamp)], now: Timestamp, sent: &mut [Result<()>]) -> Result<()> {
        let entries = batch.iter().enumerate().map(|(index, (message, at))| {
            let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
            let entry = entry.message_body(message.write()?).message_group_id(message.tenant().as_str());
            entry.delay_seconds(delay(*at, now)).build().map_err(Error::internal("writing a message"))
        });
        let entries = entries.collect::<Result<_>>()?;
        let call = self.sqs.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send();
        let answer = Box::pin(call).await.map_err(failure("sending messages"))?;
        for failed in answer.failed {
            tracing::error!(code = failed.code, message = failed.message, "a message was refused");
            let refused = failed.id.parse().ok().and_then(|index: usize| sent.get_mut(index));
            if let Some(sent) = refused {
                *sent = Err(Error::Busy);
            }
        }
        Ok(())
    }
}

/// The delay to ask SQS for, in whole seconds, rounded up.
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
        assert_eq!(Message::parse(text).expect("a message").write().expect("a message"), text);
        for other in [
            r#"{"tenant_id":"t","attempt":3}"#,
            r#"{"tenant_id":"t","parked":"msg_1"}"#,
            r#"{"tenant_id":"t","attempt":3,"parked":"msg_0123456789abcdef0123456789abcdef"}"#,
        ] {
            assert!(Message::parse(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_message_of_a_parked_event_has_its_key_alone() {
        let text = r#"{"tenant_id":"t","parked":"msg_0123456789abcdef0123456789abcdef"}"#;
        assert_eq!(Message::parse(text).expect("a message").write().expect("a message"), text);
    }
}
