//! The delivery queues. `deliveries` carries the attempts that become due, `slow-deliveries` and `hanging-deliveries`
//! the drains of receivers that answer and of silent ones. `slow-deliveries` also carries new recoveries.

use std::{borrow::Cow, time::Duration};

use aws_sdk_sqs::{
    Client,
    types::{ChangeMessageVisibilityBatchRequestEntry, SendMessageBatchRequestEntry},
};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::{
    delivery::{Delivery, DeliveryId, Drain, DueAttempt, MAX_DELAY, Receiver},
    event::{Malformed, malformed},
};
use crate::{
    aws::{clients::Aws, failure},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{RecoveryId, TenantId},
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
};

/// The maximum number of messages in a call to SQS.
const BATCH_SIZE: usize = 10;
/// SQS may deliver a message slightly early.
pub const EARLY_DELIVERY_TOLERANCE: Duration = Duration::from_secs(1);
/// The maximum number of attempts in a message. An invocation gets up to ten messages, and reads the payloads of all of
/// their attempts, of up to 1 MiB each.
const MAX_ATTEMPTS_PER_MESSAGE: usize = 10;
/// The maximum number of concurrent calls per caller.
const CONCURRENCY: usize = 16;

/// The time until a message that could not be handled is received again: this long at first, twice as long after each
/// further receive. From the seventh receive on, the queue's visibility timeout of three minutes applies.
const FIRST_RETRY_SECONDS: i32 = 5;
const EARLY_RETRIES: u32 = 6;

/// The maximum number of times to send a message that SQS rejects, and the pause between tries.
const MAX_SENDS: u32 = 3;
const SEND_PAUSE: Duration = Duration::from_secs(1);

/// The JSON of a message in these queues. The body, the URL and the secret are in the log, not in the message.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum MessageJson<'a> {
    Attempt {
        tenant_id: Cow<'a, str>,
        delivery_id: Cow<'a, str>,
        attempt: u32,
    },
    Attempts {
        tenant_id: Cow<'a, str>,
        attempts: Vec<Numbered<'a>>,
    },
    Drain {
        tenant_id: Cow<'a, str>,
        drain: Cow<'a, str>,
        at: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Cow<'a, str>>,
    },
    Recovery {
        tenant_id: Cow<'a, str>,
        recovery_id: Cow<'a, str>,
    },
}

/// One of several attempts in a message.
#[derive(Serialize, Deserialize)]
struct Numbered<'a> {
    delivery_id: Cow<'a, str>,
    attempt: u32,
}

/// A message in these queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// These attempts of an organization are due.
    Attempts(TenantId, Vec<(DeliveryId, u32)>),
    /// An organization's parked attempts can be made.
    Drain(DrainMessage),
    /// A recovery can begin, or continue at once.
    Recovery(TenantId, RecoveryId),
}

/// The message of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainMessage {
    pub tenant: TenantId,
    pub drain: Drain,
    /// When the round is due. A message for another time than the drain's item expects is obsolete.
    pub at: Timestamp,
    /// The last receiver of the round before, if that round could not serve all receivers.
    pub after: Option<Receiver>,
}

/// Sends messages to the delivery queues. Cloning is cheap.
#[derive(Clone)]
pub struct Queues {
    sqs: Client,
    due: String,
    slow: String,
    hanging: String,
}

crate::from_env! {
    /// Sends messages only to the `deliveries` queue. Cloning is cheap.
    #[derive(Clone)]
    pub struct SharedQueue {
        sqs: Client,
        url: String = "DELIVERIES_QUEUE_URL",
    }
}

crate::from_env! {
    /// Sends the messages of new recoveries. Cloning is cheap.
    #[derive(Clone)]
    pub struct RecoveryQueue {
        sqs: Client,
        url: String = "SLOW_DELIVERIES_QUEUE_URL",
    }
}

crate::from_env! {
    /// Changes when messages are received again.
    pub struct Retries {
        sqs: Client,
        events: String = "JOB_EVENTS_QUEUE_URL",
        due: String = "DELIVERIES_QUEUE_URL",
    }
}

/// Parses a message from these queues.
///
/// # Errors
/// `text` is not a message from these queues.
pub fn parse_message(text: &str) -> Result<Message, Malformed> {
    let wrong = |field: &str| Malformed(format!("{field} is malformed"));
    let tenant_of = |id: &str| id.parse().map_err(|_not_an_id| wrong("tenant_id"));
    let delivery_of = |id: &str| id.parse().map_err(|_not_an_id| wrong("delivery_id"));
    match serde_json::from_str(text).map_err(malformed)? {
        MessageJson::Attempt { tenant_id, delivery_id, attempt } => {
            Ok(Message::Attempts(tenant_of(&tenant_id)?, vec![(delivery_of(&delivery_id)?, attempt)]))
        }
        MessageJson::Attempts { attempts, .. } if attempts.is_empty() => Err(wrong("attempts")),
        MessageJson::Attempts { tenant_id, attempts } => {
            let attempts = attempts.iter().map(|each| Ok((delivery_of(&each.delivery_id)?, each.attempt)));
            Ok(Message::Attempts(tenant_of(&tenant_id)?, attempts.collect::<Result<_, _>>()?))
        }
        MessageJson::Drain { tenant_id, drain, at, after } => {
            let drain = drain.parse().map_err(|_not_a_drain| wrong("drain"))?;
            let after = after.map(|after| after.parse().map_err(|_not_a_receiver| wrong("after"))).transpose()?;
            let at = Timestamp::from_millisecond(at);
            Ok(Message::Drain(DrainMessage { tenant: tenant_of(&tenant_id)?, drain, at, after }))
        }
        MessageJson::Recovery { tenant_id, recovery_id } => {
            let id = recovery_id.parse().map_err(|_not_an_id| wrong("recovery_id"))?;
            Ok(Message::Recovery(tenant_of(&tenant_id)?, id))
        }
    }
}

impl Message {
    fn tenant(&self) -> &TenantId {
        match self {
            Self::Drain(drain) => &drain.tenant,
            Self::Attempts(tenant, _) | Self::Recovery(tenant, _) => tenant,
        }
    }

    fn written(&self) -> Result<String> {
        let wire = match self {
            // Version 0.1.0 reads this form only.
            Self::Attempts(tenant, due) if let [(id, attempt)] = due.as_slice() => MessageJson::Attempt {
                tenant_id: tenant.as_str().into(),
                delivery_id: id.to_string().into(),
                attempt: *attempt,
            },
            Self::Attempts(tenant, due) => {
                let attempts =
                    due.iter().map(|(id, attempt)| Numbered { delivery_id: id.to_string().into(), attempt: *attempt });
                MessageJson::Attempts { tenant_id: tenant.as_str().into(), attempts: attempts.collect() }
            }
            Self::Drain(DrainMessage { tenant, drain, at, after }) => MessageJson::Drain {
                tenant_id: tenant.as_str().into(),
                drain: drain.as_str().into(),
                at: at.as_millisecond(),
                after: after.map(|after| after.to_string().into()),
            },
            Self::Recovery(tenant, id) => {
                MessageJson::Recovery { tenant_id: tenant.as_str().into(), recovery_id: id.to_string().into() }
            }
        };
        serde_json::to_string(&wire).map_err(Error::internal("writing a message"))
    }
}

impl Queues {
    /// Reads the URLs of the queues from `env`.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            sqs: aws.sqs(),
            due: env.required("DELIVERIES_QUEUE_URL")?,
            slow: env.required("SLOW_DELIVERIES_QUEUE_URL")?,
            hanging: env.required("HANGING_DELIVERIES_QUEUE_URL")?,
        })
    }

    /// Whether the queue with this ARN is one of these.
    pub fn has_arn(&self, arn: &str) -> bool {
        [&self.due, &self.slow, &self.hanging].into_iter().any(|url| is_url_of(url, arn))
    }

    /// Sends messages about attempts. Each message arrives when its attempt is due, or after SQS's maximum delay if
    /// that is sooner. Returns the results in the same order.
    pub async fn send(&self, due: &[(DueAttempt, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
        send_due(&self.sqs, &self.due, due, now).await
    }

    /// Sends messages like [`Self::send`] until `end`, again if SQS rejects them. Attempts of an organization that are due
    /// within `span` of each other share a message, which arrives when the last of them is due. Returns the number of
    /// messages that SQS rejected every time. Their deliveries are woken later, when their due rows are checked.
    pub async fn send_again(
        &self,
        due: Vec<(DueAttempt, Timestamp)>,
        span: Duration,
        now: Timestamp,
        end: Instant,
    ) -> usize {
        let mut left = together(due, span);
        for round in 1..=MAX_SENDS {
            let sent = send(&self.sqs, &self.due, &left, now).await;
            left = left.into_iter().zip(sent).filter_map(|(message, sent)| sent.is_err().then_some(message)).collect();
            if left.is_empty() {
                return 0;
            }
            if round == MAX_SENDS || Instant::now() + SEND_PAUSE >= end {
                break;
            }
            sleep(SEND_PAUSE).await;
        }
        crate::log!("wake.incomplete", messages = left.len());
        left.len()
    }

    /// Sends the message of a recovery that continues at once.
    pub async fn send_recovery(&self, tenant: &TenantId, id: RecoveryId, now: Timestamp) -> Result<()> {
        let message = (Message::Recovery(tenant.clone(), id), now);
        send(&self.sqs, &self.slow, &[message], now).await.into_iter().collect()
    }

    /// Sends the message of a drain, to arrive at `at`.
    pub async fn send_drain(&self, drain: DrainMessage, at: Timestamp, now: Timestamp) -> Result<()> {
        let url = match drain.drain {
            Drain::Answering => &self.slow,
            Drain::Silent => &self.hanging,
        };
        send(&self.sqs, url, &[(Message::Drain(drain), at)], now).await.into_iter().collect()
    }
}

impl Retries {
    /// Shortens the time until messages from the queue with this ARN are received again, because they could not be
    /// handled. `received` contains the receipt handle of each and the number of times that it has been received. The
    /// messages of drains keep their time, because a round may be running. Counts the messages whose early retries have
    /// failed: SQS does not include them in the age of the queue.
    pub async fn shorten_wait(&self, arn: &str, received: &[(&str, u32)]) {
        let failing = received.iter().filter(|(_, receives)| *receives > EARLY_RETRIES).count();
        if failing > 0 {
            metrics::emit(&[Metric::count("FailingRecord", failing)], &[]);
        }
        let Some(url) = [&self.events, &self.due].into_iter().find(|url| is_url_of(url, arn)) else { return };
        let entries = received.iter().enumerate().filter_map(|(index, (handle, receives))| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(*handle).visibility_timeout(retry_after(*receives)?).build().ok()
        });
        for batch in entries.collect::<Vec<_>>().chunks(BATCH_SIZE) {
            let call = self.sqs.change_message_visibility_batch().queue_url(url).set_entries(Some(batch.to_vec()));
            // After a failure, the messages are received again when the visibility timeout ends.
            if let Err(error) = Box::pin(call.send()).await.map_err(failure("shortening the wait of messages")) {
                crate::log!("messages.delayed", ?error);
            }
        }
    }
}

impl SharedQueue {
    /// Sends the message for a delivery's next attempt, if it is due soon. The due row must have been written: if the
    /// message cannot be sent, the sweep wakes the delivery.
    pub async fn wake(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) {
        // A pull delivery is never due soon, and does not need a message.
        let due = DueAttempt::delayable(tenant, delivery, now);
        for error in send_due(&self.sqs, &self.url, due.as_slice(), now).await.into_iter().filter_map(Result::err) {
            crate::log!("attempt.delayed", %tenant, delivery_id = %delivery.id, ?error);
        }
    }
}

impl RecoveryQueue {
    /// Makes a recovery begin at once. If the message cannot be sent, the next sweep begins the recovery.
    pub async fn begin(&self, tenant: &TenantId, id: RecoveryId, now: Timestamp) {
        let message = (Message::Recovery(tenant.clone(), id), now);
        let sent = send(&self.sqs, &self.url, &[message], now).await;
        for error in sent.into_iter().filter_map(Result::err) {
            crate::log!("recovery.delayed", %tenant, recovery_id = %id, ?error);
        }
    }
}

async fn send_due(sqs: &Client, url: &str, due: &[(DueAttempt, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
    let message = |due: &DueAttempt| Message::Attempts(due.tenant.clone(), vec![(due.id, due.attempt)]);
    let messages: Vec<_> = due.iter().map(|(due, at)| (message(due), *at)).collect();
    send(sqs, url, &messages, now).await
}

/// Builds the messages of these attempts, each with its time. Attempts of an organization that are due within `span` of
/// each other share a message, up to [`MAX_ATTEMPTS_PER_MESSAGE`].
fn together(mut due: Vec<(DueAttempt, Timestamp)>, span: Duration) -> Vec<(Message, Timestamp)> {
    due.sort_by(|(one, at), (other, other_at)| one.tenant.cmp(&other.tenant).then(at.cmp(other_at)));
    let mut messages = Vec::new();
    let mut left = due.as_slice();
    while let Some((first, start)) = left.first() {
        let is_near = |(due, at): &&(DueAttempt, Timestamp)| due.tenant == first.tenant && at.since(*start) <= span;
        let (near, others) = left.split_at(left.iter().take(MAX_ATTEMPTS_PER_MESSAGE).take_while(is_near).count());
        let attempts = near.iter().map(|(due, _)| (due.id, due.attempt)).collect();
        let last = near.last().map_or(*start, |(_, at)| *at);
        messages.push((Message::Attempts(first.tenant.clone(), attempts), last));
        left = others;
    }
    messages
}

async fn send(sqs: &Client, url: &str, messages: &[(Message, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
    let calls: Vec<_> = messages.chunks(BATCH_SIZE).map(|batch| send_batch(sqs, url, batch, now)).collect();
    stream::iter(calls).buffered(CONCURRENCY).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

async fn send_batch(sqs: &Client, url: &str, batch: &[(Message, Timestamp)], now: Timestamp) -> Vec<Result<()>> {
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
    batch: &[(Message, Timestamp)],
    now: Timestamp,
    sent: &mut [Result<()>],
) -> Result<()> {
    let entries = batch.iter().enumerate().map(|(index, (message, at))| {
        let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
        let entry = entry.message_body(message.written()?).message_group_id(message.tenant().as_str());
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

fn is_url_of(url: &str, arn: &str) -> bool {
    url.rsplit('/').next() == arn.rsplit(':').next()
}

/// The seconds until a message that has been received this often is received again; `None` for the visibility timeout.
fn retry_after(receives: u32) -> Option<i32> {
    (1..=EARLY_RETRIES).contains(&receives).then(|| FIRST_RETRY_SECONDS << (receives - 1))
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
    fn an_unhandled_message_returns_soon_and_then_less_often() {
        let seconds = [0, 1, 2, 3, 6, 7, 100].map(retry_after);
        assert_eq!(seconds, [None, Some(5), Some(10), Some(20), Some(160), None, None]);
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let text = r#"{"tenant_id":"t","delivery_id":"callback.3.1769860800999.0123456789abcdef0123456789abcdef","attempt":3}"#;
        let drain = r#"{"tenant_id":"t","drain":"late","at":1769860800999,"after":"origin.0123456789abcdef"}"#;
        let recovery = r#"{"tenant_id":"t","recovery_id":"01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"}"#;
        let several = r#"{"tenant_id":"t","attempts":[{"delivery_id":"callback.3.1769860800999.0123456789abcdef0123456789abcdef","attempt":3},{"delivery_id":"callback.3.1769860801999.0123456789abcdef0123456789abcdef","attempt":0}]}"#;
        for text in [text, several, drain, r#"{"tenant_id":"t","drain":"silent","at":1769860800999}"#, recovery] {
            assert_eq!(parse_message(text).expect("a message").written().expect("JSON"), text);
        }
        for other in [
            r#"{"tenant_id":"t","attempt":3}"#,
            r#"{"tenant_id":"t","parked":"msg_0123456789abcdef0123456789abcdef"}"#,
            r#"{"tenant_id":"t","delivery_id":"callback.3","attempt":3}"#,
            r#"{"tenant_id":"t","attempts":[{"delivery_id":"callback.3","attempt":3}]}"#,
            r#"{"tenant_id":"t","attempts":[]}"#,
            r#"{"tenant_id":"t","drain":"quick","at":1769860800999}"#,
        ] {
            assert!(parse_message(other).is_err(), "{other}");
        }
    }

    #[test]
    fn attempts_of_an_organization_share_a_message_if_they_are_near() {
        let due = |tenant: &str, ms: i64| {
            let id = format!("callback.3.{ms:013}.0123456789abcdef0123456789abcdef").parse().expect("a delivery");
            let tenant = tenant.parse().expect("a tenant");
            (DueAttempt { tenant, id, attempt: 3 }, Timestamp::from_millisecond(ms))
        };
        let messages = |due: Vec<_>, seconds| {
            let messages = together(due, Duration::from_secs(seconds)).into_iter().map(|(message, at)| {
                let Message::Attempts(tenant, attempts) = message else { unreachable!("these are attempts") };
                let all: Vec<_> = attempts.iter().map(|(id, _)| id.at.get()).collect();
                (tenant.as_str().to_owned(), all, at.as_millisecond())
            });
            messages.collect::<Vec<_>>()
        };
        let of_two = || vec![due("b", 1_000), due("a", 9_000), due("a", 4_000), due("a", 4_001), due("a", 10_000)];
        let [a, b] = ["a", "b"].map(str::to_owned);
        let expected = [(a.clone(), vec![4_000, 4_001, 9_000], 9_000), (a.clone(), vec![10_000], 10_000)];
        assert_eq!(messages(of_two(), 5), [&expected[..], &[(b, vec![1_000], 1_000)]].concat());
        assert_eq!(messages(of_two(), 0).len(), 5);
        let many = messages((0..25).map(|ms| due("a", ms)).collect(), 5);
        assert_eq!(many.iter().map(|(_, all, _)| all.len()).collect::<Vec<_>>(), [10, 10, 5]);
        assert!(messages(Vec::new(), 5).is_empty());
    }
}
