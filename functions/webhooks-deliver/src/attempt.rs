//! Makes attempts: at once at receivers whose gate is open, and for drains. An attempt that has begun runs until its
//! answer or its timeout.
//!
//! After a second without an answer, an attempt's delivery is written to the log and its receiver's gate closes, while
//! the attempt goes on. A second of the process's own time: its lack of CPU is not the receiver's delay.

use std::{pin::pin, time::Duration};

use common::{
    own_time,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Failure, Outcome, Trigger},
        destination::RequestTarget,
        endpoints::{Evidence, Gate, SECOND},
        post::{Client, Content, NoDescriptor, Post, PostResult},
    },
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{batch::Batch, due_deliveries::DueDelivery, permits::Permits};

/// Makes a process's attempts.
pub(crate) struct Sender {
    pub(crate) client: Client,
    /// The permits of attempts that are made at once, and of those that drains make.
    pub(crate) at_once: Permits,
    pub(crate) drained: Permits,
}

/// An attempt that has ended.
pub(crate) struct AttemptReport {
    pub(crate) evidence: Evidence,
    pub(crate) outcome: Outcome,
    pub(crate) began: Timestamp,
    /// Receives whether the result has been stored.
    pub(crate) stored: oneshot::Receiver<bool>,
}

impl Sender {
    /// Makes an attempt if its receiver's gate is open and there is a permit. Otherwise, parks it.
    pub(crate) async fn send(&self, due: DueDelivery, batch: &Batch) {
        if let Some(missed) = due.missed() {
            return batch.finish(due.ended(missed));
        }
        // A message for a parked attempt is a repeated one: the attempt is left to the drain.
        let may_begin = due.gate.is_open() && !due.delivery.is_parked;
        let permit =
            if may_begin { self.at_once.take(&due.tenant, due.recipient(), batch.last_start).await } else { None };
        if permit.is_none() {
            return batch.finish(due.ended(AttemptResult::Parked));
        }
        // Boxed, because the future takes thousands of bytes, which parked attempts would reserve.
        if let Err(due) = Box::pin(self.attempt(due, batch)).await {
            batch.finish(due.ended(AttemptResult::Parked));
        }
    }

    /// Makes an attempt and passes its result on to the ledger. Returns `due` if the process has no file descriptor.
    pub(crate) async fn attempt(&self, mut due: DueDelivery, batch: &Batch) -> Result<AttemptReport, DueDelivery> {
        let Posting { began, took, posted, is_quick, is_stored } = loop {
            match self.post(&due, batch).await {
                Some(posting) => break posting,
                None if Instant::now() + SECOND < batch.last_start => sleep(SECOND).await,
                None => return Err(due),
            }
        };
        due.is_stored = is_stored;
        let PostResult { outcome, response, detail } = posted;
        let duration_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let made = Attempt { detail, ..Attempt::new(began, duration_ms, outcome, response, due.delivery.trigger) };
        batch.tally.attempt(&due, &made, outcome, took);
        let evidence = match evidence(outcome, is_quick) {
            Evidence::Quick | Evidence::Late if is_asked(&due) => Evidence::Asked,
            evidence => evidence,
        };
        let (sender, stored) = oneshot::channel();
        batch.finish(due.ended(AttemptResult::Made(made, outcome)).with_evidence(evidence, began).stored_to(sender));
        Ok(AttemptReport { evidence, outcome, began, stored })
    }

    /// Posts, and waits for the answer. Returns `None` if the post could not be made.
    async fn post(&self, due: &DueDelivery, batch: &Batch) -> Option<Posting> {
        let (began, started) = (Timestamp::now(), Instant::now());
        let RequestTarget { url, keys, headers } = due.target()?;
        let content = Content::of(&due.delivery, &due.payload, due.form(), keys, headers);
        let post = Post { tenant: &due.tenant, url, content };
        let mut posting = pin!(self.client.post(post, began));
        let (posted, is_quick, is_stored) = match own_time::within(SECOND, &mut posting).await {
            Some(posted) => (posted, true, due.is_stored),
            None => {
                let (posted, is_stored) = tokio::join!(posting, store_in_progress(due, began, batch));
                (posted, false, is_stored)
            }
        };
        match posted {
            Ok(posted) => Some(Posting { began, took: started.elapsed(), posted, is_quick, is_stored }),
            Err(NoDescriptor) => {
                common::log!("descriptors.exhausted", tenant = %due.tenant, delivery_id = %due.delivery.id);
                None
            }
        }
    }
}

/// A post that has ended.
struct Posting {
    began: Timestamp,
    took: Duration,
    posted: PostResult,
    /// Whether it ended within a second.
    is_quick: bool,
    /// Whether the log contains the delivery.
    is_stored: bool,
}

/// Writes a delivery to the log and closes its receiver's gate, because the attempt has lasted a second. Returns whether
/// the log contains the delivery.
async fn store_in_progress(due: &DueDelivery, began: Timestamp, batch: &Batch) -> bool {
    if due.is_stored && !due.gate.is_open() {
        return true;
    }
    let (sender, stored) = oneshot::channel();
    let ended = due.copy().ended(AttemptResult::InProgress).with_evidence(Evidence::Waits, began);
    batch.finish(ended.stored_to(sender));
    stored.await.unwrap_or(false) || due.is_stored
}

/// Whether the attempt was requested although the receiver is silent.
fn is_asked(due: &DueDelivery) -> bool {
    matches!((due.gate, due.delivery.trigger), (Gate::Silent { .. }, Trigger::Test | Trigger::Resend))
}

/// The evidence of an attempt with this outcome.
fn evidence(outcome: Outcome, is_quick: bool) -> Evidence {
    match outcome {
        // The timeout may be a second.
        _ if is_quick && !matches!(outcome, Outcome::Failed(Failure::Timeout)) => Evidence::Quick,
        Outcome::Failed(Failure::Timeout | Failure::Connect | Failure::Dns) => Evidence::Nothing,
        // A receiver that closes the connection is not silent.
        Outcome::Delivered(_)
        | Outcome::Failed(Failure::Status(..) | Failure::Blocked | Failure::Tls | Failure::Protocol) => Evidence::Late,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_any_response() {
        let status = |code| Outcome::Failed(Failure::Status(code, None));
        for (outcome, is_quick, expected) in [
            (Outcome::Failed(Failure::Connect), true, Evidence::Quick),
            (Outcome::Delivered(204), true, Evidence::Quick),
            (Outcome::Delivered(204), false, Evidence::Late),
            (status(500), false, Evidence::Late),
            (Outcome::Failed(Failure::Timeout), false, Evidence::Nothing),
            (Outcome::Failed(Failure::Timeout), true, Evidence::Nothing),
            (Outcome::Failed(Failure::Dns), false, Evidence::Nothing),
            (Outcome::Failed(Failure::Protocol), false, Evidence::Late),
        ] {
            assert_eq!(evidence(outcome, is_quick), expected, "{outcome:?}");
        }
    }
}
