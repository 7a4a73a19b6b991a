//! Decides which writes the ledger makes for each delivery that was due. Does no I/O.

use std::time::Duration;

use common::webhooks::{
    delivery::{AttemptResult, Delivery, Outcome},
    log::{CHANGED_WITH_STATE, HELD_WITH_STATE},
};

use crate::outgoing::{Due, Ended};

/// The maximum delay of an attempt that is not written to the log. It is well below the ten minutes after which the
/// sweep considers a message lost and sends it again.
const UNNOTED: Duration = Duration::from_secs(5 * 60);

/// The writes for one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The delivery succeeded immediately: writes one row, with its payload.
    LogSuccess,
    /// The delivery is new and has not succeeded immediately: writes its first state.
    Begin {
        /// Whether the payload is part of the state instead of a separate row.
        payload_in_state: bool,
        /// Whether to write a due row, which lets the sweep wake the next attempt or replace a lost message. A
        /// postponed first attempt does not need one, because its record is redelivered until the message has been
        /// sent.
        due_row: bool,
    },
    /// The log contains the delivery: writes its next state, and a due row if another attempt follows.
    Advance,
    /// The attempt is postponed so briefly that only its message is sent again.
    Requeue,
}

impl Plan {
    /// Returns the plan for a delivery whose new state is `after`. A body of more than `kept` bytes is deleted after
    /// delivery, so it is never part of the state.
    pub(crate) fn of(ended: &Ended, after: &Delivery, kept: usize) -> Self {
        let Ended { due: Due { delivery: before, payload, is_stored, .. }, result, .. } = ended;
        match (result, is_stored) {
            (AttemptResult::Made(_, Outcome::Delivered(_)), false) => Self::LogSuccess,
            (AttemptResult::Postponed(until), true)
                if before.next_attempt_at.is_some_and(|at| until.since(at) < UNNOTED) =>
            {
                Self::Requeue
            }
            (_, true) => Self::Advance,
            (result, false) => {
                let in_state = match result {
                    AttemptResult::Inactive => HELD_WITH_STATE.min(kept),
                    AttemptResult::Postponed(_) | AttemptResult::ToBeTaken => CHANGED_WITH_STATE.min(kept),
                    // A failing receiver may get many attempts, and DynamoDB charges each update for the entire state.
                    AttemptResult::Made(..) | AttemptResult::NoEndpoint | AttemptResult::Expired => 0,
                };
                let is_postponed = matches!(result, AttemptResult::Postponed(_));
                Self::Begin {
                    payload_in_state: payload.body.len() <= in_state,
                    due_row: after.wakes_at().is_some() && !is_postponed,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use common::{
        timestamp::Timestamp,
        webhooks::{
            delivery::{Attempt, Destination, Failure, Payload, Queue, Trigger},
            event::EventName,
        },
    };

    use super::*;

    const KEPT: usize = 8192;

    fn planned(result: AttemptResult, is_stored: bool, body: usize, kept: usize) -> Plan {
        let now = Timestamp::now();
        let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        let delivery = Delivery { event: EventName::Failed, ..Delivery::test(endpoint, now) };
        let payload =
            Payload { destination: Destination::Endpoint(endpoint), body: vec![b' '; body].into(), trace: None };
        let after = delivery.after(&result, &[Duration::from_secs(5)], || 0.0, now);
        let tenant = "t".parse().expect("a tenant");
        let due = Due { index: 0, tenant, delivery, payload, endpoint: None, is_stored, mark: None };
        Plan::of(&Ended { due, result, shown: None, queue: Queue::Shared }, &after, kept)
    }

    #[test]
    fn each_result_has_its_plan() {
        let made =
            |outcome| AttemptResult::Made(Attempt::new(Timestamp::now(), 1, outcome, None, Trigger::Event), outcome);
        let (delivered, failed) = (Outcome::Delivered(200), Outcome::Failed(Failure::Status(500, None)));
        let later = |seconds| AttemptResult::Postponed(Timestamp::now().after(Duration::from_secs(seconds)));
        let begin = |payload_in_state, due_row| Plan::Begin { payload_in_state, due_row };
        let (small, large, huge) = (CHANGED_WITH_STATE, CHANGED_WITH_STATE + 1, HELD_WITH_STATE + 1);
        for (result, is_stored, body, expected) in [
            (made(delivered), false, huge, Plan::LogSuccess),
            (made(delivered), true, small, Plan::Advance),
            (made(failed), true, small, Plan::Advance),
            (made(failed), false, small, begin(false, true)),
            (later(0), false, small, begin(true, false)),
            (later(0), false, large, begin(false, false)),
            (later(1), true, small, Plan::Requeue),
            (later(3600), true, small, Plan::Advance),
            (AttemptResult::Inactive, false, HELD_WITH_STATE, begin(true, false)),
            (AttemptResult::Inactive, false, huge, begin(false, false)),
            (AttemptResult::Inactive, true, small, Plan::Advance),
            (AttemptResult::ToBeTaken, false, large, begin(false, true)),
            (AttemptResult::NoEndpoint, false, small, begin(false, false)),
            (AttemptResult::Expired, true, small, Plan::Advance),
        ] {
            let shown = format!("{result:?} {is_stored} {body}");
            assert_eq!(planned(result, is_stored, body, KEPT), expected, "{shown}");
        }
        assert_eq!(planned(later(0), false, 100, 99), begin(false, false), "the body can be deleted after delivery");
    }
}
