//! Decides which writes the ledger makes for each delivery that was due. Does no I/O.

use common::webhooks::{
    delivery::{AttemptResult, Delivery, Outcome},
    log::{CHANGED_WITH_STATE, HELD_WITH_STATE},
};

use crate::due_deliveries::{DueDelivery, EndedAttempt};

/// The writes for one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The delivery succeeded at once: writes one row, with its payload.
    LogSuccess,
    /// The delivery is new and has not succeeded at once: writes its first state.
    Begin {
        /// Whether the payload is part of the state. Otherwise, it has a row of its own or shares one.
        payload_in_state: bool,
        /// Whether to write a due row, which lets the sweep wake the next attempt or replace a lost message.
        due_row: bool,
    },
    /// The log contains the delivery: writes its next state.
    Advance {
        /// The same.
        due_row: bool,
    },
    /// The log contains the delivery, whose attempt is still in progress.
    Nothing,
}

impl Plan {
    /// Returns the plan for a delivery whose new state is `after`. A body of more than `kept` bytes is deleted after
    /// delivery, so it is never part of the state.
    pub(crate) fn of(ended: &EndedAttempt, after: &Delivery, kept: usize) -> Self {
        let EndedAttempt { due: DueDelivery { payload, is_stored, .. }, result, .. } = ended;
        // A parked attempt has another row. If the process of an attempt in progress dies, its record is redelivered, but
        // that may become a dead letter, and a redriven event is a new one.
        let due_row = !matches!(result, AttemptResult::Parked) && after.wakes_at().is_some();
        match (result, is_stored) {
            (AttemptResult::Made(_, Outcome::Delivered(_)), false) => Self::LogSuccess,
            (AttemptResult::InProgress, true) => Self::Nothing,
            (_, true) => Self::Advance { due_row },
            (result, false) => {
                let in_state = match result {
                    AttemptResult::Inactive => HELD_WITH_STATE.min(kept),
                    AttemptResult::InProgress | AttemptResult::Parked | AttemptResult::ToBeTaken => {
                        CHANGED_WITH_STATE.min(kept)
                    }
                    // A failing receiver may get many attempts, and DynamoDB charges each update for the entire state.
                    AttemptResult::Made(..) | AttemptResult::NoEndpoint | AttemptResult::Expired => 0,
                };
                Self::Begin { payload_in_state: payload.body.len() <= in_state, due_row }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use common::{
        timestamp::Timestamp,
        webhooks::{
            delivery::{Attempt, Destination, Failure, Payload, Trigger},
            endpoints::Gate,
            event::EventName,
        },
    };

    use super::*;

    const KEPT_BYTES: usize = 8192;

    fn planned(result: AttemptResult, is_stored: bool, body: usize, kept: usize) -> Plan {
        let now = Timestamp::now();
        let endpoint = "01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id");
        let delivery = Delivery { event: EventName::Failed, ..Delivery::test(endpoint, now) };
        let payload =
            Payload { destination: Destination::Endpoint(endpoint), body: vec![b' '; body].into(), trace: None };
        let after = delivery.after(&result, &[Duration::from_secs(5)], || 0.0, now);
        let tenant = "t".parse().expect("a tenant");
        let gate = Gate::New;
        let due = DueDelivery {
            index: 0,
            tenant,
            delivery,
            payload,
            endpoint: None,
            gate,
            is_stored,
            shared: None,
            parked: None,
            mark: None,
        };
        Plan::of(&due.ended(result), &after, kept)
    }

    #[test]
    fn each_result_has_its_plan() {
        let made =
            |outcome| AttemptResult::Made(Attempt::new(Timestamp::now(), 1, outcome, None, Trigger::Event), outcome);
        let (delivered, failed) = (Outcome::Delivered(200), Outcome::Failed(Failure::Status(500, None)));
        let begin = |payload_in_state, due_row| Plan::Begin { payload_in_state, due_row };
        let advance = |due_row| Plan::Advance { due_row };
        let (small, large, huge) = (CHANGED_WITH_STATE, CHANGED_WITH_STATE + 1, HELD_WITH_STATE + 1);
        for (result, is_stored, body, expected) in [
            (made(delivered), false, huge, Plan::LogSuccess),
            (made(delivered), true, small, advance(false)),
            (made(failed), true, small, advance(true)),
            (made(failed), false, small, begin(false, true)),
            (AttemptResult::InProgress, false, small, begin(true, true)),
            (AttemptResult::InProgress, true, small, Plan::Nothing),
            (AttemptResult::Parked, false, small, begin(true, false)),
            (AttemptResult::Parked, false, large, begin(false, false)),
            (AttemptResult::Parked, true, small, advance(false)),
            (AttemptResult::Inactive, false, HELD_WITH_STATE, begin(true, false)),
            (AttemptResult::Inactive, false, huge, begin(false, false)),
            (AttemptResult::Inactive, true, small, advance(false)),
            (AttemptResult::ToBeTaken, false, large, begin(false, true)),
            (AttemptResult::NoEndpoint, false, small, begin(false, false)),
            (AttemptResult::Expired, true, small, advance(false)),
        ] {
            let shown = format!("{result:?} {is_stored} {body}");
            assert_eq!(planned(result, is_stored, body, KEPT_BYTES), expected, "{shown}");
        }
        let parked = planned(AttemptResult::Parked, false, 100, 99);
        assert_eq!(parked, begin(false, false), "the body can be deleted after delivery");
    }
}
