//! The shards of the delivery log that belong to an endpoint: one at first, and more once its writes have been
//! throttled. Deleted endpoints are remembered for as long as the log may contain their deliveries.

use std::{cmp::Reverse, fmt};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::FutureExt;

use super::{
    item::{DELETE_AT, LOG_SHARDS, TENANT_ID, WEBHOOK_ENDPOINT_ID},
    table::{Endpoints, NOT_FOUND, key, record},
};
use crate::{
    aws::{
        dynamo::{Attribute, Item, ItemReader, number, query_all, text},
        expression::query,
        failure,
    },
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{DestinationId, SHARDS, Shard},
};

/// The attributes that locate an endpoint's deliveries in the log. None of them is secret.
pub(super) const LOGGED: [Attribute; 2] = [WEBHOOK_ENDPOINT_ID, LOG_SHARDS];
/// The sort key prefix of deleted endpoints, which sort before every id.
pub(super) const DELETED_PREFIX: &str = "#deleted#";
/// The maximum number of deleted endpoints whose deliveries a list includes.
const MAX_DELETED_ENDPOINTS: usize = 100;
/// The maximum number of deleted endpoints that are read for that, those that were created last: 13 read units. Otherwise,
/// an organization that creates and deletes very many would slow down its lists, and all sweeps.
const MAX_READ_ENDPOINTS: i32 = 1000;
const LISTING: &str = "listing deleted endpoints";

impl Endpoints {
    /// Lists the shards of the delivery log that may contain deliveries of `tenant`: only those of the endpoint `only`,
    /// or those of all endpoints and callbacks. Deleted endpoints are included while the log contains their deliveries.
    ///
    /// # Errors
    /// The tenant never had such an endpoint.
    pub async fn shards(&self, tenant: &TenantId, only: Option<EndpointId>) -> Result<Vec<Shard>> {
        match only {
            Some(id) => self.shards_of(tenant, id).await,
            None => self.all_shards(tenant).await,
        }
    }

    async fn shards_of(&self, tenant: &TenantId, id: EndpointId) -> Result<Vec<Shard>> {
        let deleted = self.dynamodb.get_item().table_name(&self.table);
        let deleted = deleted.set_key(Some(key(tenant, format!("{DELETED_PREFIX}{id}")))).send();
        let (existing, deleted) = tokio::join!(self.get(tenant, id, &LOGGED), deleted);
        let shards = match (existing?, deleted.map_err(failure("reading a deleted endpoint"))?.item) {
            (Some(existing), _) => log_shards(&record(&existing)),
            (None, Some(deleted)) => log_shards_of_deleted(&record(&deleted)),
            (None, None) => return Err(NOT_FOUND),
        };
        Ok(Shard::first(DestinationId::Endpoint(id), shards).collect())
    }

    /// Lists the same shards as [`Self::shards`], but includes all deleted endpoints: an erasure must not miss a delivery.
    ///
    /// # Errors
    /// The tenant never had such an endpoint.
    pub async fn every_shard(&self, tenant: &TenantId, only: Option<EndpointId>) -> Result<Vec<Shard>> {
        match only {
            Some(id) => self.shards_of(tenant, id).await,
            None => self.shards_with(tenant, query_all(self.deleted(tenant).consistent_read(true), LISTING)).await,
        }
    }

    /// Lists the shards of the callbacks, of all existing endpoints, and of the endpoints that were deleted last.
    async fn all_shards(&self, tenant: &TenantId) -> Result<Vec<Shard>> {
        let deleted = self.deleted(tenant).scan_index_forward(false).limit(MAX_READ_ENDPOINTS).send();
        let deleted = deleted.map(|page| {
            let mut deleted = page.map_err(failure(LISTING))?.items.unwrap_or_default();
            // All are remembered for the same time. Their keys are sorted by the time when they were created.
            deleted.sort_by_key(|item| Reverse(record(item).optional_number(DELETE_AT)));
            deleted.truncate(MAX_DELETED_ENDPOINTS);
            Ok(deleted)
        });
        self.shards_with(tenant, deleted).await
    }

    fn deleted(&self, tenant: &TenantId) -> QueryFluentBuilder {
        let keys = TENANT_ID.equals(text(tenant)).and(WEBHOOK_ENDPOINT_ID.begins_with(text(DELETED_PREFIX)));
        query(&self.dynamodb, &self.table, keys)
    }

    async fn shards_with(
        &self,
        tenant: &TenantId,
        deleted: impl Future<Output = Result<Vec<Item>>>,
    ) -> Result<Vec<Shard>> {
        let (existing, deleted) = tokio::try_join!(self.query(tenant, &LOGGED), deleted)?;
        let mut shards: Vec<_> = Shard::first(DestinationId::Callback, SHARDS).collect();
        for item in &existing {
            let record = record(item);
            let endpoint = DestinationId::Endpoint(record.parsed(WEBHOOK_ENDPOINT_ID)?);
            shards.extend(Shard::first(endpoint, log_shards(&record)));
        }
        for item in &deleted {
            let record = record(item);
            let id = record.text(WEBHOOK_ENDPOINT_ID)?.strip_prefix(DELETED_PREFIX).and_then(|id| id.parse().ok());
            let shards_of = |id| Shard::first(DestinationId::Endpoint(id), log_shards_of_deleted(&record));
            shards.extend(id.into_iter().flat_map(shards_of));
        }
        Ok(shards)
    }

    /// Spreads the endpoint's future deliveries over more partitions of the log.
    pub async fn spread_log(&self, tenant: &TenantId, id: EndpointId) -> Result<()> {
        // The endpoint may have been deleted in the meantime.
        let update =
            self.change(tenant, id).set(LOG_SHARDS, number(SHARDS.into())).only_if(WEBHOOK_ENDPOINT_ID.exists());
        update.send(&self.dynamodb, "spreading the delivery log").await.map(drop)
    }
}

/// The number of the endpoint's shards in the delivery log.
pub(super) fn log_shards(record: &ItemReader<'_>) -> u8 {
    record.optional_integer(LOG_SHARDS).unwrap_or(1)
}

/// The number of a deleted endpoint's shards, or the maximum if its item does not say.
fn log_shards_of_deleted(record: &ItemReader<'_>) -> u8 {
    record.optional_integer(LOG_SHARDS).unwrap_or(SHARDS)
}

/// The item that records a deleted endpoint, with the number of its shards if that is certain.
pub(super) fn deleted(
    tenant: &TenantId,
    id: impl fmt::Display,
    shards: Option<u8>,
    remembered_until: Timestamp,
) -> Item {
    let mut item = key(tenant, format!("{DELETED_PREFIX}{id}"));
    item.extend([DELETE_AT.with(number(remembered_until.as_second()))]);
    item.extend(shards.map(|shards| LOG_SHARDS.with(number(shards.into()))));
    item
}
