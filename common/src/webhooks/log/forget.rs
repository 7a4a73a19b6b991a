//! Deletes all of a tenant's deliveries from the log.
//!
//! An interrupted call can be repeated. Due rows, which contain only ids and times, cannot be found by tenant; they
//! expire.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    items::{DELIVERY, DESTINATION},
    recovery,
    table::{Log, key_of, shard_key},
};
use crate::{
    aws::{
        batch::{CONCURRENCY, batch_write, delete_request},
        dynamo::{Item, query_all, text},
        expression::{query, select},
        failure,
    },
    error::Result,
    id::TenantId,
    webhooks::delivery::Shard,
};

/// The number of deliveries that are deleted at a time.
const PAGE: i32 = 250;
const DOING: &str = "forgetting deliveries";

impl Log {
    /// Deletes a shard's oldest deliveries, with their payloads and attempts. Returns whether there are more.
    ///
    /// # Errors
    /// The partition was throttled in every round ([`Error::Busy`](crate::error::Error::Busy)).
    pub async fn forget_page(&self, tenant: &TenantId, shard: Shard) -> Result<bool> {
        let states = self.keys_of(shard_key(tenant, shard)).limit(PAGE);
        let page = Box::pin(states.send()).await.map_err(failure(DOING))?;
        let states = page.items.unwrap_or_default();
        let details = states.iter().map(|state| {
            let [shard, moment] = key_of(state);
            query_all(self.keys_of(format!("{shard}/{moment}")), DOING)
        });
        let details: Vec<Vec<Item>> =
            stream::iter(details.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await?;
        // The states are deleted last, because the other items are found through them.
        for keys in [details.concat(), states] {
            batch_write(&self.dynamodb, &self.table, keys.into_iter().map(delete_request), DOING).await?;
        }
        Ok(page.last_evaluated_key.is_some())
    }

    pub async fn forget_recoveries(&self, tenant: &TenantId) -> Result<()> {
        let keys = query_all(self.keys_of(recovery::partition(tenant)), DOING).await?;
        batch_write(&self.dynamodb, &self.table, keys.into_iter().map(delete_request), DOING).await
    }

    fn keys_of(&self, partition: String) -> QueryFluentBuilder {
        let query = query(&self.dynamodb, &self.table, DESTINATION.equals(text(partition))).consistent_read(true);
        select(query, &[DESTINATION, DELIVERY])
    }
}
