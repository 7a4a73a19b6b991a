//! The state of a delivery, and all of its changes.

use std::time::Duration;

use api::deliveries::{Status, Trigger};

use super::{
    attempt::{Attempt, have_room},
    id::{DeliveryId, DestinationId, Millis, WebhookId},
    outcome::{MAX_AGE, NextStep, Outcome, next_step},
    payload::Destination,
    pull::{Claim, Lease, Pull},
};
use crate::{
    id::{EndpointId, LeaseId, TenantId},
    issue::Problem,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::event::{EventName, JobEvent, TEST_JOB, named_in},
};

/// A delivery in the delivery log.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub id: DeliveryId,
    /// The value of the `webhook-id` header, which lets receivers detect duplicates.
    pub webhook_id: WebhookId,
    /// The endpoint's id; `None` for a job's callback.
    pub webhook_endpoint_id: Option<EndpointId>,
    pub event: EventName,
    /// The first 1,024 bytes of the id of the event's job.
    pub job_id: String,
    /// The first 400 bytes of the job's workflow name.
    pub workflow: Option<String>,
    pub status: Status,
    /// The number of attempts so far.
    pub attempts: u32,
    /// When the event entered its queue.
    pub created_at: Timestamp,
    /// When the next attempt is due. Set only while the delivery is pending.
    pub next_attempt_at: Option<Timestamp>,
    /// Whether the next attempt is due and waits for its receiver's drain.
    pub is_parked: bool,
    pub last_attempt: Option<Attempt>,
    /// The attempts before the last one, oldest first. If they do not fit, they are stored in separate log rows.
    pub earlier: Vec<Attempt>,
    /// The number of attempts in the current schedule. A resend starts a new schedule.
    pub tries: u32,
    /// The reason for the next attempt.
    pub trigger: Trigger,
    /// A failed attempt after this time is the last.
    pub fails_at: Timestamp,
    /// The additional state of a delivery to a pull endpoint.
    pub pull: Option<Pull>,
    /// Whether the payload is stored once for all deliveries of the event, instead of with this one.
    pub is_shared: bool,
    /// Whether the payload of a pull delivery is larger than one that is kept after a success.
    pub is_large: bool,
    /// Whether the receiver got the event without its results, so that it may fetch the payload after a success.
    pub is_thin: bool,
    /// When the payload and the responses were erased.
    pub erased_at: Option<Timestamp>,
}

/// The maximum length of a workflow name in the log, in bytes. It is enough for any name in an endpoint's filter.
const WORKFLOW_BYTES: usize = 400;

/// The maximum length of a job's id in the log, in bytes. Producers may send ids of any length.
pub const JOB_ID_BYTES: usize = 1024;

/// Shortens a workflow name to the length that the log stores.
pub(in crate::webhooks) fn kept_workflow(name: &str) -> &str {
    shortened(name, WORKFLOW_BYTES)
}

/// Parses a job's id from a request. The log cannot distinguish longer ids with the same beginning.
pub fn parse_job_id(text: &str) -> Result<String, Vec<Problem>> {
    match Problem::bytes(text.len(), JOB_ID_BYTES) {
        None => Ok(text.to_owned()),
        Some(problem) => Err(vec![problem]),
    }
}

/// Shortens a job's id to the form that the log stores.
pub(in crate::webhooks) fn kept_job_id(job_id: &str) -> &str {
    shortened(job_id, JOB_ID_BYTES)
}

fn shortened(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// The result of an attempt that was due.
#[derive(Debug)]
pub enum AttemptResult {
    Made(Attempt, Outcome),
    /// The attempt has lasted a second, and is still in progress.
    InProgress,
    /// The attempt waits for its receiver's drain.
    Parked,
    /// The endpoint is inactive, so the delivery is held.
    Inactive,
    /// The endpoint is a pull endpoint, so the delivery waits until a client receives it.
    ToBeTaken,
    /// The endpoint has been deleted.
    NoEndpoint,
    /// The delivery has failed, because no attempt could be made in time.
    Expired,
}

impl Delivery {
    /// Whether the fields agree with each other. In debug builds, the log asserts this for every state that it
    /// writes or reads.
    pub(in crate::webhooks) fn is_consistent(&self) -> bool {
        (self.next_attempt_at.is_none() || self.status == Status::Pending)
            && (!self.is_parked || self.next_attempt_at.is_some())
            && self.tries <= self.attempts
    }

    /// Builds a delivery before its first attempt.
    pub fn new(id: DeliveryId, event: EventName, job_id: String) -> Self {
        Self {
            id,
            webhook_id: id.webhook_id,
            webhook_endpoint_id: id.destination.endpoint(),
            event,
            job_id,
            workflow: None,
            status: Status::Pending,
            attempts: 0,
            created_at: Timestamp::from_millisecond(id.at.get()),
            next_attempt_at: None,
            is_parked: false,
            last_attempt: None,
            earlier: Vec::new(),
            tries: 0,
            trigger: Trigger::Event,
            fails_at: fails_at(Timestamp::from_millisecond(id.at.get())),
            pull: None,
            is_shared: false,
            is_large: false,
            is_thin: false,
            erased_at: None,
        }
    }

    /// Builds the delivery of `event` to `destination`, which has `shards` shards in the log.
    pub fn first(event: &JobEvent, destination: &Destination, shards: u8) -> Self {
        let (destination, address) = match destination {
            Destination::Endpoint(id) => (DestinationId::Endpoint(*id), id.to_string()),
            Destination::Callback { url, .. } => (DestinationId::Callback, url.as_str().to_owned()),
        };
        let webhook_id = WebhookId::of(&event.tenant, &event.job_id, event.name.as_str(), &address);
        let at = Millis::new(event.at.as_millisecond());
        let id = DeliveryId { destination, shard: webhook_id.shard(shards), at, webhook_id };
        let workflow = event.workflow.as_deref().map(|name| kept_workflow(name).to_owned());
        Self { workflow, ..Self::new(id, event.name, event.job_id.clone()) }
    }

    /// Builds a test of an endpoint, due `now`. A test is always in the first shard, so its id is known before the
    /// endpoint is read.
    pub fn test(endpoint: EndpointId, now: Timestamp) -> Self {
        let (at, webhook_id) = (Millis::new(now.as_millisecond()), WebhookId::unique());
        let id = DeliveryId { destination: DestinationId::Endpoint(endpoint), shard: 0, at, webhook_id };
        let test = Self::new(id, EventName::Test, TEST_JOB.to_owned());
        Self { next_attempt_at: Some(now), trigger: Trigger::Test, ..test }
    }

    /// The event sent to the receiver. A test may send a sample of another event, but the log shows the delivery as a
    /// test.
    pub fn event_in(&self, body: &[u8]) -> EventName {
        match self.event {
            EventName::Test => named_in(body).unwrap_or(EventName::Test),
            event => event,
        }
    }

    /// Returns the state after `result`. `schedule` lists the delays between attempts (a test has only one attempt);
    /// `jitter` returns a number in `0.0..1.0`.
    pub fn after(
        &self,
        result: &AttemptResult,
        schedule: &[Duration],
        jitter: impl FnOnce() -> f64,
        now: Timestamp,
    ) -> Self {
        match result {
            AttemptResult::Made(attempt, outcome) => {
                let left = self.fails_at.since(now);
                let schedule = if self.event == EventName::Test { &[] } else { schedule };
                let step = next_step(*outcome, self.tries.saturating_add(1), schedule, left, jitter);
                self.attempted(attempt.clone(), step, now)
            }
            AttemptResult::InProgress | AttemptResult::Parked => Self {
                next_attempt_at: Some(self.next_attempt_at.unwrap_or(now)),
                is_parked: matches!(result, AttemptResult::Parked),
                ..self.clone()
            },
            AttemptResult::Inactive => Self { status: Status::Held, ..self.no_longer_due() },
            AttemptResult::ToBeTaken => {
                let pull = Some(Pull { due: Some(self.created_at), lease: None });
                Self { status: Status::Held, pull, ..self.no_longer_due() }
            }
            AttemptResult::NoEndpoint => self.ended(),
            AttemptResult::Expired => self.expired(now),
        }
    }

    /// Returns the state of a delivery that is neither sent nor received any more.
    #[must_use]
    pub fn ended(&self) -> Self {
        Self { status: Status::Ended, pull: self.no_longer_taken(), ..self.no_longer_due() }
    }

    fn no_longer_due(&self) -> Self {
        Self { next_attempt_at: None, is_parked: false, ..self.clone() }
    }

    fn attempted(&self, attempt: Attempt, step: NextStep, now: Timestamp) -> Self {
        let (status, next_attempt_at) = match step {
            NextStep::Delivered => (Status::Delivered, None),
            NextStep::RetryAfter(delay) => (Status::Pending, Some(now.after(delay))),
            NextStep::Failed => (Status::Failed, None),
        };
        Self {
            status,
            next_attempt_at,
            attempts: self.attempts.saturating_add(1),
            tries: self.tries.saturating_add(1),
            trigger: Trigger::Schedule,
            last_attempt: Some(attempt),
            earlier: self.earlier_then(),
            pull: self.pull.as_ref().map(|pull| pull.settled(next_attempt_at)),
            ..self.no_longer_due()
        }
    }

    /// The attempts that stay in the state after another attempt, or none if they do not fit. The state of a pull
    /// delivery never contains earlier attempts, because its item already contains the payload.
    fn earlier_then(&self) -> Vec<Attempt> {
        let attempts: Vec<_> = self.attempts_so_far().cloned().collect();
        if self.pull.is_none() && have_room(&attempts, self.workflow.as_ref().map_or(0, String::len)) {
            attempts
        } else {
            Vec::new()
        }
    }

    /// The attempts that are stored in the state, oldest first.
    pub fn attempts_so_far(&self) -> impl Iterator<Item = &Attempt> {
        self.earlier.iter().chain(&self.last_attempt)
    }

    /// Returns the state of a delivery that has waited too long, because its receiver did not respond or no client
    /// received it.
    fn expired(&self, now: Timestamp) -> Self {
        let unanswered = || Attempt {
            at: now,
            outcome: if self.pull.is_some() { "untaken" } else { "unanswered" }.into(),
            status_code: None,
            detail: None,
            duration_ms: 0,
            response: None,
            trigger: self.trigger,
        };
        let last_attempt = Some(self.last_attempt.clone().unwrap_or_else(unanswered));
        Self { status: Status::Failed, last_attempt, pull: self.no_longer_taken(), ..self.no_longer_due() }
    }

    /// The pull state of a delivery that has no lease and can no longer be received.
    fn no_longer_taken(&self) -> Option<Pull> {
        self.pull.as_ref().map(|_| Pull::default())
    }

    /// Makes the delivery pending again, with a new schedule whose first attempt is due at `due`.
    pub(in crate::webhooks) fn reopened(self, trigger: Trigger, due: Timestamp, now: Timestamp) -> Self {
        Self {
            status: Status::Pending,
            next_attempt_at: Some(due),
            is_parked: false,
            tries: 0,
            trigger,
            fails_at: fails_at(now),
            // The lease ends, because the delivery is resent now.
            pull: self.pull.map(|_| Pull { due: Some(due), lease: None }),
            ..self
        }
    }

    /// Whether the lease `id` can be settled at `now`.
    pub fn claim(&self, id: LeaseId, now: Timestamp) -> Claim {
        match self.pull.as_ref().and_then(|pull| pull.lease).filter(|lease| lease.id == id) {
            Some(Lease { ends: None, .. }) => Claim::Settled,
            Some(Lease { ends: Some(ends), .. }) if now < ends => Claim::Valid,
            Some(_) | None => Claim::Over,
        }
    }

    /// Returns the state after the lease is released. The delivery can be received again immediately.
    pub fn released(&self, now: Timestamp) -> Self {
        let next_attempt_at = self.next_attempt_at.map(|_| now);
        Self { next_attempt_at, pull: self.pull.as_ref().map(|pull| pull.settled(Some(now))), ..self.clone() }
    }

    /// When the delivery must be woken: at its next attempt or, for a pull delivery, at the end of the period in which
    /// it can be received. `None` if it is not waiting for either.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let Some(pull) = &self.pull else { return self.next_attempt_at };
        let fails_at = pull.due.map(|_| self.fails_at)?;
        // The holder of the lease may still settle the delivery.
        Some(pull.lease.and_then(|lease| lease.ends).map_or(fails_at, |ends| ends.max(fails_at)))
    }

    /// Whether the delivery can still be sent or received, and therefore needs its payload.
    pub fn needs_payload(&self) -> bool {
        self.status == Status::Pending || self.pull.as_ref().is_some_and(|pull| pull.due.is_some())
    }

    /// Logs and counts a delivery that has failed permanently. A failed test is not counted, because it concerns only its
    /// tenant and must not raise an alarm.
    pub(in crate::webhooks) fn report_failed(&self, tenant: &TenantId) {
        let reason = self.last_attempt.as_ref().map_or("", |attempt| &attempt.outcome);
        crate::log!("delivery.failed", %tenant, delivery_id = %self.id, attempts = self.attempts, reason);
        if self.event != EventName::Test {
            metrics::emit(&[Metric::count("DeliveryFailed", 1)], &[("Reason", reason)]);
        }
    }

    /// Whether the delivery waits at a pull endpoint, and no client has a lease of it.
    pub fn waits_for_client(&self, now: Timestamp) -> bool {
        self.pull.as_ref().is_some_and(|pull| {
            pull.due.is_some() && pull.lease.and_then(|lease| lease.ends).is_none_or(|ends| ends <= now)
        })
    }

    /// Whether the delivery can be erased: it is not about to be sent, and no client is processing it.
    pub fn can_be_erased(&self, now: Timestamp) -> bool {
        !self.needs_payload() || self.waits_for_client(now)
    }

    /// Erases the receiver's text. The log erases the payload with it.
    #[must_use]
    pub fn erased(self, now: Timestamp) -> Self {
        let earlier = self.earlier.into_iter().map(Attempt::bare).collect();
        Self { erased_at: Some(now), last_attempt: self.last_attempt.map(Attempt::bare), earlier, ..self }
    }

    /// Whether the delivery failed at this attempt.
    pub fn failed_with(&self, attempt: u32) -> bool {
        // If the attempt was made, its number equals the number of attempts. If the delivery expired first, its number
        // is one higher.
        let is_it = (self.attempts..=self.attempts.saturating_add(1)).contains(&attempt);
        self.status == Status::Failed && (is_it || self.pull.is_some())
    }
}

/// When a delivery that started at `start` fails, in whole milliseconds, as stored in the log.
fn fails_at(start: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(start.after(MAX_AGE).as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::{
        delivery::Failure,
        destination::{EndpointUrl, SigningSecret},
    };

    const SCHEDULE: [Duration; 1] = [Duration::from_secs(5)];

    fn first() -> Delivery {
        let message = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","result":1.10}"#;
        let destination = Destination::Callback {
            url: EndpointUrl::parse("https://example.com/hook").expect("a URL"),
            secret: SigningSecret::parse("canary").expect("a secret"),
        };
        let at = Timestamp::from_second(1_000_000).expect("a time");
        Delivery::first(&JobEvent::parse(message, at).expect("a job event"), &destination, 8)
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_007).expect("a time")
    }

    fn after(before: &Delivery, result: &AttemptResult) -> Delivery {
        before.after(result, &SCHEDULE, || 0.0, now())
    }

    /// A failed attempt with a response of this many bytes.
    fn answered(bytes: usize) -> AttemptResult {
        let outcome = Outcome::Failed(Failure::Status(500, None));
        AttemptResult::Made(Attempt::new(now(), 12, outcome, Some("x".repeat(bytes)), Trigger::Event), outcome)
    }

    fn made(outcome: Outcome) -> AttemptResult {
        AttemptResult::Made(Attempt::new(now(), 12, outcome, None, Trigger::Event), outcome)
    }

    #[test]
    fn each_attempt_moves_a_delivery_on() {
        let (first, failure) = (first(), made(Outcome::Failed(Failure::Status(500, None))));
        assert_eq!(first.fails_at.as_millisecond(), 1_000_000_000 + 3 * 24 * 60 * 60 * 1000);
        let waiting = after(&first, &failure);
        assert_eq!((waiting.status, waiting.attempts, waiting.tries), (Status::Pending, 1, 1));
        assert_eq!(waiting.next_attempt_at.map(Timestamp::as_second), Some(1_000_012));
        let failed = after(&waiting, &failure);
        assert_eq!((failed.status, failed.attempts, failed.next_attempt_at), (Status::Failed, 2, None));
        assert_eq!([1, 2, 3, 4].map(|attempt| failed.failed_with(attempt)), [false, true, true, false]);
        let delivered = after(&waiting, &made(Outcome::Delivered(204)));
        assert_eq!((delivered.status, delivered.attempts), (Status::Delivered, 2));
        let reopened = failed.reopened(Trigger::Resend, now(), now());
        assert_eq!((reopened.status, reopened.attempts, reopened.tries), (Status::Pending, 2, 0));
    }

    #[test]
    fn earlier_attempts_stay_in_the_state_as_long_as_there_is_room() {
        let numbers = |responses: &[usize]| {
            let mut delivery = first();
            responses.iter().for_each(|bytes| delivery = after(&delivery, &answered(*bytes)));
            (delivery.attempts, delivery.attempts_so_far().count())
        };
        assert_eq!([numbers(&[0; 9]), numbers(&[0; 10])], [(9, 9), (10, 1)], "all but the last attempt of a schedule");
        assert_eq!(numbers(&[0; 20]).0, 20);
        assert!(numbers(&[0; 20]).1 <= 10);
        assert_eq!(
            [numbers(&[1024, 0]), numbers(&[1024, 0, 0])],
            [(2, 1), (3, 2)],
            "a long response is dropped at \
                                                                                     once"
        );
        assert_eq!(numbers(&[0, 1024]), (2, 2), "the last attempt keeps its response");
        let pull = Delivery { pull: Some(Pull::default()), ..first() };
        assert_eq!(after(&after(&pull, &answered(0)), &answered(0)).attempts_so_far().count(), 1);
    }

    #[test]
    fn a_pull_delivery_waits_until_its_deadline() {
        let waiting = after(&first(), &AttemptResult::ToBeTaken);
        let due = |delivery: &Delivery| delivery.pull.as_ref().and_then(|pull| pull.due);
        assert_eq!((waiting.status, waiting.next_attempt_at), (Status::Held, None));
        assert_eq!(due(&waiting), Some(waiting.created_at), "the oldest attempt comes first");
        let fails_at = waiting.fails_at;
        assert_eq!(waiting.wakes_at(), Some(fails_at));

        let (id, ends) = (LeaseId::generate(), fails_at.after(Duration::from_secs(1)));
        let pull = Some(Pull { due: Some(ends), lease: Some(Lease { id, ends: Some(ends) }) });
        let leased = Delivery { pull, ..waiting.clone() };
        assert_eq!(leased.wakes_at(), Some(ends), "the holder of the lease may still settle the delivery");
        let claims = [(id, now()), (id, ends), (LeaseId::generate(), now())].map(|(id, now)| leased.claim(id, now));
        assert_eq!(claims, [Claim::Valid, Claim::Over, Claim::Over]);

        let released = leased.released(now());
        assert_eq!((released.status, released.attempts, due(&released)), (Status::Held, 0, Some(now())));
        let failed = after(&leased, &made(Outcome::Failed(Failure::Status(500, None))));
        assert_eq!((failed.status, due(&failed)), (Status::Pending, failed.next_attempt_at));
        let delivered = after(&leased, &made(Outcome::Delivered(204)));
        assert_eq!((delivered.status, due(&delivered), delivered.wakes_at()), (Status::Delivered, None, None));
        for settled in [&released, &failed, &delivered] {
            assert_eq!(settled.claim(id, now()), Claim::Settled);
        }
        let reopened = delivered.reopened(Trigger::Resend, now(), now());
        assert_eq!((due(&reopened), reopened.claim(id, now())), (Some(now()), Claim::Over));
        let expired = after(&waiting, &AttemptResult::Expired);
        assert_eq!((expired.status, due(&expired), expired.failed_with(0)), (Status::Failed, None, true));
        assert_eq!(expired.last_attempt.map(|last| last.outcome).as_deref(), Some("untaken"));
    }

    #[test]
    fn an_attempt_that_was_not_made_does_not_count() {
        let first = first();
        for (result, status) in [
            (AttemptResult::InProgress, Status::Pending),
            (AttemptResult::Parked, Status::Pending),
            (AttemptResult::Inactive, Status::Held),
            (AttemptResult::NoEndpoint, Status::Ended),
            (AttemptResult::Expired, Status::Failed),
        ] {
            let after = after(&first, &result);
            assert_eq!((after.status, after.attempts, after.tries), (status, 0, 0));
            assert_eq!(after.next_attempt_at, (status == Status::Pending).then(now));
            let outcome = after.last_attempt.map(|attempt| attempt.outcome);
            assert_eq!(outcome.as_deref(), (status == Status::Failed).then_some("unanswered"));
        }
    }
}
