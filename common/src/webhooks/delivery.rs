//! Deliveries: one event on its way to one destination.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    endpoint_url::EndpointUrl,
    event::{EventName, JobEvent, Malformed, malformed},
    outcome::MAX_AGE,
    signing_secret::SigningSecret,
};
use crate::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// What to send where, and how often that has been tried. In the deliveries queue, a delivery waits for its next
/// attempt; in the dead-letter queue, for an operator.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The tenant whose event it is.
    pub tenant: TenantId,
    /// The event's name, which receivers also get as a header.
    pub event: EventName,
    /// Where it goes.
    pub destination: Destination,
    /// The same for all attempts and for duplicates of the event, so that receivers can recognise a repetition.
    pub webhook_id: String,
    /// How many attempts have been made.
    pub attempts: u32,
    /// When the event entered its queue, in milliseconds of Unix time, if known.
    pub event_at: Option<i64>,
    /// The next attempt is not made before this time, in milliseconds of Unix time.
    pub not_before: Option<i64>,
    /// An attempt that fails after this time is the last, in milliseconds of Unix time.
    pub give_up_at: i64,
    /// The JSON to send, byte for byte.
    pub body: Bytes,
}

/// Where a delivery goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A stored endpoint. Its URL and secret are read again before each attempt.
    Endpoint(EndpointId),
    /// A job's own callback.
    Callback {
        /// Where to deliver.
        url: EndpointUrl,
        /// The secret to sign the delivery with.
        secret: SigningSecret,
    },
}

/// Why a delivery is in the dead-letter queue.
#[derive(Debug, Serialize)]
pub struct Death<'a> {
    /// Why the last attempt failed.
    pub reason: &'a str,
    /// How many attempts were made.
    pub attempts: u32,
    /// When it was given up, in RFC 3339.
    pub at: String,
}

/// A delivery as it is in a queue. `dead` is only for people to read: a message that is put back starts over.
#[derive(Serialize, Deserialize)]
struct Message<'a> {
    tenant_id: String,
    event: EventName,
    webhook_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    callback_secret: Option<String>,
    attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    give_up_at: Option<i64>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    dead: Option<&'a Death<'a>>,
    #[serde(borrow)]
    body: &'a RawValue,
}

impl Delivery {
    /// A delivery of `event` to `destination` before its first attempt. Its time runs from `event_at`, or else from
    /// `now`.
    #[must_use]
    pub fn first(event: &JobEvent, destination: Destination, event_at: Option<i64>, now: Timestamp) -> Self {
        let address = match &destination {
            Destination::Endpoint(id) => id.to_string(),
            Destination::Callback { url, .. } => url.as_str().to_owned(),
        };
        Self {
            tenant: event.tenant.clone(),
            event: event.name,
            webhook_id: webhook_id([event.tenant.as_str(), &event.job_id, event.name.as_str(), &address]),
            destination,
            attempts: 0,
            event_at,
            not_before: None,
            give_up_at: give_up_at(event_at.unwrap_or(now.as_millisecond())),
            body: event.body.clone(),
        }
    }

    /// Parses a message of the deliveries queue. If it was put back from the dead-letter queue, its time starts over
    /// `now`.
    ///
    /// # Errors
    /// It is not a delivery. The error does not repeat any of its text.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, Malformed> {
        let message: Message<'_> = serde_json::from_str(text).map_err(malformed)?;
        let wrong = |field: &str| Malformed(format!("{field} is not what was sent"));
        let destination = match (message.endpoint_id, message.callback_url, message.callback_secret) {
            (Some(id), None, None) => Destination::Endpoint(id.parse().map_err(|_not_an_id| wrong("endpoint_id"))?),
            (None, Some(url), Some(secret)) => Destination::Callback {
                url: EndpointUrl::parse(&url).map_err(|_problems| wrong("callback_url"))?,
                secret: SigningSecret::parse(&secret).map_err(|_problems| wrong("callback_secret"))?,
            },
            _ => return Err(wrong("the destination")),
        };
        Ok(Self {
            tenant: message.tenant_id.parse().map_err(|_not_an_id| wrong("tenant_id"))?,
            event: message.event,
            destination,
            webhook_id: message.webhook_id,
            attempts: message.attempts,
            event_at: message.event_at,
            not_before: message.not_before,
            give_up_at: message.give_up_at.unwrap_or(give_up_at(now.as_millisecond())),
            body: Bytes::copy_from_slice(message.body.get().as_bytes()),
        })
    }

    /// The message for the deliveries queue.
    pub(super) fn to_message(&self) -> Result<String, serde_json::Error> {
        self.message(None)
    }

    /// The message for the dead-letter queue: the whole delivery and its reason, but no count of attempts and no retry
    /// times, so that it starts over when it is simply put back into the deliveries queue.
    pub(super) fn to_dead_letter(&self, death: &Death<'_>) -> Result<String, serde_json::Error> {
        self.message(Some(death))
    }

    fn message(&self, dead: Option<&Death<'_>>) -> Result<String, serde_json::Error> {
        let alive = dead.is_none();
        let (endpoint_id, callback_url, callback_secret) = match &self.destination {
            Destination::Endpoint(id) => (Some(id.to_string()), None, None),
            Destination::Callback { url, secret } => {
                (None, Some(url.as_str().to_owned()), Some(secret.reveal().to_owned()))
            }
        };
        serde_json::to_string(&Message {
            tenant_id: self.tenant.to_string(),
            event: self.event,
            webhook_id: self.webhook_id.clone(),
            endpoint_id,
            callback_url,
            callback_secret,
            attempts: if alive { self.attempts } else { 0 },
            event_at: self.event_at,
            not_before: self.not_before.filter(|_| alive),
            give_up_at: alive.then_some(self.give_up_at),
            dead,
            body: serde_json::from_slice(&self.body)?,
        })
    }

    /// The time until it is given up, however many attempts its schedule still has.
    #[must_use]
    pub fn time_left(&self, now: Timestamp) -> Duration {
        let left = self.give_up_at.saturating_sub(now.as_millisecond());
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// The destination, for the log: never a URL, which may contain a credential.
    #[must_use]
    pub fn destination_name(&self) -> String {
        match &self.destination {
            Destination::Endpoint(id) => id.to_string(),
            Destination::Callback { .. } => "callback".to_owned(),
        }
    }
}

/// When to give up a delivery whose time starts at `start`, both in milliseconds of Unix time.
fn give_up_at(start: i64) -> i64 {
    start.saturating_add(i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX))
}

/// 128 bits of a hash over the parts. Each is prefixed with its length, so that different parts cannot join to the same
/// text.
fn webhook_id(parts: [&str; 4]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let mut id = hex::encode(hash.finalize());
    id.truncate(32);
    format!("msg_{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> JobEvent {
        let message = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","result":1.10}"#;
        JobEvent::parse(message).expect("a job event")
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).expect("a time")
    }

    fn callback() -> Destination {
        Destination::Callback {
            url: EndpointUrl::parse("https://example.com/hook").expect("a URL"),
            secret: SigningSecret::parse("canary").expect("a secret"),
        }
    }

    #[test]
    fn a_delivery_survives_its_message_to_the_byte() {
        for destination in [Destination::Endpoint(EndpointId::generate()), callback()] {
            let mut delivery = Delivery::first(&event(), destination, Some(7), now());
            delivery.attempts = 3;
            delivery.not_before = Some(9);
            let read = Delivery::parse(&delivery.to_message().expect("a message"), now()).expect("its own message");
            assert_eq!(read.body, delivery.body);
            assert_eq!(format!("{read:?}"), format!("{delivery:?}"));
        }
    }

    #[test]
    fn a_dead_letter_says_why_and_starts_over_when_put_back() {
        let first = Delivery::first(&event(), callback(), Some(0), now());
        let delivery = Delivery { attempts: 8, not_before: Some(9), ..first };
        let death = Death { reason: "timeout", attempts: 8, at: "2026-01-31T12:00:00.000Z".to_owned() };
        let letter = delivery.to_dead_letter(&death).expect("a message");
        assert!(letter.contains(r#""dead":{"reason":"timeout","attempts":8,"at":"2026-01-31T12:00:00.000Z"}"#));
        let read = Delivery::parse(&letter, now()).expect("its own message");
        assert_eq!((read.attempts, read.not_before, read.event_at), (0, None, Some(0)));
        assert_eq!((delivery.give_up_at, read.give_up_at), (259_200_000, now().as_millisecond() + 259_200_000));
        assert_eq!((read.webhook_id, read.body), (delivery.webhook_id, delivery.body));
    }

    #[test]
    fn the_webhook_id_depends_on_tenant_job_event_and_destination() {
        let id = webhook_id(["t", "j", "job.completed", "e"]);
        assert_eq!(id, webhook_id(["t", "j", "job.completed", "e"]));
        for other in [
            ["u", "j", "job.completed", "e"],
            ["tj", "", "job.completed", "e"],
            ["t", "j", "job.failed", "e"],
            ["t", "j", "job.completed", "f"],
        ] {
            assert_ne!(id, webhook_id(other));
        }
    }

    #[test]
    fn a_delivery_is_printed_without_its_secret() {
        assert!(!format!("{:?}", Delivery::first(&event(), callback(), None, now())).contains("canary"));
    }
}
