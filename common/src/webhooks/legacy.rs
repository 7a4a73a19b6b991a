//! The messages of versions before the delivery log, which may still be in the queues when a deployment is upgraded.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    delivery::{Delivery, Destination},
    delivery_id::{DeliveryId, DestinationId, Millis, SHARDS, WebhookId},
    endpoint_url::EndpointUrl,
    event::{EventName, Malformed, malformed},
    log::{Entry, Payload, Trigger},
    outcome::MAX_AGE,
    signing_secret::SigningSecret,
};
use crate::timestamp::Timestamp;

/// A delivery as versions before the delivery log put it into their queues, body and all.
#[derive(Deserialize)]
struct Message<'a> {
    tenant_id: String,
    event: EventName,
    webhook_id: String,
    #[serde(default)]
    endpoint_id: Option<String>,
    #[serde(default)]
    callback_url: Option<String>,
    #[serde(default)]
    callback_secret: Option<String>,
    attempts: u32,
    #[serde(default)]
    event_at: Option<i64>,
    #[serde(default)]
    not_before: Option<i64>,
    #[serde(default)]
    give_up_at: Option<i64>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// The part of a body that the log needs.
#[derive(Deserialize)]
struct Body {
    job_id: String,
}

/// Parses a message of the deliveries queue, or one put back from its dead-letter queue, that a version before the
/// delivery log has sent. One that was given up starts over `now`, which is when the message was sent.
///
/// # Errors
/// It is no such message. The error does not repeat any of its text.
pub fn parse(text: &str, now: Timestamp) -> Result<Delivery, Malformed> {
    let message: Message<'_> = serde_json::from_str(text).map_err(malformed)?;
    let Body { job_id } = serde_json::from_str(message.body.get()).map_err(malformed)?;
    let wrong = |field: &str| Malformed(format!("{field} is not what was sent"));
    let (id, destination) = match (message.endpoint_id, message.callback_url, message.callback_secret) {
        (Some(id), None, None) => {
            let id = id.parse().map_err(|_not_an_id| wrong("endpoint_id"))?;
            (DestinationId::Endpoint(id), Destination::Endpoint(id))
        }
        (None, Some(url), Some(secret)) => (
            DestinationId::Callback,
            Destination::Callback {
                url: EndpointUrl::parse(&url).map_err(|_problems| wrong("callback_url"))?,
                secret: SigningSecret::parse(&secret).map_err(|_problems| wrong("callback_secret"))?,
            },
        ),
        _ => return Err(wrong("the destination")),
    };
    let webhook_id: WebhookId = message.webhook_id.parse().map_err(|_not_an_id| wrong("webhook_id"))?;
    let shard = if id == DestinationId::Callback { webhook_id.shard(SHARDS) } else { 0 };
    let at = Millis::new(message.event_at.unwrap_or(now.as_millisecond()));
    let first = Entry::new(DeliveryId { destination: id, shard, at, webhook_id }, message.event, job_id);
    let max_age = i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX);
    let give_up_at = message.give_up_at.unwrap_or(now.as_millisecond().saturating_add(max_age));
    let entry = Entry {
        attempts: message.attempts,
        tries: message.attempts,
        trigger: if message.attempts > 0 { Trigger::Schedule } else { Trigger::Event },
        next_attempt_at: Some(message.not_before.map_or(now, Timestamp::from_millisecond)),
        give_up_at: Millis::new(give_up_at),
        ..first
    };
    Ok(Delivery {
        tenant: message.tenant_id.parse().map_err(|_not_an_id| wrong("tenant_id"))?,
        entry,
        payload: Payload { destination, body: Bytes::copy_from_slice(message.body.get().as_bytes()) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_delivery_goes_on_and_a_dead_letter_starts_over() {
        let now = Timestamp::from_second(1_000_000).expect("a time");
        let body = r#"{"event":"job.failed","job_id":"j","result":1.10}"#;
        let hex = "0123456789abcdef0123456789abcdef";
        let waiting = format!(
            r#"{{"tenant_id":"t","event":"job.failed","webhook_id":"msg_{hex}","endpoint_id":"01890f3e-7b5a-7cc0-8000-000000000000","attempts":3,"event_at":7,"not_before":9,"give_up_at":8,"body":{body}}}"#
        );
        let read = parse(&waiting, now).expect("a message");
        assert_eq!(read.payload.body, body.as_bytes());
        assert_eq!(read.entry.id.to_string(), format!("01890f3e-7b5a-7cc0-8000-000000000000.0.0000000000007.{hex}"));
        assert_eq!((read.entry.attempts, read.entry.tries, read.entry.give_up_at.get()), (3, 3, 8));
        assert_eq!(read.entry.next_attempt_at.map(Timestamp::as_millisecond), Some(9));
        let dead = format!(
            r#"{{"tenant_id":"t","event":"job.failed","webhook_id":"msg_{hex}","callback_url":"https://example.com/","callback_secret":"canary","attempts":0,"dead":{{"reason":"timeout"}},"body":{body}}}"#
        );
        let read = parse(&dead, now).expect("a message");
        assert_eq!((read.entry.attempts, read.entry.next_attempt_at), (0, Some(now)));
        assert_eq!(read.entry.give_up_at.get(), 1_000_000_000 + 259_200_000);
        assert!(!format!("{read:?}").contains("canary"));
    }
}
