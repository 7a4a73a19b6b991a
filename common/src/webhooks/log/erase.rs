//! Erases one delivery's payload and responses, or deletes all of a tenant's deliveries.
//!
//! The state of an erased delivery remains, with the time of the erasure. It is changed first, on condition that no
//! attempt is pending. From then on, the payload counts as deleted, and a resend that read it earlier fails. If a
//! process stops before it has erased the separate items, they are already invisible, and a repeated call erases them.
//!
//! An interrupted deletion of a tenant's deliveries can be repeated, too. Due rows, which contain only ids and times,
//! cannot be found by tenant; they expire.

use std::ops::ControlFlow::{Break, Continue};

use aws_sdk_dynamodb::{operation::query::builders::QueryFluentBuilder, types::AttributeValue};
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::*,
    payload, recovery,
    table::{Log, PAYLOAD, details_partition, key_of, keyed, shard_key, state_key},
};
use crate::{
    aws::{
        batch::{CONCURRENCY, batch_write, delete_request, put_request},
        dynamo::{Attribute, Item, number, query_all, query_page, text},
        expression::select,
        rounds,
    },
    error::{Conflict, Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, DeliveryId, Shard},
};

/// The number of deliveries that are deleted at a time.
const PAGE: usize = 250;
const ERASING: &str = "erasing a delivery";
const FORGETTING: &str = "forgetting deliveries";

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
            let update = self
                .update(state_key(tenant, id))
                .set(ERASED_AT, number(now.as_millisecond()))
                .set_all(bare_attributes(before.earlier, before.last_attempt))
                .remove(payload::ATTRIBUTES)
                .only_if(STATUS.equals(text(before.status)))
                .only_if(ATTEMPTS.equals(number(before.attempts.into())));
            Ok(if update.send(&self.dynamodb, ERASING).await? { Break(()) } else { Continue(()) })
        })
        .await?;
        let details = query_all(self.partition(details_partition(tenant, id)), ERASING).await?;
        let writes = details.into_iter().map(|mut item| match key_of(&item) {
            [partition, part] if part == PAYLOAD => Ok(delete_request(keyed([partition, part], []))),
            _ => {
                let (earlier, last) = read_attempts(&item)?;
                item.extend(bare_attributes(earlier, last).map(|(name, value)| name.with(value)));
                Ok(put_request(item))
            }
        });
        batch_write(&self.dynamodb, &self.table, writes.collect::<Result<Vec<_>>>()?, ERASING).await
    }

    /// Deletes a shard's oldest deliveries, with their payloads and attempts. Returns whether there are more.
    pub async fn forget_page(&self, tenant: &TenantId, shard: Shard) -> Result<bool> {
        let states = query_page(self.keys_in(shard_key(tenant, shard)), PAGE, FORGETTING).await?;
        let details = states.items.iter().map(|state| {
            let [shard, moment] = key_of(state);
            query_all(self.keys_in(format!("{shard}/{moment}")), FORGETTING)
        });
        let details: Vec<Vec<Item>> =
            stream::iter(details.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        // The states are deleted last, because the other items are found through them.
        for keys in [details.concat(), states.items] {
            batch_write(&self.dynamodb, &self.table, keys.into_iter().map(delete_request), FORGETTING).await?;
        }
        Ok(states.last.is_some())
    }

    pub async fn forget_recoveries(&self, tenant: &TenantId) -> Result<()> {
        let keys = query_all(self.keys_in(recovery::partition(tenant)), FORGETTING).await?;
        batch_write(&self.dynamodb, &self.table, keys.into_iter().map(delete_request), FORGETTING).await
    }

    fn keys_in(&self, partition: String) -> QueryFluentBuilder {
        select(self.partition(partition), &[DESTINATION, DELIVERY])
    }

    fn partition(&self, partition: String) -> QueryFluentBuilder {
        self.query(DESTINATION.equals(text(partition))).consistent_read(true)
    }
}

/// The attributes of attempts without the receiver's responses.
fn bare_attributes(earlier: Vec<Attempt>, last: Option<Attempt>) -> impl Iterator<Item = (Attribute, AttributeValue)> {
    let earlier: Vec<_> = earlier.into_iter().map(Attempt::bare).collect();
    attempts_attributes(&earlier, last.map(Attempt::bare).as_ref())
}
