//! Parked attempts: those that are due and wait for their receiver's drain.
//!
//! Each has a row in its organization's partition, sorted by receiver and then by the delivery's deadline, so a drain
//! finds the receivers that deliveries wait for and the oldest deliveries of each, whatever the number of others. Those
//! past their deadline are first. Reads are strongly consistent: a drain that finds nothing can end. The row is written
//! after the delivery's state, because a drain deletes a row whose delivery is not parked at its time: it is left over
//! from a crash or a resend.

use super::{
    items::{DELIVERY, DESTINATION},
    room::{BODY_BYTES_BOUND, Room, Rooms},
    table::{DeliveryLog, Row, key_of, keyed},
};
use crate::{
    aws::{
        batch::{batch_write, delete_request},
        dynamo::{Item, query_page, text},
        expression::select,
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Parked, Payload, Receiver},
};

/// Sorts after every character of a receiver's key.
const LAST_CHARACTER: char = '~';
const DELETING: &str = "deleting parked attempts";

impl DeliveryLog {
    /// Builds the row of an attempt that waits for its receiver's drain.
    #[must_use]
    pub fn parked_row(&self, parked: &Parked, now: Timestamp) -> Row {
        Row(self.item([partition(&parked.tenant), sort_key(parked)], [], now))
    }

    /// Lists up to `limit` receivers that attempts of `tenant` wait for, after `last` and in the order of their keys.
    pub async fn parked_receivers(
        &self,
        tenant: &TenantId,
        mut last: Option<Receiver>,
        limit: usize,
    ) -> Result<Vec<Receiver>> {
        let mut receivers = Vec::new();
        while receivers.len() < limit {
            let in_partition = DESTINATION.equals(text(partition(tenant)));
            let keys = match last {
                None => in_partition,
                Some(last) => in_partition.and(DELIVERY.is_above(text(format!("{last}/{LAST_CHARACTER}")))),
            };
            let first = select(self.query(keys).consistent_read(true), &[DELIVERY]);
            let page = query_page(first, 1, "finding parked attempts").await?;
            let Some(first) = page.items.first() else { break };
            let parked = read(tenant, first)?;
            receivers.push(parked.receiver);
            last = Some(parked.receiver);
        }
        Ok(receivers)
    }

    /// Reads a parked delivery with its payload, once there is room for it: `own` for the organization, and of all. A
    /// delivery whose payload is missing fails, and is left out.
    pub async fn find_parked(&self, parked: &Parked, own: &Rooms) -> Result<Option<(Delivery, Option<Payload>, Room)>> {
        let mut room = own.take(BODY_BYTES_BOUND).await.and(self.room(BODY_BYTES_BOUND).await);
        let Some((delivery, payload)) = self.find(&parked.tenant, &parked.id).await? else { return Ok(None) };
        if payload.is_none() && parked.is_of(&delivery) {
            self.give_up(&parked.tenant, &delivery, Timestamp::now()).await?;
            return Ok(None);
        }
        room.shrink(payload.as_ref().map_or(0, |payload| payload.body.len()));
        Ok(Some((delivery, payload, room)))
    }

    /// Reads up to `limit` of the attempts that wait for `receiver`, oldest first, after `last`.
    pub async fn parked(
        &self,
        tenant: &TenantId,
        receiver: Receiver,
        last: Option<&Parked>,
        limit: usize,
    ) -> Result<Vec<Parked>> {
        let first = match last {
            None => format!("{receiver}/"),
            Some(last) => format!("{}{LAST_CHARACTER}", sort_key(last)),
        };
        let keys = DESTINATION.equals(text(partition(tenant)));
        let keys = keys.and(DELIVERY.is_between(text(first), text(format!("{receiver}/{LAST_CHARACTER}"))));
        let rows = select(self.query(keys).consistent_read(true), &[DELIVERY]);
        let page = query_page(rows, limit, "reading parked attempts").await?;
        page.items.iter().map(|item| read(tenant, item)).collect()
    }

    /// Deletes the rows of attempts that no longer wait. A row that is left over is deleted when it is found.
    pub async fn unpark(&self, parked: impl Iterator<Item = &Parked>, now: Timestamp) -> Result<()> {
        let mut rows: Vec<_> = parked.map(|parked| key_of(&self.parked_row(parked, now).0)).collect();
        rows.sort_unstable();
        rows.dedup();
        let deletions = rows.into_iter().map(|key| delete_request(keyed(key, [])));
        batch_write(&self.dynamodb, &self.table, deletions, DELETING).await
    }
}

impl Parked {
    /// Whether this is the attempt that `delivery` waits for.
    #[must_use]
    pub fn is_of(&self, delivery: &Delivery) -> bool {
        delivery.is_parked && delivery.next_attempt_at.map(Timestamp::as_millisecond) == Some(self.at.as_millisecond())
    }
}

/// The partition of a tenant's parked attempts.
pub(super) fn partition(tenant: &TenantId) -> String {
    ["parked/", tenant.as_str()].concat()
}

fn sort_key(parked: &Parked) -> String {
    let Parked { receiver, fails_at, at, id, .. } = parked;
    format!("{receiver}/{:013}/{:013}/{id}", fails_at.as_millisecond(), at.as_millisecond())
}

/// # Errors
/// No attempt behind a broken row could be found, so it must not go unnoticed.
fn read(tenant: &TenantId, item: &Item) -> Result<Parked> {
    parse(tenant, item).ok_or_else(|| Error::Internal("the row of a parked attempt is broken".to_owned()))
}

fn parse(tenant: &TenantId, item: &Item) -> Option<Parked> {
    let mut parts = item.get(DELIVERY.name())?.as_s().ok()?.split('/');
    let receiver = parts.next()?.parse().ok()?;
    let mut time = || parts.next()?.parse().ok().map(Timestamp::from_millisecond);
    let (fails_at, at) = (time()?, time()?);
    Some(Parked { tenant: tenant.clone(), receiver, fails_at, at, id: parts.next()?.parse().ok()? })
}
