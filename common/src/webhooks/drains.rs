//! Schedules the drains of organizations: at most one message for each of an organization's two drains.
//!
//! Each message has a row in its minute, so the sweep replaces a message that was lost. The row is written before the
//! drain's item expects the message: a process may die before it has sent it.

use std::ops::ControlFlow::{Break, Continue};

use super::{
    delivery::{Drain, Receiver},
    endpoints::{Draining, Endpoints},
    log::{DeliveryLog, due_rows::DrainRow},
    queue::{DrainMessage, Queues},
};
use crate::{aws::retry_conflicts, error::Result, id::TenantId, timestamp::Timestamp};

/// The tables and queues of drains. Cloning is cheap.
#[derive(Clone)]
pub struct Drains {
    pub endpoints: Endpoints,
    pub log: DeliveryLog,
    pub queues: Queues,
}

impl Drains {
    /// Makes sure that a drain begins at `at` or earlier, and looks for the attempts that have been parked before this
    /// call. If an earlier process may have scheduled the drain and died before it sent the message, `is_repeated` makes
    /// this call send another one.
    pub async fn ensure(&self, tenant: &TenantId, drain: Drain, at: Timestamp, is_repeated: bool) -> Result<()> {
        retry_conflicts((), |()| async move {
            let seen = self.endpoints.draining(tenant, drain).await?;
            // Read later than the time that a concurrent call may have written. A message that is expected in the past
            // would be considered lost.
            let now = Timestamp::now();
            let at = at.max(now);
            if seen.runs(now) || (seen.begins_by(at, now) && !is_repeated) {
                return Ok(Break(()));
            }
            let message = DrainMessage { tenant: tenant.clone(), drain, at, after: None };
            self.put_row(&message, at, now).await?;
            if !self.endpoints.schedule_drain(tenant, drain, &seen, at).await? {
                return Ok(Continue(()));
            }
            self.queues.send_drain(message, at, now).await.map(Break)
        })
        .await
    }

    /// Continues the drain of `message`, which holds `lock`, at `at` and after the receiver `last`.
    pub async fn continue_drain(
        &self,
        message: &DrainMessage,
        last: Option<Receiver>,
        lock: &Draining,
        at: Timestamp,
    ) -> Result<()> {
        let now = Timestamp::now();
        let at = at.max(now);
        let next = DrainMessage { at, after: last, ..message.clone() };
        self.put_row(&next, at, now).await?;
        if !self.endpoints.schedule_drain(&message.tenant, message.drain, lock, at).await? {
            // Another process has taken over, because this one took too long.
            return Ok(());
        }
        self.queues.send_drain(next, at, now).await
    }

    /// Sends on a message that began no round, to the time when its round is due or the lock of the round that runs
    /// expires: the message may be early by this process's clock, or the process that runs its round may have died. A
    /// message for another time is dropped, because the process that has rescheduled the drain sent another one.
    pub async fn send_on(&self, message: &DrainMessage) -> Result<()> {
        let now = Timestamp::now();
        let state = self.endpoints.draining(&message.tenant, message.drain).await?;
        if state.expected_at.map(Timestamp::as_millisecond) != Some(message.at.as_millisecond()) {
            return Ok(());
        }
        let at = state.runs_until.filter(|_| state.runs(now)).unwrap_or(message.at);
        self.put_row(message, at, now).await?;
        self.queues.send_drain(message.clone(), at, now).await
    }

    /// Replaces the message of a drain if it was lost. Returns whether it was.
    pub async fn replace_lost(&self, DrainRow { tenant, drain, .. }: &DrainRow) -> Result<bool> {
        let now = Timestamp::now();
        let is_lost = self.endpoints.draining(tenant, *drain).await?.is_lost(now);
        if is_lost {
            self.ensure(tenant, *drain, now, true).await?;
        }
        Ok(is_lost)
    }

    /// Writes the row of a message that arrives at `at`.
    async fn put_row(&self, message: &DrainMessage, at: Timestamp, now: Timestamp) -> Result<()> {
        let row = DrainRow { tenant: message.tenant.clone(), drain: message.drain, at };
        self.log.put_all([self.log.drain_row(&row, now)]).await
    }
}
