//! Rests: breaks for an organization whose due attempts fill a queue's batches.
//!
//! The invocations for slow receivers are shared, and a process on Lambda cannot see how many of them an organization
//! occupies. An organization with at least half of a batch is a **crowd**. While due attempts wait for an invocation, a
//! process that has made a crowd's attempts returns that organization's next crowds to the queue, for a fraction of the
//! time that those attempts took. Returning a batch takes milliseconds, so records queued behind thousands from a crowd
//! get their turn. The crowd loses little, because it has the invocations to itself again afterward.

use std::{collections::BTreeMap, time::Duration};

use aws_lambda_events::sqs::SqsMessage;
use common::{id::TenantId, timestamp::Timestamp, webhooks::queue::tenant_of};

use crate::record::BACKLOG;

/// An organization with this many records in a batch is a crowd. A batch contains up to ten records.
const CROWD: usize = 5;
/// Shorter attempts do not cause a rest, because they occupy an invocation only for a moment.
const SHORT: Duration = Duration::from_millis(100);
/// A rest takes an attempt's duration divided by this number.
const PART: u32 = 4;

/// The organization with the most records in a batch, if it is a crowd.
pub(crate) fn crowd(records: &[SqsMessage]) -> Option<TenantId> {
    let tenants = records.iter().filter_map(|record| tenant_of(record.body.as_deref()?));
    let mut counts = BTreeMap::<_, usize>::new();
    tenants.for_each(|tenant| *counts.entry(tenant).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count >= CROWD).map(|(tenant, _)| tenant)
}

/// The end of an organization's rest in this process.
#[derive(Default)]
pub(crate) struct Rest(Option<Timestamp>);

impl Rest {
    /// Lets a crowd rest after an attempt that took from `began` to `now`.
    pub(crate) fn begin(&mut self, began: Timestamp, now: Timestamp) {
        let took = now.since(began);
        if took >= SHORT {
            self.0 = self.0.max(Some(now.after(took / PART)));
        }
    }

    /// Whether a crowd's attempt, which has been due since `due`, has to yield.
    pub(crate) fn holds(&self, due: Timestamp, now: Timestamp) -> bool {
        now.since(due) > BACKLOG && self.0 > Some(now)
    }
}

#[cfg(test)]
mod tests {
    use common::webhooks::delivery::Delivery;

    use super::*;

    fn record(tenant: &str) -> SqsMessage {
        let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        let id = Delivery::test(endpoint, Timestamp::now()).id;
        let mut record = SqsMessage::default();
        record.body = Some(format!(r#"{{"tenant_id": "{tenant}", "delivery_id": "{id}", "attempt": 1}}"#));
        record
    }

    #[test]
    fn a_crowd_has_at_least_half_of_a_batch() {
        let batch = |of_a: usize, of_b: usize| {
            let records: Vec<_> =
                (0..of_a).map(|_| record("a")).chain((0..of_b).map(|_| record("b"))).chain([record("c")]).collect();
            crowd(&records).map(|tenant| tenant.as_str().to_owned())
        };
        assert_eq!(batch(4, 4), None);
        assert_eq!(batch(5, 4).as_deref(), Some("a"));
        assert_eq!(batch(0, 9).as_deref(), Some("b"));
    }

    #[test]
    fn job_events_have_a_crowd_and_malformed_ones_do_not_count() {
        let of = |body: &str| {
            let mut record = SqsMessage::default();
            record.body = Some(body.to_owned());
            record
        };
        let event = r#"{"event": "job.completed", "tenant_id": "a", "job_id": "j", "data": {"tenant_id": "b"}}"#;
        let mut records = vec![of(event); CROWD];
        assert_eq!(crowd(&records).expect("a crowd").as_str(), "a");
        records[0] = of("[");
        assert_eq!(crowd(&records), None);
        assert_eq!(crowd(&vec![of(r#"{"tenant_id": 1}"#); CROWD]), None);
    }

    #[test]
    fn a_crowd_rests_for_a_quarter_of_its_time_while_others_wait() {
        let (mut rest, began) = (Rest::default(), Timestamp::from_second(1000).expect("a time"));
        let now = began.after(Duration::from_secs(1));
        assert!(!rest.holds(began, now), "it has not been served");
        rest.begin(began, began.after(SHORT / 2));
        assert!(!rest.holds(began, began.after(SHORT / 2)), "a short attempt");
        rest.begin(began, now);
        let holds_after = |ms, waited| {
            let now = now.after(Duration::from_millis(ms));
            rest.holds(now.before(waited), now)
        };
        assert_eq!([0, 249, 250].map(|ms| holds_after(ms, BACKLOG * 2)), [true, true, false]);
        assert!(!holds_after(0, BACKLOG), "no attempt waits for an invocation");
    }
}
