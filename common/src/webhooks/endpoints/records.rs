//! The stored endpoints: creating, listing, finding, changing and deleting them.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put, Update, builders::UpdateBuilder};

use super::{
    headers::{self, HEADER_NAMES, HEADERS},
    health::{self, Health},
    kind::{self, Address, Kind, Pulled},
    last_error::{ERRED_AT, ERROR},
    logged::{LOGGED, deleted, log_shards},
    table::{Endpoints, NOT_FOUND, key, record},
};
use crate::{
    aws::{
        dynamo::{self, Item, Record, boolean, number, text, texts, update_if},
        transaction::{Marker, Transaction},
    },
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    id::{EndpointId, TenantId},
    name::Description,
    patch::Patch,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DestinationId, Shard},
        destination::{EndpointUrl, Headers, PreviousSecret, SigningKeys, SigningSecret, Target},
        event::{EventFilter, EventName},
    },
};

/// An endpoint to store.
#[derive(Debug)]
pub struct NewEndpoint {
    /// The endpoint's id; ids sort by creation time.
    pub id: EndpointId,
    /// The URL of a push endpoint, or the kind pull.
    pub address: Address,
    /// The secret that signs deliveries.
    pub signing_secret: SigningSecret,
    /// The headers that the receiver gets with each attempt.
    pub headers: Headers,
    /// The tenant's own description.
    pub description: Option<Description>,
    /// Whether events are delivered to it.
    pub active: bool,
    /// The events to deliver; `None` for all.
    pub events: Option<EventFilter>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// An endpoint, reduced to the fields that a delivery needs.
#[derive(Debug)]
pub struct Endpoint {
    /// The endpoint's id.
    pub id: EndpointId,
    /// The URL of a push endpoint, or the kind pull.
    pub address: Address,
    /// The secret that signs deliveries.
    pub signing_secret: SigningSecret,
    /// The secret before the latest rotation.
    pub previous_secret: Option<PreviousSecret>,
    /// The headers that the receiver gets with each attempt.
    pub headers: Headers,
    /// The events to deliver; `None` for all.
    pub events: Option<EventFilter>,
    /// The number of its shards in the delivery log.
    pub log_shards: u8,
    /// The health of its receiver.
    pub health: Health,
    /// The time at which it became inactive; `None` if it is active.
    pub inactive_since: Option<Timestamp>,
    /// The last calls to receive its deliveries, if it is a pull endpoint.
    pub pulled: Pulled,
}

/// The time for which an inactive endpoint still collects held deliveries. Zero means not at all.
#[derive(Clone, Copy, Debug)]
pub struct HoldFor(Duration);

impl HoldFor {
    /// Reads `HOLD_FOR`, in seconds.
    ///
    /// # Errors
    /// The variable is missing, does not parse or is out of range.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        env.number("HOLD_FOR", 0..=31_536_000).map(|seconds| Self(Duration::from_secs(seconds)))
    }

    /// The time until which an endpoint inactive since `inactive_since` collects deliveries; `None` if holding is off.
    #[must_use]
    pub fn end(self, inactive_since: Timestamp) -> Option<Timestamp> {
        (!self.0.is_zero()).then(|| inactive_since.after(self.0))
    }
}

/// A change to an endpoint; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct Change {
    /// The new URL.
    pub url: Option<EndpointUrl>,
    /// The new signing secret.
    pub signing_secret: Option<SigningSecret>,
    /// The headers that replace all previous headers.
    pub headers: Patch<Headers>,
    /// The new description.
    pub description: Patch<Description>,
    /// Whether to deliver events to the endpoint.
    pub active: Option<bool>,
    /// The events to deliver; cleared for all.
    pub events: Patch<EventFilter>,
}

/// The effect of a change with a secret on the secret of an endpoint.
#[derive(Clone, Copy)]
enum Rotation {
    /// The secret replaces another secret.
    To,
    /// The endpoint already has the secret.
    Done,
}

impl Change {
    fn is_empty(&self) -> bool {
        matches!(
            self,
            Self {
                url: None,
                signing_secret: None,
                headers: Patch::Keep,
                description: Patch::Keep,
                active: None,
                events: Patch::Keep
            }
        )
    }

    /// Whether the change would send the existing headers to another URL, which may belong to another party. A caller
    /// that may change an endpoint still may not read its headers.
    fn takes_headers_along(&self) -> bool {
        self.url.is_some() && matches!(self.headers, Patch::Keep)
    }
}

/// The largest endpoint limit that a deployment may set. A Lambda response has at most 6,291,556 bytes, and contains
/// the list as JSON inside a JSON string. There, an endpoint takes up to 12,860 bytes: a URL of 2,048 characters of
/// four bytes each, a description of 500 characters of seven bytes (a control character, escaped twice), ten header
/// names of 64 bytes, and 528 bytes for the rest. 489 endpoints fit.
pub const MAX_ENDPOINTS: u32 = 480;
/// The sort key of the counter. It sorts before every id.
const COUNTER: &str = "#count";
/// The attributes of an [`Endpoint`], except its [`Health`]. `url` is a reserved word in DynamoDB expressions.
const ATTRIBUTES: &str = "webhook_endpoint_id, #url, active, signing_secret, previous_secret, previous_secret_expires_at, \
                        headers, events, log_shards, healthy_at, inactive_since, updated_at, kind, asked_at, taken_at";

impl Endpoints {
    /// Stores a new endpoint and counts it, if the tenant has fewer than `limit`. `once` also remembers the call.
    ///
    /// # Errors
    /// The tenant has `limit` endpoints; or the write fails.
    pub async fn create(
        &self,
        tenant: &TenantId,
        endpoint: &NewEndpoint,
        limit: u32,
        once: Option<&Marker>,
    ) -> Result<()> {
        let count = self
            .counter(tenant, 1)
            .condition_expression("attribute_not_exists(endpoints) OR endpoints < :limit")
            .expression_attribute_values(":limit", number(limit.into()));
        Transaction::new("creating an endpoint")
            .update(count)
            .or(Error::Conflict(Conflict::EndpointLimit(limit)))
            .put_new(&self.table, "webhook_endpoint_id", endpoint.to_item(tenant))
            .once(once)
            .commit(&self.dynamodb)
            .await
    }

    /// The endpoints of `tenant`, active or not, read consistently.
    pub async fn all(&self, tenant: &TenantId) -> Result<Vec<Endpoint>> {
        let items = self.query(tenant, &attributes()).await?;
        Ok(items.iter().filter_map(|item| readable(item, Endpoint::from_item)).collect())
    }

    /// The endpoint `id` of `tenant`, active or not, read consistently.
    pub async fn find(&self, tenant: &TenantId, id: EndpointId) -> Result<Option<Endpoint>> {
        let found = self.get(tenant, id, &attributes()).await?;
        found.as_ref().map(Endpoint::from_item).transpose()
    }

    /// Checks that an endpoint exists.
    ///
    /// # Errors
    /// The tenant has no such endpoint; or the read fails.
    pub async fn require(&self, tenant: &TenantId, id: EndpointId) -> Result<()> {
        self.get(tenant, id, LOGGED).await?.map(drop).ok_or(NOT_FOUND)
    }

    /// Applies `change`. An empty change does not even update `updated_at`. A new secret rotates: the current secret
    /// becomes the previous secret, and continues to sign for `overlap`.
    ///
    /// # Errors
    /// The tenant has no such endpoint; the change has another URL and does not mention its headers; or a call fails.
    pub async fn update(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        change: Change,
        overlap: Duration,
        now: Timestamp,
    ) -> Result<()> {
        if change.is_empty() {
            return self.require(tenant, id).await;
        }
        let is_done = self.apply(tenant, id, &change, Rotation::To, overlap, now).await?
            || change.signing_secret.is_some() && self.apply(tenant, id, &change, Rotation::Done, overlap, now).await?;
        if is_done {
            return Ok(());
        }
        let endpoint = self.get(tenant, id, "kind, #url").await?.ok_or(NOT_FOUND)?;
        if change.url.is_some() && kind::kind(&record(&endpoint))? == Kind::Pull {
            return Err(Error::Conflict(Conflict::PullEndpoint));
        }
        // Without headers to protect, the only other reason is a rotation between the two writes.
        Err(if change.takes_headers_along() { Error::Conflict(Conflict::HeadersNeeded) } else { Error::Busy })
    }

    /// Applies `change` in one write, so that concurrent rotations lose no secret. Returns `false` if there is no such
    /// endpoint, its secret does not match `rotation`, or its headers would go to another URL.
    async fn apply(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        change: &Change,
        rotation: Rotation,
        overlap: Duration,
        now: Timestamp,
    ) -> Result<bool> {
        let (mut set, mut copy, mut remove) = (vec![("updated_at", text(now))], Vec::new(), Vec::new());
        let mut set_once = Vec::new();
        let mut condition = "attribute_exists(webhook_endpoint_id)".to_owned();
        if let Some(url) = &change.url {
            set.push(("url", text(url.as_str())));
            condition.push_str(" AND attribute_not_exists(kind)");
            remove.extend(ERROR);
        }
        set.extend(change.active.map(|active| ("active", boolean(active))));
        let is_fresh = change.active == Some(true);
        if is_fresh || change.url.is_some() {
            // The slow or silent receiver was the one at the old URL, or before the fresh start.
            set.push(("good_at", number(now.as_millisecond())));
            remove.extend(health::SILENT.into_iter().chain([health::SLOW]));
        }
        if is_fresh {
            set.push(("healthy_at", number(now.as_millisecond())));
            remove.extend(health::DISABLED.into_iter().chain([health::FAILING, health::INACTIVE]));
        }
        if change.active == Some(false) {
            // The endpoint may have been inactive before.
            set_once.push((health::INACTIVE, number(now.as_millisecond())));
        }
        match &change.description {
            Patch::Set(description) => set.push(("description", text(description.as_str()))),
            Patch::Clear => remove.push("description"),
            Patch::Keep => {}
        }
        match &change.events {
            Patch::Set(events) => set.push(("events", texts(events.names()))),
            Patch::Clear => remove.push("events"),
            Patch::Keep => {}
        }
        match &change.headers {
            Patch::Set(headers) if !headers.is_empty() => set.extend(headers::attributes(headers)),
            Patch::Set(_) | Patch::Clear => remove.extend([HEADERS, HEADER_NAMES]),
            Patch::Keep => {}
        }
        if change.takes_headers_along() {
            condition.push_str(" AND (attribute_not_exists(headers) OR #url = :url)");
        }
        if let Some(secret) = &change.signing_secret {
            set.push(("signing_secret", text(secret.reveal())));
            condition.push_str(match rotation {
                Rotation::To => " AND signing_secret <> :signing_secret",
                Rotation::Done => " AND signing_secret = :signing_secret",
            });
            match rotation {
                Rotation::Done => {}
                Rotation::To if overlap.is_zero() => remove.extend(["previous_secret", "previous_secret_expires_at"]),
                Rotation::To => {
                    copy.push(("previous_secret", "signing_secret"));
                    set.push(("previous_secret_expires_at", number(now.after(overlap).as_millisecond())));
                }
            }
        }
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(key(tenant, id)));
        let update = dynamo::change_more(update, set, set_once, &copy, &remove).condition_expression(condition);
        update_if(update, "updating an endpoint").await
    }

    /// Deletes an endpoint and decrements the count. The log still lists its deliveries until `remembered_until`.
    ///
    /// # Errors
    /// The tenant has no such endpoint; or the write fails.
    pub async fn delete(&self, tenant: &TenantId, id: EndpointId, remembered_until: Timestamp) -> Result<()> {
        let deleted = deleted(tenant, id, remembered_until);
        Transaction::new("deleting an endpoint")
            .delete_existing(&self.table, "webhook_endpoint_id", key(tenant, id))
            .or(NOT_FOUND)
            .put(Put::builder().table_name(&self.table).set_item(Some(deleted)))
            .update(self.counter(tenant, -1))
            .commit(&self.dynamodb)
            .await
    }

    fn counter(&self, tenant: &TenantId, by: i64) -> UpdateBuilder {
        Update::builder()
            .table_name(&self.table)
            .set_key(Some(key(tenant, COUNTER)))
            .update_expression("ADD endpoints :by")
            .expression_attribute_values(":by", number(by))
    }
}

fn attributes() -> String {
    format!("{ATTRIBUTES}, {}, {}, {}, {ERRED_AT}, good_at", health::SILENT.join(", "), health::FAILING, health::SLOW)
}

/// Reads an item. An unreadable endpoint is left out and reported to operators, so that it does not stop deliveries to
/// the other endpoints of its tenant.
pub(super) fn readable<T>(item: &Item, read: fn(&Item) -> Result<T>) -> Option<T> {
    let id = record(item).optional_text("webhook_endpoint_id");
    let unreadable = |error: &Error| {
        crate::log!("endpoint.unreadable", endpoint = id, ?error);
        metrics::count("UnreadableEndpoint");
    };
    read(item).inspect_err(unreadable).ok()
}

impl NewEndpoint {
    fn to_item(&self, tenant: &TenantId) -> Item {
        let mut item = key(tenant, self.id);
        let mut set = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
        match &self.address {
            Address::Push(url) => set("url", text(url.as_str())),
            Address::Pull => set("kind", text(Kind::Pull)),
        };
        set("signing_secret", text(self.signing_secret.reveal()));
        set("active", boolean(self.active));
        if !self.active {
            set(health::INACTIVE, number(self.created_at.as_millisecond()));
        }
        set("created_at", text(self.created_at));
        set("updated_at", text(self.created_at));
        for (name, value) in headers::attributes(&self.headers) {
            set(name, value);
        }
        if let Some(description) = &self.description {
            set("description", text(description.as_str()));
        }
        if let Some(events) = &self.events {
            set("events", texts(events.names()));
        }
        item
    }
}

fn previous_secret(record: &Record<'_>) -> Result<Option<PreviousSecret>> {
    let Some(secret) = record.optional_checked("previous_secret", SigningSecret::parse)? else { return Ok(None) };
    Ok(Some(PreviousSecret { secret, expires_at: record.time("previous_secret_expires_at")? }))
}

impl Endpoint {
    /// The URL, keys and headers for an attempt. `None` for a pull endpoint.
    #[must_use]
    pub fn target(&self) -> Option<Target<'_>> {
        self.address.url().map(|url| Target { url, keys: self.keys(), headers: Some(&self.headers) })
    }

    /// The keys that sign deliveries.
    #[must_use]
    pub fn keys(&self) -> SigningKeys<'_> {
        SigningKeys { current: &self.signing_secret, previous: self.previous_secret.as_ref() }
    }

    /// The shards of the delivery log with its deliveries.
    pub fn shards(&self) -> Vec<Shard> {
        Shard::first(DestinationId::Endpoint(self.id), self.log_shards).collect()
    }

    /// Whether the endpoint's filter includes this event.
    #[must_use]
    pub fn wants(&self, event: EventName) -> bool {
        self.events.as_ref().is_none_or(|events| events.wants(event))
    }

    /// Whether events are sent to it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.inactive_since.is_none()
    }

    /// Whether events are sent to it, or held for it.
    #[must_use]
    pub fn takes_events(&self, hold_for: HoldFor, now: Timestamp) -> bool {
        let Some(since) = self.inactive_since else { return true };
        hold_for.end(since).is_some_and(|end| now < end)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = record(item);
        let inactive_since = || match record.optional_number(health::INACTIVE) {
            Some(since) => Ok(Timestamp::from_millisecond(since)),
            // The endpoint was made inactive by a version that did not store the time.
            None => record.parsed("updated_at"),
        };
        Ok(Self {
            inactive_since: (!record.boolean("active")?).then(inactive_since).transpose()?,
            id: record.parsed("webhook_endpoint_id")?,
            address: Address::read(&record)?,
            signing_secret: record.checked("signing_secret", SigningSecret::parse)?,
            previous_secret: previous_secret(&record)?,
            headers: headers::read(&record)?,
            events: record.optional_set("events", EventFilter::parse_name)?,
            log_shards: log_shards(&record),
            health: Health::from_item(item),
            pulled: Pulled::read(&record),
        })
    }
}
