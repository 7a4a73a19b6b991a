//! Deletes a tenant's endpoints, and later all related items. An interrupted call can be repeated.

use super::{
    item::{TENANT_ID, WEBHOOK_ENDPOINT_ID},
    log_shards::{DELETED_PREFIX, LOGGED, deleted},
    table::{Endpoints, key, record},
};
use crate::{
    aws::{
        batch::{batch_write, delete_request, put_request},
        dynamo::{query_all, text},
        expression::{query, select},
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{DestinationId, SHARDS, Shard},
};

const DOING: &str = "forgetting endpoints";

impl Endpoints {
    /// Deletes all endpoints of `tenant`, including unreadable ones. Their ids are remembered until `remembered_until`.
    /// The count is not updated, because the tenant can no longer create endpoints. Returns whether there were any
    /// endpoints.
    pub async fn delete_all(&self, tenant: &TenantId, remembered_until: Timestamp) -> Result<bool> {
        let found = self.query(tenant, &LOGGED).await?;
        let ids = found.iter().map(|item| record(item).text(WEBHOOK_ENDPOINT_ID)).collect::<Result<Vec<_>>>()?;
        let remember = ids.iter().map(|id| put_request(deleted(tenant, id, None, remembered_until)));
        batch_write(&self.dynamodb, &self.table, remember, DOING).await?;
        batch_write(&self.dynamodb, &self.table, ids.iter().map(|id| delete_request(key(tenant, id))), DOING).await?;
        Ok(!ids.is_empty())
    }

    /// Lists the shards of the delivery log that may contain deliveries of `tenant`, once all its endpoints have been
    /// deleted.
    pub async fn shards_left(&self, tenant: &TenantId) -> Result<Vec<Shard>> {
        let keys = TENANT_ID.equals(text(tenant)).and(WEBHOOK_ENDPOINT_ID.begins_with(text(DELETED_PREFIX)));
        let query = query(&self.dynamodb, &self.table, keys).consistent_read(true);
        let mut destinations = vec![DestinationId::Callback];
        for item in &query_all(query, DOING).await? {
            let id = record(item).text(WEBHOOK_ENDPOINT_ID)?.trim_start_matches(DELETED_PREFIX).parse();
            destinations.push(DestinationId::Endpoint(id.map_err(Error::internal(DOING))?));
        }
        Ok(destinations.into_iter().flat_map(|destination| Shard::first(destination, SHARDS)).collect())
    }

    /// Deletes every item of `tenant`: the ids of deleted endpoints, and the remembered calls.
    pub async fn forget(&self, tenant: &TenantId) -> Result<()> {
        let query = query(&self.dynamodb, &self.table, TENANT_ID.equals(text(tenant))).consistent_read(true);
        let keys = select(query, &[TENANT_ID, WEBHOOK_ENDPOINT_ID]);
        let keys = query_all(keys, DOING).await?;
        batch_write(&self.dynamodb, &self.table, keys.into_iter().map(delete_request), DOING).await
    }
}
