//! Resends a delivery by making it pending again.

use std::ops::ControlFlow::{Break, Continue};

use super::{
    items::{ATTEMPTS, ERASED_AT, EXPIRES_AT, STATUS},
    payload,
    states::{CHANGED_WITH_STATE, PASSING, standing},
    table::{Log, NOT_FOUND, Row, state_key},
};
use crate::{
    aws::{
        dynamo::{number, text},
        rounds,
        transaction::{Marker, Transaction},
    },
    error::{Conflict, Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, DeliveryId, Queue, Status, Trigger},
};

impl Log {
    /// Makes a delivery of any status pending again, with a new schedule that begins now. Returns its new state. Adds a
    /// due row; the caller sends the message.
    ///
    /// # Errors
    /// There is no such delivery, its payload was not kept, or the marker already exists.
    pub async fn resend(
        &self,
        tenant: &TenantId,
        id: &DeliveryId,
        once: Option<&Marker>,
        now: Timestamp,
    ) -> Result<Delivery> {
        self.resend_if(tenant, id, (Trigger::Resend, now), once, |_| true, now).await
    }

    /// Like [`Self::resend`], but the first attempt is at `due`, and a delivery whose current state is not wanted
    /// counts as not found.
    pub(super) async fn resend_if(
        &self,
        tenant: &TenantId,
        id: &DeliveryId,
        (trigger, due): (Trigger, Timestamp),
        once: Option<&Marker>,
        is_wanted: impl Fn(&Delivery) -> bool,
        now: Timestamp,
    ) -> Result<Delivery> {
        let is_wanted = &is_wanted;
        rounds((), |()| async move {
            let (before, payload) = self.visible(tenant, id, now).await?;
            let is_done = before.next_attempt_at == Some(due) && before.trigger == trigger && before.tries == 0;
            if is_done && once.is_none() {
                // An earlier try made this write, but its response was lost.
                return Ok(Break(before));
            }
            if !is_wanted(&before) {
                return Err(NOT_FOUND);
            }
            let payload = payload.ok_or(Error::Conflict(Conflict::PayloadNotKept))?;
            // A large payload is moved out of the state, because it would make each update expensive.
            let may_be_in_state = matches!(before.status, Status::Delivered | Status::Held) && before.pull.is_none();
            let is_moved = may_be_in_state && payload.body.len() > CHANGED_WITH_STATE;
            let moved = is_moved.then(|| self.payload_row(tenant, id, &payload, now));
            let after = before.clone().reopened(trigger, due, now);
            self.put_all([self.due_row(tenant, &after, Queue::Shared, now)]).await?;
            let is_reopened = self.reopen(tenant, &before, (&after, moved), once, now).await?;
            Ok(if is_reopened { Break(after) } else { Continue(()) })
        })
        .await
    }

    /// Makes a delivery pending again, unless an attempt, another resend or an erasure came first. One transaction
    /// moves the payload out of the state. If the payload were written to its own item earlier, it could survive an
    /// erasure.
    async fn reopen(
        &self,
        tenant: &TenantId,
        before: &Delivery,
        (after, moved): (&Delivery, Option<Row>),
        once: Option<&Marker>,
        now: Timestamp,
    ) -> Result<bool> {
        let update = self
            .update(state_key(tenant, &after.id))
            .replace(&PASSING, standing(tenant, after))
            .set(EXPIRES_AT, self.expiry(now))
            .remove(payload::ATTRIBUTES.into_iter().filter(|_| moved.is_some()))
            .only_if(ATTEMPTS.equals(number(before.attempts.into())))
            .only_if(STATUS.equals(text(before.status)))
            .only_if(ERASED_AT.is_absent());
        if once.is_some() || moved.is_some() {
            let transaction = Transaction::new("resending a delivery").update(update);
            let transaction = moved.into_iter().fold(transaction, |all, Row(item)| all.put(&self.table, item));
            let transaction = transaction.once(once);
            return match transaction.first_refused(&self.dynamodb).await? {
                None => Ok(true),
                Some(0) => Ok(false),
                Some(_) => Err(Error::Busy),
            };
        }
        update.send(&self.dynamodb, "resending a delivery").await
    }
}
