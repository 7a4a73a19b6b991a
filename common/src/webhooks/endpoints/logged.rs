//! An endpoint's shards of the delivery log: one, until writes to it are throttled. Deleted endpoints are remembered
//! for as long as the log may contain their deliveries.

use std::fmt;

use super::table::{Endpoints, NOT_FOUND, key, record};
use crate::{
    aws::{
        dynamo::{self, Item, Record, is_refused, number, text},
        failure,
    },
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{DestinationId, SHARDS, Shard},
};

/// The attributes that locate an endpoint's deliveries in the log. None is secret.
pub(super) const LOGGED: &str = "webhook_endpoint_id, #url, log_shards";
/// The prefix of the sort keys of deleted endpoints. These keys sort before every id.
pub(super) const DELETED: &str = "#deleted#";
/// The number of deleted endpoints whose deliveries a list still includes.
const MAX_DELETED: i32 = 100;

impl Endpoints {
    /// The shards of the delivery log that may contain deliveries of `tenant`: to the endpoint `only`, or to all
    /// endpoints and callbacks. Deleted endpoints are included while the log contains their deliveries.
    ///
    /// # Errors
    /// The tenant never had such an endpoint; or a read fails.
    pub async fn shards(&self, tenant: &TenantId, only: Option<EndpointId>) -> Result<Vec<Shard>> {
        match only {
            Some(id) => self.shards_of(tenant, id).await,
            None => self.all_shards(tenant).await,
        }
    }

    async fn shards_of(&self, tenant: &TenantId, id: EndpointId) -> Result<Vec<Shard>> {
        let deleted = self.dynamodb.get_item().table_name(&self.table);
        let deleted = deleted.set_key(Some(key(tenant, format!("{DELETED}{id}")))).send();
        let (existing, deleted) = tokio::join!(self.get(tenant, id, LOGGED), deleted);
        let shards = match (existing?, deleted.map_err(failure("reading a deleted endpoint"))?.item) {
            (Some(existing), _) => log_shards(&record(&existing)),
            // The number of shards that it had is no longer known.
            (None, Some(_)) => SHARDS,
            (None, None) => return Err(NOT_FOUND),
        };
        Ok(Shard::first(DestinationId::Endpoint(id), shards).collect())
    }

    /// The shards of the callbacks, of all existing endpoints, and of the newest deleted endpoints.
    async fn all_shards(&self, tenant: &TenantId) -> Result<Vec<Shard>> {
        let deleted = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression("tenant_id = :tenant AND begins_with(webhook_endpoint_id, :deleted)")
            .expression_attribute_values(":tenant", text(tenant))
            .expression_attribute_values(":deleted", text(DELETED))
            .scan_index_forward(false)
            .limit(MAX_DELETED)
            .send();
        let (existing, deleted) = tokio::join!(self.query(tenant, LOGGED), deleted);
        let deleted = deleted.map_err(failure("listing deleted endpoints"))?.items.unwrap_or_default();
        let mut shards: Vec<_> = Shard::first(DestinationId::Callback, SHARDS).collect();
        for item in &existing? {
            let record = record(item);
            let endpoint = DestinationId::Endpoint(record.parsed("webhook_endpoint_id")?);
            shards.extend(Shard::first(endpoint, log_shards(&record)));
        }
        for item in &deleted {
            let id = record(item).text("webhook_endpoint_id")?.strip_prefix(DELETED).and_then(|id| id.parse().ok());
            shards.extend(id.into_iter().flat_map(|id| Shard::first(DestinationId::Endpoint(id), SHARDS)));
        }
        Ok(shards)
    }

    /// Spreads the endpoint's future deliveries over more partitions of the log.
    pub async fn spread_log(&self, tenant: &TenantId, id: EndpointId) -> Result<()> {
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key(tenant, id)));
        let update = dynamo::change(update, vec![("log_shards", number(SHARDS.into()))], &[])
            .condition_expression("attribute_exists(webhook_endpoint_id)");
        match update.send().await {
            // The endpoint may have been deleted. Then it needs no more partitions.
            Err(error) if !is_refused(&error) => Err(failure("spreading the delivery log")(error)),
            _ => Ok(()),
        }
    }
}

/// The number of the endpoint's shards in the delivery log.
pub(super) fn log_shards(record: &Record<'_>) -> u8 {
    record.optional_number("log_shards").and_then(|shards| u8::try_from(shards).ok()).unwrap_or(1)
}

/// The item that remembers a deleted endpoint.
pub(super) fn deleted(tenant: &TenantId, id: impl fmt::Display, remembered_until: Timestamp) -> Item {
    let mut item = key(tenant, format!("{DELETED}{id}"));
    item.insert("delete_at".to_owned(), number(remembered_until.as_second()));
    item
}
