//! Erases a delivery's payload and its receiver's responses. The state remains, with the time of the erasure.
//!
//! The state is changed first, on condition that no attempt is pending. From then on, the payload counts as deleted,
//! and a resend that read it earlier fails. If a process stops before it has erased the separate items, they are
//! already invisible, and a repeated call erases them.

use std::ops::ControlFlow::{Break, Continue};

use super::{
    items::*,
    payload,
    table::{Log, PAYLOAD, details_partition, state_key},
};
use crate::{
    aws::{
        batch::{batch_write, delete_request, put_request},
        dynamo::{Item, number, query_all, text},
        expression::query,
        rounds,
    },
    error::{Conflict, Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, DeliveryId},
};

const DOING: &str = "erasing a delivery";

impl Log {
    /// Erases a delivery. If it was already erased, the recorded time does not change.
    ///
    /// # Errors
    /// There is no such delivery, or an attempt is pending.
    pub async fn erase(&self, tenant: &TenantId, id: &DeliveryId, now: Timestamp) -> Result<()> {
        rounds((), |()| async move {
            let (before, _) = self.visible(tenant, id, now).await?;
            if before.erased_at.is_some() {
                return Ok(Break(()));
            }
            if before.needs_payload() {
                return Err(Error::Conflict(Conflict::DeliveryPending));
            }
            let earlier: Vec<_> = before.earlier.into_iter().map(Attempt::bare).collect();
            let last = before.last_attempt.map(|last| (LAST, attempt_value(&last.bare())));
            let update = self
                .update(state_key(tenant, id))
                .set(ERASED_AT, number(now.as_millisecond()))
                .set_all(last)
                .replace(&[EARLIER], earlier_value(&earlier).into_iter().collect())
                .remove(payload::ATTRIBUTES)
                .only_if(STATUS.equals(text(before.status)))
                .only_if(ATTEMPTS.equals(number(before.attempts.into())));
            Ok(if update.send(&self.dynamodb, DOING).await? { Break(()) } else { Continue(()) })
        })
        .await?;
        let details = DESTINATION.equals(text(details_partition(tenant, id)));
        let details = query_all(query(&self.dynamodb, &self.table, details).consistent_read(true), DOING).await?;
        let writes = details.into_iter().map(|item| match item.get(DELIVERY.name()).and_then(|key| key.as_s().ok()) {
            Some(part) if part == PAYLOAD => {
                let key = [DESTINATION, DELIVERY].map(|name| Some(name.with(item.get(name.name())?.clone())));
                Ok(delete_request(key.into_iter().flatten().collect()))
            }
            _ => bare(item).map(put_request),
        });
        batch_write(&self.dynamodb, &self.table, writes.collect::<Result<Vec<_>>>()?, DOING).await
    }
}

/// Removes the responses from an item with earlier attempts.
fn bare(mut item: Item) -> Result<Item> {
    let earlier: Vec<_> = read_earlier(&item)?.into_iter().map(Attempt::bare).collect();
    item.extend(earlier_value(&earlier).map(|(attribute, value)| attribute.with(value)));
    if let Some(last) = item.get(LAST.name()).map(read_attempt).transpose()? {
        item.extend([LAST.with(attempt_value(&last.bare()))]);
    }
    Ok(item)
}
