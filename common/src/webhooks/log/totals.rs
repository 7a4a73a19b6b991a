//! The number of deliveries to each destination in each hour, as far as the [index](super::index) covers the log.
//!
//! These numbers never change, so no delivery has to be counted twice. The numbers by status follow from them and from
//! the undelivered deliveries, which are [counted](super::undelivered) at any time. Tests are not counted. The items are
//! in the partition of the tenant's index:
//!
//! - `total/<hour>`: the deliveries of an hour that the segments cover, without backdated ones, by destination, and the
//!   last moment that is covered. It is written in the same transaction as a segment.
//! - `late-at/<moment>/<destination>`: a backdated delivery. Its state says so, so it is counted once, whether
//!   it enters the log before or after its segment.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};

use super::{
    items::{DELIVERY, DESTINATION},
    search::moment,
    table::{DeliveryLog, ItemKey, Row},
};
use crate::{
    aws::{
        dynamo::{Item, ItemReader, attributes, query_all, text},
        expression::select,
    },
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::{DeliveryId, DestinationId, Millis},
};

attributes! { pub(super)
    // The last moment that is covered, and the numbers of an hour.
    UNTIL = "until", TOTALS = "totals",
}

/// The deliveries of an hour, by destination.
pub(super) type Total = BTreeMap<DestinationId, u32>;

/// The deliveries that the segments cover and the late ones, by hour and destination.
#[derive(Debug, Default)]
pub(super) struct Totals {
    hours: BTreeMap<Timestamp, Total>,
    /// The last moment that is covered, if there is one in these hours.
    until: Option<String>,
}

/// The size of an entry: a destination, and the number of its deliveries.
const ENTRY_BYTES: usize = 20;
const HOUR: &str = "total/";
const BACKDATED: &str = "late-at/";
/// A string that sorts after every moment.
const LAST_MOMENT: &str = "~";
const READING: &str = "reading totals";

impl Totals {
    /// The start of the period that can be counted: `since`, or the start of its hour if it is covered.
    pub(super) fn start(&self, since: Timestamp) -> Timestamp {
        if self.is_covered(since) { since.hour() } else { since }
    }

    /// Whether a time is covered.
    pub(super) fn is_covered(&self, time: Timestamp) -> bool {
        self.covers(&Millis::new(time.as_millisecond()).to_string())
    }

    /// Whether the totals contain a delivery, unless it is a test.
    pub(super) fn contain(&self, id: &DeliveryId) -> bool {
        self.covers(&id.moment())
    }

    /// The moments that are not covered, from the first one on.
    pub(super) fn uncovered(&self) -> String {
        self.until.as_deref().map_or_else(String::new, after)
    }

    fn covers(&self, moment: &str) -> bool {
        self.until.as_deref().is_some_and(|until| moment <= until)
    }

    /// The numbers of deliveries to these destinations, by hour.
    pub(super) fn of(&self, destinations: &BTreeSet<DestinationId>) -> impl Iterator<Item = (Timestamp, u32)> {
        self.hours.iter().map(move |(hour, total)| {
            let wanted = total.iter().filter(|(destination, _)| destinations.contains(destination));
            (*hour, wanted.map(|(_, count)| count).sum())
        })
    }
}

impl DeliveryLog {
    /// Reads the totals of the hour of `since` and of later hours. If one of them is unreadable, all deliveries are counted
    /// in the log. The read is strongly consistent.
    pub(super) async fn totals(&self, tenant: &TenantId, since: Timestamp) -> Result<Totals> {
        let start = Millis::new(since.hour().as_millisecond());
        let within = |prefix: &str| {
            let range = DELIVERY.is_between(text(format!("{prefix}{start}")), text(format!("{prefix}{LAST_MOMENT}")));
            self.query(DESTINATION.equals(text(partition(tenant))).and(range)).consistent_read(true)
        };
        let late = select(within(BACKDATED), &[DELIVERY]);
        let (items, late) = tokio::try_join!(query_all(within(HOUR), READING), query_all(late, READING))?;
        let mut totals = Totals::default();
        for item in &items {
            let record = ItemReader::new("total", item);
            let Some(hour) = record.text(DELIVERY)?.strip_prefix(HOUR).and_then(hour) else { continue };
            let Some(until) = readable(tenant, item, || record.text(UNTIL)) else { return Ok(Totals::default()) };
            totals.until = totals.until.max(Some(until.to_owned()));
            totals.hours.insert(hour, read(item));
        }
        for late in late.iter().filter_map(|item| moment(item)?.strip_prefix(BACKDATED)) {
            let Some((moment, destination)) = late.split_once('/') else { continue };
            let (Some(hour), Ok(destination)) = (hour(moment), destination.parse()) else { continue };
            if totals.covers(moment) {
                *totals.hours.entry(hour).or_default().entry(destination).or_default() += 1;
            }
        }
        Ok(totals)
    }

    /// Adds the deliveries of a segment that ends at `until` to what is stored for these hours.
    pub(super) async fn total_items(
        &self,
        tenant: &TenantId,
        mut hours: BTreeMap<Timestamp, Total>,
        until: &str,
        now: Timestamp,
    ) -> Result<Vec<Item>> {
        let keys = hours.keys().map(|hour| key(tenant, *hour)).collect();
        let stored = self.get_all(keys).await?;
        let items = hours.iter_mut().map(|(hour, total)| {
            let key = key(tenant, *hour);
            for (destination, count) in stored.get(&key).map(read).unwrap_or_default() {
                *total.entry(destination).or_default() += count;
            }
            self.item(key, [(TOTALS, encode(total)), (UNTIL, text(until))], now)
        });
        Ok(items.collect())
    }

    /// Builds the row that counts a backdated delivery.
    pub(super) fn backdated_row(&self, tenant: &TenantId, id: &DeliveryId, now: Timestamp) -> Row {
        let key = [partition(tenant), format!("{BACKDATED}{}/{}", id.moment(), id.destination)];
        Row(self.item(key, [], now))
    }
}

/// Reads an item of a tenant's index, and logs one that is unreadable.
pub(super) fn readable<T>(tenant: &TenantId, item: &Item, read: impl FnOnce() -> Result<T>) -> Option<T> {
    read().inspect_err(|error| crate::log!("log.index_unreadable", %tenant, item = moment(item), ?error)).ok()
}

/// A key that sorts after `moment` and before every later one.
pub(super) fn after(moment: &str) -> String {
    format!("{moment}!")
}

/// The partition of a tenant's index.
pub(super) fn partition(tenant: &TenantId) -> String {
    format!("index/{tenant}")
}

fn key(tenant: &TenantId, hour: Timestamp) -> ItemKey {
    [partition(tenant), format!("{HOUR}{}", Millis::new(hour.as_millisecond()))]
}

/// The hour of a moment.
fn hour(moment: &str) -> Option<Timestamp> {
    let (at, _) = moment.split_once('.').unwrap_or((moment, ""));
    Some(Timestamp::from_millisecond(at.parse().ok()?).hour())
}

/// Endpoints have random ids, so zero stands for callbacks.
fn encode(total: &Total) -> AttributeValue {
    let entries = total.iter().flat_map(|(destination, count)| {
        let endpoint = destination.endpoint().map_or(0, EndpointId::bits);
        [&endpoint.to_be_bytes()[..], &count.to_be_bytes()].concat()
    });
    AttributeValue::B(Blob::new(entries.collect::<Vec<_>>()))
}

fn read(item: &Item) -> Total {
    let entries = item.get(TOTALS.name()).and_then(|entries| entries.as_b().ok());
    let entries = entries.into_iter().flat_map(|entries| entries.as_ref().chunks_exact(ENTRY_BYTES));
    entries
        .filter_map(|entry| {
            let (endpoint, count) = entry.split_first_chunk()?;
            let destination = match u128::from_be_bytes(*endpoint) {
                0 => DestinationId::Callback,
                bits => DestinationId::Endpoint(EndpointId::from_bits(bits)),
            };
            Some((destination, u32::from_be_bytes(*count.first_chunk()?)))
        })
        .collect()
}
