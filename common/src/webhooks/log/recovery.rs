//! Recoveries: everything of a time that an endpoint did not take is sent again, at a bounded rate.
//!
//! A recovery is an item that says how far it is. Whoever runs it stores its progress after every page, and a page is
//! harmless to repeat, because only deliveries that are still failed are resent; after a crash, `resent` leaves out those of
//! the page that was not saved. Failed tests are sent again, too. Until a recovery has begun, calls may join it.
//!
//! Beside a tenant's recoveries, each endpoint has an item that names its latest one. Whoever adds another one replaces
//! that item, so calls at the same time cannot miss each other's.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::{Put, ReturnValue};
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    search::{Filter, KeyRange, id},
    table::{CONCURRENCY, INDEX, Log, key},
};
use crate::{
    aws::{
        dynamo::{Item, Record, boolean, change, is_refused, item, number, text},
        failure,
        transaction::{Marker, Transaction},
    },
    error::{Conflict, Error, Result},
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
    /// Whether its first page has been read, or is being read.
    #[serde(skip)]
    begun: bool,
}

/// How many deliveries are sent again between two saves.
pub const PAGE: usize = 100;
/// How many recoveries are listed, and how many of a tenant are looked at.
const LISTED: usize = 10;
const LOOKED_AT: i32 = 200;
/// How many recoveries of a tenant may be unfinished. Calls at the same moment may exceed it.
const UNFINISHED: usize = 100;
/// How often a call looks again after others have changed what it saw.
const ROUNDS: u32 = 10;
/// The partition of the index with the recoveries that are not done.
const OPEN: &str = "recovery";

impl Log {
    /// Has everything sent again that `endpoint` did not take between two times, and remembers the call with the id of
    /// the recovery that does it.
    ///
    /// That is one that waits, if its time overlaps: it is widened. So a call that is repeated over and over does not add
    /// to the work. What has begun may have passed what failed a moment ago, so it is never joined.
    ///
    /// # Errors
    /// The tenant has too many unfinished ones, or a call failed.
    pub async fn start_recovery(
        &self,
        tenant: &TenantId,
        endpoint: EndpointId,
        (since, until): (Timestamp, Timestamp),
        marker: impl Fn(RecoveryId) -> Result<Option<Marker>>,
        now: Timestamp,
    ) -> Result<RecoveryId> {
        for _ in 0..ROUNDS {
            let latest = self.latest_recovery(tenant, endpoint).await?;
            let recoveries = self.newest_recoveries(tenant).await?;
            let joins = |one: &&Recovery| {
                one.waits() && one.webhook_endpoint_id == endpoint && one.since <= until && since <= one.until
            };
            let waiting = recoveries.iter().find(joins);
            let id = waiting.map_or_else(RecoveryId::generate, |waiting| waiting.id);
            let call = marker(id)?;
            let transaction = Transaction::new("writing a recovery").once(call.as_ref());
            let transaction = match waiting {
                Some(waiting) if waiting.since <= since && until <= waiting.until && call.is_none() => return Ok(id),
                Some(waiting) => {
                    self.widen(transaction, tenant, id, waiting.since.min(since), waiting.until.max(until))
                }
                None if recoveries.iter().filter(|one| !one.done).count() >= UNFINISHED => {
                    return Err(Error::Conflict(Conflict::RecoveryLimit(UNFINISHED)));
                }
                None => self.add(transaction, tenant, id, latest, (endpoint, since, until), now),
            };
            match transaction.first_refused(&self.dynamodb).await? {
                None => return Ok(id),
                // The same call came first: whoever made this one looks for its answer.
                Some(0) if call.is_some() => return Err(Error::Busy),
                // Another call was faster, or the recovery has begun.
                Some(_) => {}
            }
        }
        Err(Error::Busy)
    }

    /// Writes a new recovery, on condition that no call has written one of the endpoint since `latest`.
    fn add(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        id: RecoveryId,
        latest: Option<String>,
        (endpoint, since, until): (EndpointId, Timestamp, Timestamp),
        now: Timestamp,
    ) -> Transaction {
        let mut recovery = recovery_key(tenant, id);
        recovery.extend(item([
            ("open", text(OPEN)),
            ("endpoint", text(endpoint)),
            ("since", number(since.as_millisecond())),
            ("until", number(until.as_millisecond())),
            ("expires_at", self.expiry(now)),
        ]));
        let mut last = latest_key(tenant, endpoint);
        last.extend(item([("recovery", text(id)), ("expires_at", self.expiry(now))]));
        let last = Put::builder().table_name(&self.table).set_item(Some(last));
        let last = match latest {
            Some(latest) => {
                last.condition_expression("recovery = :latest").expression_attribute_values(":latest", text(latest))
            }
            None => last.condition_expression("attribute_not_exists(delivery)"),
        };
        transaction.put(last).put(Put::builder().table_name(&self.table).set_item(Some(recovery)))
    }

    /// Has a recovery that waits take more, on condition that it still waits and that no call has it take still more.
    fn widen(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        id: RecoveryId,
        since: Timestamp,
        until: Timestamp,
    ) -> Transaction {
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(recovery_key(tenant, id)));
        let range = vec![("since", number(since.as_millisecond())), ("until", number(until.as_millisecond()))];
        let update = change(update, range, &[])
            .condition_expression(
                "attribute_exists(#open) AND attribute_not_exists(begun) AND #since >= :since AND #until <= :until",
            )
            .expression_attribute_names("#open", "open");
        transaction.update_item(&update)
    }

    /// The newest recoveries of `tenant`, newest first: of one endpoint, or of all.
    ///
    /// # Errors
    /// The read failed.
    pub async fn recoveries(&self, tenant: &TenantId, endpoint: Option<EndpointId>) -> Result<Vec<Recovery>> {
        let recoveries = self.newest_recoveries(tenant).await?;
        let wanted = |one: &Recovery| endpoint.is_none_or(|endpoint| endpoint == one.webhook_endpoint_id);
        Ok(recoveries.into_iter().filter(wanted).take(LISTED).collect())
    }

    async fn newest_recoveries(&self, tenant: &TenantId) -> Result<Vec<Recovery>> {
        let query = self.dynamodb.query().table_name(&self.table);
        let query = query
            .key_condition_expression("destination = :tenant AND delivery > :ids")
            .expression_attribute_values(":tenant", text(partition(tenant)))
            .expression_attribute_values(":ids", text(BEFORE_IDS));
        let answer = query.consistent_read(true).scan_index_forward(false).limit(LOOKED_AT).send().await;
        let items = answer.map_err(failure("listing recoveries"))?.items.unwrap_or_default();
        items.iter().map(Recovery::from_item).collect()
    }

    /// The id of the recovery of `endpoint` that a call wrote last.
    async fn latest_recovery(&self, tenant: &TenantId, endpoint: EndpointId) -> Result<Option<String>> {
        let get = self.dynamodb.get_item().table_name(&self.table).set_key(Some(latest_key(tenant, endpoint)));
        let found = get.consistent_read(true).send().await.map_err(failure("reading the latest recovery"))?.item;
        found.map(|item| Record::new("latest recovery", &item).text("recovery").map(str::to_owned)).transpose()
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
        if recovery.waits() {
            self.begin_recovery(tenant, recovery).await?;
        }
        if recovery.done {
            return Ok(Vec::new());
        }
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

    /// Has no call join a recovery any more, and reads what it has to take. One that was deleted is done.
    async fn begin_recovery(&self, tenant: &TenantId, recovery: &mut Recovery) -> Result<()> {
        let key = recovery_key(tenant, recovery.id);
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key));
        let update = change(update, vec![("begun", boolean(true))], &[]);
        let update = update.condition_expression("attribute_exists(delivery)").return_values(ReturnValue::AllNew);
        match update.send().await {
            Ok(answer) => *recovery = Recovery::from_item(&answer.attributes.unwrap_or_default())?,
            Err(error) if is_refused(&error) => recovery.done = true,
            Err(error) => return Err(failure("beginning a recovery")(error)),
        }
        Ok(())
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
    /// Whether it is as if the next call had started it.
    fn waits(&self) -> bool {
        !self.done && !self.begun && self.shard == 0 && self.after.is_empty()
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
            begun: item.contains_key("begun"),
        })
    }
}

/// What the partitions of recoveries begin with.
const PREFIX: &str = "recovery/";
/// It comes before every id, and after what names the latest recovery of an endpoint.
const BEFORE_IDS: &str = "$";

pub(super) fn partition(tenant: &TenantId) -> String {
    format!("{PREFIX}{tenant}")
}

fn recovery_key(tenant: &TenantId, id: RecoveryId) -> Item {
    key(partition(tenant), id)
}

fn latest_key(tenant: &TenantId, endpoint: EndpointId) -> Item {
    key(partition(tenant), format!("#{endpoint}"))
}

/// The key of the table in an item of the index.
fn only_key(mut item: Item) -> Item {
    item.remove("open");
    item
}
