//! Deliveries: one event on its way to one destination.

use bytes::Bytes;

use super::{
    client::Target,
    delivery_id::{DeliveryId, DestinationId, Millis, WebhookId},
    endpoint_url::EndpointUrl,
    endpoints::Receiver,
    event::{EventName, JobEvent, TEST_BODY, TEST_JOB},
    log::{Attempt, Entry, Payload, Status, Trigger},
    outcome::{MAX_AGE, Step},
    signing_secret::SigningSecret,
};
use crate::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// What to send where, and what the log says about it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The tenant whose event it is.
    pub tenant: TenantId,
    /// How it stands.
    pub entry: Entry,
    /// What is sent, and where.
    pub payload: Payload,
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

impl Destination {
    /// The URL and secret of a callback; an endpoint's are in its record.
    #[must_use]
    pub fn callback(&self) -> Option<(&EndpointUrl, &SigningSecret)> {
        match self {
            Self::Endpoint(_) => None,
            Self::Callback { url, secret } => Some((url, secret)),
        }
    }
}

impl Delivery {
    /// A delivery of `event`, which entered its queue at `at`, to `destination`, whose log has this many shards.
    #[must_use]
    pub fn first(event: &JobEvent, at: Timestamp, destination: Destination, shards: u8) -> Self {
        let (id, address) = match &destination {
            Destination::Endpoint(id) => (DestinationId::Endpoint(*id), id.to_string()),
            Destination::Callback { url, .. } => (DestinationId::Callback, url.as_str().to_owned()),
        };
        let webhook_id = WebhookId::of(&event.tenant, &event.job_id, event.name.as_str(), &address);
        let at = Millis::new(at.as_millisecond());
        let id = DeliveryId { destination: id, shard: webhook_id.shard(shards), at, webhook_id };
        let entry = Entry::new(id, event.name, event.job_id.clone());
        Self { tenant: event.tenant.clone(), entry, payload: Payload { destination, body: event.body.clone() } }
    }

    /// A test of an endpoint, due `now`. It is in the first shard, whichever the endpoint has, so that its id is known
    /// before the endpoint has been read.
    #[must_use]
    pub fn test(tenant: TenantId, endpoint: EndpointId, now: Timestamp) -> Self {
        let (at, webhook_id) = (Millis::new(now.as_millisecond()), WebhookId::unique());
        let id = DeliveryId { destination: DestinationId::Endpoint(endpoint), shard: 0, at, webhook_id };
        let entry = Entry {
            next_attempt_at: Some(now),
            trigger: Trigger::Test,
            ..Entry::new(id, EventName::Test, TEST_JOB.to_owned())
        };
        let payload = Payload { destination: Destination::Endpoint(endpoint), body: Bytes::from_static(TEST_BODY) };
        Self { tenant, entry, payload }
    }

    /// The URL and secrets for an attempt; `receiver` is the stored endpoint. `None` if there is none any more.
    #[must_use]
    pub fn target<'a>(&'a self, receiver: Option<&'a Receiver>) -> Option<Target<'a>> {
        match &self.payload.destination {
            Destination::Endpoint(_) => receiver.map(Target::of),
            Destination::Callback { url, secret } => Some(Target { url, keys: secret.into() }),
        }
    }
}

impl Entry {
    /// A delivery before its first attempt.
    #[must_use]
    pub fn new(id: DeliveryId, event: EventName, job_id: String) -> Self {
        Self {
            id,
            webhook_id: id.webhook_id,
            webhook_endpoint_id: id.destination.endpoint(),
            event,
            job_id,
            status: Status::Pending,
            attempts: 0,
            created_at: Timestamp::from_millisecond(id.at.get()),
            next_attempt_at: None,
            last_attempt: None,
            tries: 0,
            trigger: Trigger::Event,
            give_up_at: give_up_at(id.at),
        }
    }

    /// The state after `attempt`, which `step` follows.
    #[must_use]
    pub fn after(&self, attempt: Attempt, step: Step, now: Timestamp) -> Self {
        let (status, next_attempt_at) = match step {
            Step::Done => (Status::Delivered, None),
            Step::RetryAfter(delay) => (Status::Pending, Some(now.after(delay))),
            Step::Dead(_) => (Status::Failed, None),
        };
        Self {
            status,
            next_attempt_at,
            attempts: self.attempts.saturating_add(1),
            tries: self.tries.saturating_add(1),
            trigger: Trigger::Schedule,
            last_attempt: Some(attempt),
            ..self.clone()
        }
    }

    /// The state if the attempt that is due has to wait until `due`.
    #[must_use]
    pub fn postponed(&self, due: Timestamp) -> Self {
        Self { next_attempt_at: Some(due), ..self.clone() }
    }

    /// The state once it has waited for too long for its next attempt, because its receiver does not answer.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> Self {
        let unanswered = || Attempt {
            at: now,
            outcome: "unanswered".into(),
            status_code: None,
            duration_ms: 0,
            response: None,
            trigger: self.trigger,
        };
        let last_attempt = Some(self.last_attempt.clone().unwrap_or_else(unanswered));
        Self { status: Status::Failed, next_attempt_at: None, last_attempt, ..self.clone() }
    }

    /// The state once the endpoint has been deleted or made inactive.
    #[must_use]
    pub fn ended(&self) -> Self {
        Self { status: Status::Ended, next_attempt_at: None, ..self.clone() }
    }
}

/// When to give up a delivery whose time starts at `start`.
fn give_up_at(start: Millis) -> Millis {
    Millis::new(start.get().saturating_add(i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::outcome::{Failure, Outcome};
    use std::time::Duration;

    fn first() -> Delivery {
        let message = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","result":1.10}"#;
        let destination = Destination::Callback {
            url: EndpointUrl::parse("https://example.com/hook").expect("a URL"),
            secret: SigningSecret::parse("canary").expect("a secret"),
        };
        let at = Timestamp::from_second(1_000_000).expect("a time");
        Delivery::first(&JobEvent::parse(message).expect("a job event"), at, destination, 8)
    }

    #[test]
    fn a_delivery_is_printed_without_its_secret() {
        assert!(!format!("{:?}", first()).contains("canary"));
    }

    #[test]
    fn each_attempt_moves_a_delivery_on() {
        let (entry, now) = (first().entry, Timestamp::from_second(1_000_007).expect("a time"));
        let failure = Failure::Status(500, None);
        let attempt = |outcome| Attempt::new(now, 12, outcome, None, Trigger::Event);
        let waiting = entry.after(attempt(Outcome::Failed(failure)), Step::RetryAfter(Duration::from_secs(5)), now);
        assert_eq!((waiting.status, waiting.attempts, waiting.tries), (Status::Pending, 1, 1));
        assert_eq!(waiting.next_attempt_at.map(Timestamp::as_second), Some(1_000_012));
        let failed = waiting.after(attempt(Outcome::Failed(failure)), Step::Dead(failure), now);
        assert_eq!((failed.status, failed.attempts, failed.next_attempt_at), (Status::Failed, 2, None));
        let delivered = waiting.after(attempt(Outcome::Delivered(204)), Step::Done, now);
        assert_eq!((delivered.status, delivered.attempts), (Status::Delivered, 2));
        assert_eq!(entry.give_up_at.get(), 1_000_000_000 + 3 * 24 * 60 * 60 * 1000);
    }
}
