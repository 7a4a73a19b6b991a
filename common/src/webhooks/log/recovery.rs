//! Recoveries: everything of a time that an endpoint did not take is sent again, at a bounded rate.
//!
//! A recovery is an item that says how far it is. Whoever runs it stores its progress after every page, and a page is
//! harmless to repeat, because only deliveries that are still failed are resent.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::Put;
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    search::{Filter, KeyRange, id},
    table::{CONCURRENCY, INDEX, Log, key},
};
use crate::{
    aws::{
        dynamo::{Item, Record, change, is_refused, item, number, text},
        failure,
        transaction::{Marker, Transaction},
    },
    error::{Error, Result},
    id::{EndpointId, RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, DeliveryId, DestinationId, SHARDS, Shard, Status, Trigger},
};

/// A recovery, and how far it is.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Recovery {
    /// Its id.
    #[serde(rename = "recovery_id")]
    pub id: RecoveryId,
    /// The endpoint whose deliveries are sent again.
    pub webhook_endpoint_id: EndpointId,
    /// Deliveries created at this time or later.
    pub since: Timestamp,
    /// Deliveries created before this time.
    pub until: Timestamp,
    /// How many have been sent again so far.
    pub resent: u32,
    /// Whether all of them have been.
    pub done: bool,
    /// The number of the shard that is being read.
    #[serde(skip)]
    shard: u8,
    /// The last key of that shard that was read.
    #[serde(skip)]
    after: String,
}

/// How many deliveries are sent again between two saves.
pub const PAGE: usize = 100;
/// How many recoveries are listed, and how many of a tenant are looked at for those of one endpoint.
const LISTED: usize = 10;
const LOOKED_AT: i32 = 100;
/// The partition of the index with the recoveries that are not done.
const OPEN: &str = "recovery";

impl Log {
    /// Stores a new recovery.
    ///
    /// # Errors
    /// The write failed.
    pub async fn start_recovery(
        &self,
        tenant: &TenantId,
        recovery: &Recovery,
        once: Option<&Marker>,
        now: Timestamp,
    ) -> Result<()> {
        let mut stored = recovery_key(tenant, recovery.id);
        stored.extend(item([
            ("open", text(OPEN)),
            ("endpoint", text(recovery.webhook_endpoint_id)),
            ("since", number(recovery.since.as_millisecond())),
            ("until", number(recovery.until.as_millisecond())),
            ("expires_at", self.expiry(now)),
        ]));
        if once.is_some() {
            let put = Put::builder().table_name(&self.table).set_item(Some(stored));
            return Transaction::new("writing a recovery").put(put).once(once).commit(&self.dynamodb).await;
        }
        let put = self.dynamodb.put_item().table_name(&self.table).set_item(Some(stored));
        put.send().await.map(drop).map_err(failure("writing a recovery"))
    }

    /// The newest recoveries of `tenant`, newest first: of one endpoint, or of all.
    ///
    /// # Errors
    /// The read failed.
    pub async fn recoveries(&self, tenant: &TenantId, endpoint: Option<EndpointId>) -> Result<Vec<Recovery>> {
        let query = self.dynamodb.query().table_name(&self.table).key_condition_expression("destination = :tenant");
        let query = query.expression_attribute_values(":tenant", text(partition(tenant)));
        let answer = query.consistent_read(true).scan_index_forward(false).limit(LOOKED_AT).send().await;
        let items = answer.map_err(failure("listing recoveries"))?.items.unwrap_or_default();
        let recoveries: Vec<Recovery> = items.iter().map(Recovery::from_item).collect::<Result<_>>()?;
        let wanted = |one: &Recovery| endpoint.is_none_or(|endpoint| endpoint == one.webhook_endpoint_id);
        Ok(recoveries.into_iter().filter(wanted).take(LISTED).collect())
    }

    /// The oldest recovery of each tenant that is not done: one at a time, so that a tenant with many holds up nobody
    /// else's, and the rate of a tenant is bounded.
    ///
    /// # Errors
    /// A read failed.
    pub async fn open_recoveries(&self) -> Result<Vec<(TenantId, Recovery)>> {
        let query = self.dynamodb.query().table_name(&self.table).index_name(INDEX);
        let query = query
            .key_condition_expression("#open = :recovery")
            .expression_attribute_names("#open", "open")
            .expression_attribute_values(":recovery", text(OPEN));
        let keys = query.send().await.map_err(failure("listing open recoveries"))?.items.unwrap_or_default();
        let mut open = Vec::new();
        for ([partition, _], item) in self.get(keys.into_iter().map(only_key).collect()).await? {
            let tenant = partition.strip_prefix(PREFIX).and_then(|tenant| tenant.parse().ok());
            // One that cannot be read must not stop the others.
            match Recovery::from_item(&item) {
                Ok(recovery) => open.extend(tenant.filter(|_| !recovery.done).map(|tenant| (tenant, recovery))),
                Err(error) => tracing::error!(partition, ?error, "a recovery cannot be read and is left out"),
            }
        }
        open.sort_by_key(|(_, recovery)| recovery.id);
        let mut tenants = HashSet::new();
        open.retain(|(tenant, _): &(TenantId, _)| tenants.insert(tenant.clone()));
        Ok(open)
    }

    /// Makes the next page of deliveries pending again, each at the time that `due` gives, and returns them.
    /// The recovery then is where the page ended, but that is not saved.
    ///
    /// # Errors
    /// A call failed. The page can be repeated.
    pub async fn recover_page(
        &self,
        tenant: &TenantId,
        recovery: &mut Recovery,
        due: impl Fn() -> Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Delivery>> {
        let filter = Filter { since: Some(recovery.since), until: Some(recovery.until), ..Filter::default() };
        let KeyRange { from, to } = self.range(&filter, None, now);
        // What comes after the last key, which has a fixed length.
        let from = if recovery.after.is_empty() { from } else { format!("{}+", recovery.after) };
        let destination = DestinationId::Endpoint(recovery.webhook_endpoint_id);
        let shard = Shard { destination, number: recovery.shard };
        let ids = self.failed(tenant, shard, &KeyRange { to: to.max(from.clone()), from }).await?;
        let calls = ids.iter().map(|id| (id, due())).map(async |(id, due)| {
            match self.resend(tenant, id, Trigger::Recovery, due, None, now).await {
                Ok(delivery) => Ok(Some(delivery)),
                // It has been resent, has expired, or was never kept.
                Err(Error::NotFound(_) | Error::Conflict(_)) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let calls: Vec<_> = calls.collect();
        let resent: Vec<Result<Option<Delivery>>> = stream::iter(calls).buffer_unordered(CONCURRENCY).collect().await;
        let resent: Vec<Delivery> = resent.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
        recovery.resent = recovery.resent.saturating_add(u32::try_from(resent.len()).unwrap_or(u32::MAX));
        match ids.last().filter(|_| ids.len() == PAGE) {
            Some(last) => recovery.after = last.moment(),
            None => (recovery.shard, recovery.after) = (recovery.shard.saturating_add(1), String::new()),
        }
        recovery.done = recovery.shard >= SHARDS;
        Ok(resent)
    }

    /// The first of the failed deliveries of a shard, oldest first.
    async fn failed(&self, tenant: &TenantId, shard: Shard, range: &KeyRange) -> Result<Vec<DeliveryId>> {
        let query = self.query(tenant, shard, Some(Status::Failed), range);
        let query = query.limit(i32::try_from(PAGE).unwrap_or(i32::MAX));
        let answer = Box::pin(query.send()).await.map_err(failure("listing failed deliveries"))?;
        Ok(answer.items.unwrap_or_default().iter().filter_map(|item| id(shard, item)).collect())
    }

    /// Stores how far a recovery is, unless it was deleted.
    ///
    /// # Errors
    /// The write failed.
    pub async fn save_recovery(&self, tenant: &TenantId, recovery: &Recovery) -> Result<()> {
        let key = recovery_key(tenant, recovery.id);
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key));
        let set = vec![
            ("resent", number(recovery.resent.into())),
            ("shard", number(recovery.shard.into())),
            ("after", text(&recovery.after)),
        ];
        let remove: &[&str] = if recovery.done { &["open"] } else { &[] };
        match change(update, set, remove).condition_expression("attribute_exists(delivery)").send().await {
            Err(error) if !is_refused(&error) => Err(failure("saving a recovery")(error)),
            _ => Ok(()),
        }
    }
}

impl Recovery {
    /// A new recovery of what `endpoint` did not take between two times.
    #[must_use]
    pub fn new(endpoint: EndpointId, since: Timestamp, until: Timestamp) -> Self {
        let (id, after) = (RecoveryId::generate(), String::new());
        Self { id, webhook_endpoint_id: endpoint, since, until, resent: 0, done: false, shard: 0, after }
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = Record::new("recovery", item);
        let count = |name: &str| record.optional_number(name).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        Ok(Self {
            id: record.parsed("delivery")?,
            webhook_endpoint_id: record.parsed("endpoint")?,
            since: record.time("since")?,
            until: record.time("until")?,
            resent: count("resent"),
            done: record.optional_text("open").is_none(),
            shard: u8::try_from(count("shard")).unwrap_or(SHARDS),
            after: record.optional_text("after").unwrap_or_default().to_owned(),
        })
    }
}

/// What the partitions of recoveries begin with.
const PREFIX: &str = "recovery/";

pub(super) fn partition(tenant: &TenantId) -> String {
    format!("{PREFIX}{tenant}")
}

fn recovery_key(tenant: &TenantId, id: RecoveryId) -> Item {
    key(partition(tenant), id)
}

/// The key of the table in an item of the index.
fn only_key(mut item: Item) -> Item {
    item.remove("open");
    item
}
