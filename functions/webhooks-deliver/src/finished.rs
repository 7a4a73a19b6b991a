//! What an invocation has to store: attempts that have ended, and work that is parked.

use std::{sync::Arc, time::Duration};

use common::{
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Delivery, Outcome, Payload},
        endpoints::Health,
        log::{HELD_WITH_STATE, Row, TAKEN_WITH_STATE},
        queue::Message,
    },
};

use crate::{standing::Shown, under_way::Mark};

/// How much later than the log says an attempt may be: well below the ten minutes after which the sweep takes its message
/// for lost.
const UNNOTED: Duration = Duration::from_secs(5 * 60);

/// What has to be stored.
#[expect(clippy::large_enum_variant, reason = "nearly all are attempts")]
pub(crate) enum Finished {
    Attempt(Ended),
    Parked(Parking),
}

/// An attempt that has ended.
pub(crate) struct Ended {
    /// The number of its record in the batch.
    pub(crate) index: usize,
    pub(crate) tenant: TenantId,
    /// The delivery, as it was before.
    pub(crate) delivery: Delivery,
    pub(crate) payload: Payload,
    /// Whether the log has the delivery already.
    pub(crate) is_stored: bool,
    /// Whether the log has the payload already: that of a delivery whose event was parked.
    pub(crate) is_payload_stored: bool,
    pub(crate) result: AttemptResult,
    /// The health of the endpoint when the attempt began.
    pub(crate) health: Option<Health>,
    /// What the attempt has shown of the receiver, if it was made.
    pub(crate) shown: Option<Shown>,
    /// Whether the receiver is slow.
    pub(crate) is_slow: bool,
    /// Marks the work of a message as under way until the result is stored.
    pub(crate) mark: Option<Arc<Mark>>,
}

/// Work that is parked in the queue for slow receivers.
pub(crate) struct Parking {
    /// The number of its record in the batch.
    pub(crate) index: usize,
    /// An event that is parked, unless it is stored already.
    pub(crate) row: Option<Row>,
    /// The message that brings the work back.
    pub(crate) message: Message,
    /// When it comes back.
    pub(crate) until: Timestamp,
}

impl From<Ended> for Finished {
    fn from(ended: Ended) -> Self {
        Self::Attempt(ended)
    }
}

impl From<Parking> for Finished {
    fn from(parking: Parking) -> Self {
        Self::Parked(parking)
    }
}

impl Ended {
    /// Whether the delivery succeeded at once: then the log gets a single row.
    pub(crate) fn is_done_at_once(&self) -> bool {
        !self.is_stored && matches!(self.result, AttemptResult::Made(_, Outcome::Delivered(_)))
    }

    /// Whether the delivery is held at once, and its payload is small: then the log gets a single row. What is to be taken
    /// changes soon, and each change pays for the whole row.
    pub(crate) fn is_held_in_one_row(&self) -> bool {
        let most = match self.result {
            AttemptResult::Inactive => HELD_WITH_STATE,
            AttemptResult::ToBeTaken => TAKEN_WITH_STATE,
            _ => return false,
        };
        !self.is_stored && self.payload.body.len() <= most
    }

    /// Whether the attempt is put off for so short a time that the log need not know: a message is enough.
    pub(crate) fn is_message_enough(&self) -> bool {
        let was_due = self.delivery.next_attempt_at;
        match self.result {
            AttemptResult::Postponed(until) => self.is_stored && was_due.is_some_and(|due| until.since(due) < UNNOTED),
            AttemptResult::Made(..)
            | AttemptResult::Inactive
            | AttemptResult::ToBeTaken
            | AttemptResult::NoEndpoint
            | AttemptResult::Expired => false,
        }
    }
}
