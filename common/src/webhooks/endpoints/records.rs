//! The stored endpoints: creating, listing, finding, changing and deleting them.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    headers,
    health::{DISABLED, Health, SILENT},
    item::*,
    kind::{self, Address, Kind, Pulled},
    last_error::ERROR,
    logged::{LOGGED, deleted, log_shards},
    table::{Endpoints, NOT_FOUND, key, record},
};
use crate::{
    aws::{
        dynamo::{Attribute, Item, Record, boolean, number, text, texts},
        expression::Update,
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
        event::{EventFilter, EventName, WorkflowFilter},
    },
};

#[derive(Debug)]
pub struct NewEndpoint {
    /// The endpoint's id. Ids sort by creation time.
    pub id: EndpointId,
    /// The URL of a push endpoint, or `Pull`.
    pub address: Address,
    /// The secret that signs deliveries.
    pub signing_secret: SigningSecret,
    /// The custom headers.
    pub headers: Headers,
    /// The tenant's description.
    pub description: Option<Description>,
    /// Whether events are delivered to the endpoint.
    pub active: bool,
    /// The events to deliver; `None` means all job events.
    pub events: Option<EventFilter>,
    /// The workflows whose events are delivered; `None` means all.
    pub workflows: Option<WorkflowFilter>,
    /// The time at which it was created.
    pub created_at: Timestamp,
}

/// The fields of an endpoint that a delivery needs.
#[derive(Debug)]
pub struct Endpoint {
    pub id: EndpointId,
    /// The URL of a push endpoint, or `Pull`.
    pub address: Address,
    /// The secret that signs deliveries.
    pub signing_secret: SigningSecret,
    /// The secret before the latest rotation.
    pub previous_secret: Option<PreviousSecret>,
    /// The custom headers.
    pub headers: Headers,
    /// The events to deliver; `None` means all job events.
    pub events: Option<EventFilter>,
    /// The workflows whose events are delivered; `None` means all.
    pub workflows: Option<WorkflowFilter>,
    /// The number of shards in the delivery log.
    pub log_shards: u8,
    /// The health of its receiver.
    pub health: Health,
    /// The time at which it became inactive; `None` if it is active.
    pub inactive_since: Option<Timestamp>,
    /// The times of the last receives, for a pull endpoint.
    pub pulled: Pulled,
}

/// The time for which an inactive endpoint still collects held deliveries. Zero turns holding off.
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

    /// The time until which an endpoint that became inactive at `inactive_since` collects deliveries; `None` if holding
    /// is off.
    #[must_use]
    pub fn end(self, inactive_since: Timestamp) -> Option<Timestamp> {
        (!self.0.is_zero()).then(|| inactive_since.after(self.0))
    }
}

/// A change to an endpoint; `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct Change {
    pub url: Option<EndpointUrl>,
    pub signing_secret: Option<SigningSecret>,
    /// The custom headers, which replace all previous ones.
    pub headers: Patch<Headers>,
    pub description: Patch<Description>,
    /// Whether events are delivered to the endpoint.
    pub active: Option<bool>,
    /// The events to deliver. `Clear` means all job events.
    pub events: Patch<EventFilter>,
    /// The workflows whose events are delivered. `Clear` means all.
    pub workflows: Patch<WorkflowFilter>,
    /// Makes the change only if the endpoint still has this [revision](super::EndpointView::revision).
    pub revision: Option<i64>,
}

/// The effect of a change on the secret of an endpoint.
#[derive(Clone, Copy)]
enum Rotation {
    /// The secret replaces another secret.
    To,
    /// The endpoint already has the secret.
    Done,
}

impl Change {
    /// Whether the change leaves every field unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(
            self,
            Self {
                url: None,
                signing_secret: None,
                headers: Patch::Keep,
                description: Patch::Keep,
                active: None,
                events: Patch::Keep,
                workflows: Patch::Keep,
                revision: _
            }
        )
    }

    /// Whether the change would send the existing headers to another URL, which may belong to another party. A caller
    /// who may change an endpoint may still not read its headers.
    fn takes_headers_along(&self) -> bool {
        self.url.is_some() && matches!(self.headers, Patch::Keep)
    }
}

/// The largest endpoint limit that a deployment may set. A Lambda response has at most 6,291,556 bytes, and contains
/// the list as JSON inside a JSON string. In this form, an endpoint takes up to 21,000 bytes: a URL of 2,048 characters
/// of four bytes each, a description of 500 characters of seven bytes (a control character, escaped twice), 20
/// workflows of 100 characters of four bytes, ten header names of 64 bytes, and 670 bytes for the rest. 299 endpoints
/// fit.
pub const MAX_ENDPOINTS: u32 = 290;
/// The sort key of the counter, which sorts before every id.
const COUNTER: &str = "#count";
/// The attribute of the counter.
const ENDPOINTS: Attribute = Attribute("endpoints");
/// The attributes of an [`Endpoint`], with its [`Health`].
#[rustfmt::skip]
const ATTRIBUTES: [Attribute; 25] = [
    WEBHOOK_ENDPOINT_ID, URL, ACTIVE, SIGNING_SECRET, PREVIOUS_SECRET, PREVIOUS_SECRET_EXPIRES_AT, HEADERS, EVENTS,
    WORKFLOWS, LOG_SHARDS, HEALTHY_AT, INACTIVE_SINCE, UPDATED_AT, KIND, ASKED_AT, TAKEN_AT, UNANSWERED_SINCE, HANGS, SUSPECTED_AT,
    PROBED_AT, FAILING_SINCE, SLOW_AT, REPLIED_AT, GOOD_AT, ERRED_AT,
];

impl Endpoints {
    /// Stores a new endpoint and counts it, if the tenant has fewer than `limit` endpoints. `once` makes the call
    /// idempotent.
    ///
    /// # Errors
    /// The tenant has `limit` endpoints.
    pub async fn create(
        &self,
        tenant: &TenantId,
        endpoint: &NewEndpoint,
        limit: u32,
        once: Option<&Marker>,
    ) -> Result<()> {
        let has_room = ENDPOINTS.is_absent().or(ENDPOINTS.is_below(number(limit.into())));
        Transaction::new("creating an endpoint")
            .update(self.counter(tenant, 1).only_if(has_room))
            .or(Error::Conflict(Conflict::EndpointLimit(limit)))
            .put_new(&self.table, WEBHOOK_ENDPOINT_ID, endpoint.to_item(tenant))
            .once(once)
            .commit(&self.dynamodb)
            .await
    }

    /// Reads the endpoints of `tenant`, active or not. The read is strongly consistent.
    pub async fn all(&self, tenant: &TenantId) -> Result<Vec<Endpoint>> {
        let items = self.query(tenant, &ATTRIBUTES).await?;
        Ok(items.iter().filter_map(|item| readable(item, Endpoint::from_item)).collect())
    }

    /// Reads the endpoint `id` of `tenant`, active or not. The read is strongly consistent.
    pub async fn find(&self, tenant: &TenantId, id: EndpointId) -> Result<Option<Endpoint>> {
        let found = self.get(tenant, id, &ATTRIBUTES).await?;
        found.as_ref().map(Endpoint::from_item).transpose()
    }

    /// Checks that an endpoint exists.
    ///
    /// # Errors
    /// The tenant has no such endpoint.
    pub async fn require(&self, tenant: &TenantId, id: EndpointId) -> Result<()> {
        self.get(tenant, id, &LOGGED).await?.map(drop).ok_or(NOT_FOUND)
    }

    /// Applies `change`. An empty change has no effect, not even on `updated_at`. A new secret is a rotation: the
    /// current secret becomes the previous one and continues to sign for `overlap`.
    ///
    /// # Errors
    /// The tenant has no such endpoint; the endpoint has custom headers, and the change has another URL but no headers;
    /// or the change has a URL, but the endpoint is a pull endpoint.
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
        let endpoint = self.get(tenant, id, &[KIND, URL, REVISION]).await?.ok_or(NOT_FOUND)?;
        if change.url.is_some() && kind::kind(&record(&endpoint))? == Kind::Pull {
            return Err(Error::Conflict(Conflict::PullEndpoint));
        }
        let revision = record(&endpoint).optional_number(REVISION).unwrap_or(0);
        if change.revision.is_some_and(|wanted| wanted != revision) {
            return Err(Error::Busy);
        }
        // If there are no headers to protect, the only other reason is a rotation between the two writes.
        Err(if change.takes_headers_along() { Error::Conflict(Conflict::HeadersNeeded) } else { Error::Busy })
    }

    /// Applies `change` in one write, so that concurrent rotations lose no secret. Returns `false` if there is no such
    /// endpoint, if its secret does not match `rotation`, or if its headers would be sent to another URL.
    async fn apply(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        change: &Change,
        rotation: Rotation,
        overlap: Duration,
        now: Timestamp,
    ) -> Result<bool> {
        let mut update = self.change(tenant, id).set(UPDATED_AT, text(now)).add(REVISION, number(1));
        update = update.only_if(WEBHOOK_ENDPOINT_ID.exists());
        update = match change.revision {
            Some(0) => update.only_if(REVISION.is_absent()),
            Some(revision) => update.only_if(REVISION.equals(number(revision))),
            None => update,
        };
        if let Some(url) = &change.url {
            update = update.set(URL, text(url.as_str())).remove(ERROR).only_if(KIND.is_absent());
            if change.takes_headers_along() {
                update = update.only_if(HEADERS.is_absent().or(URL.equals(text(url.as_str()))));
            }
        }
        update = update.set_all(change.active.map(|active| (ACTIVE, boolean(active))));
        let is_fresh = change.active == Some(true);
        if is_fresh || change.url.is_some() {
            // The recorded standing is that of the receiver at the old URL, or before the endpoint was enabled.
            update = update.set(GOOD_AT, number(now.as_millisecond())).remove(SILENT).remove([SLOW_AT]);
        }
        if is_fresh {
            update = update.set(HEALTHY_AT, number(now.as_millisecond())).remove(DISABLED);
            update = update.remove([FAILING_SINCE, INACTIVE_SINCE]);
        }
        if change.active == Some(false) {
            // The endpoint may already have been inactive.
            update = update.set_once(INACTIVE_SINCE, number(now.as_millisecond()));
        }
        update = match &change.description {
            Patch::Set(description) => update.set(DESCRIPTION, text(description.as_str())),
            Patch::Clear => update.remove([DESCRIPTION]),
            Patch::Keep => update,
        };
        update = match &change.events {
            Patch::Set(events) => update.set(EVENTS, texts(events.names())),
            Patch::Clear => update.remove([EVENTS]),
            Patch::Keep => update,
        };
        update = match &change.workflows {
            Patch::Set(workflows) => update.set(WORKFLOWS, texts(workflows.names())),
            Patch::Clear => update.remove([WORKFLOWS]),
            Patch::Keep => update,
        };
        update = match &change.headers {
            Patch::Set(headers) => update.replace(&[HEADERS, HEADER_NAMES], headers::attributes(headers)),
            Patch::Clear => update.remove([HEADERS, HEADER_NAMES]),
            Patch::Keep => update,
        };
        if let Some(secret) = change.signing_secret.as_ref().map(|secret| text(secret.reveal())) {
            update = update.set(SIGNING_SECRET, secret.clone());
            update = match rotation {
                Rotation::Done => update.only_if(SIGNING_SECRET.equals(secret)),
                Rotation::To => update.only_if(SIGNING_SECRET.differs_from(secret)),
            };
            update = match rotation {
                Rotation::Done => update,
                Rotation::To if overlap.is_zero() => update.remove([PREVIOUS_SECRET, PREVIOUS_SECRET_EXPIRES_AT]),
                Rotation::To => update
                    .copy(PREVIOUS_SECRET, SIGNING_SECRET)
                    .set(PREVIOUS_SECRET_EXPIRES_AT, number(now.after(overlap).as_millisecond())),
            };
        }
        update.send(&self.dynamodb, "updating an endpoint").await
    }

    /// Deletes an endpoint and decrements the count. The log still lists its deliveries until `remembered_until`.
    ///
    /// # Errors
    /// The tenant has no such endpoint.
    pub async fn delete(&self, tenant: &TenantId, id: EndpointId, remembered_until: Timestamp) -> Result<()> {
        let deleted = deleted(tenant, id, remembered_until);
        Transaction::new("deleting an endpoint")
            .delete_if(&self.table, key(tenant, id), WEBHOOK_ENDPOINT_ID.exists())
            .or(NOT_FOUND)
            .put(&self.table, deleted)
            .update(self.counter(tenant, -1))
            .commit(&self.dynamodb)
            .await
    }

    fn counter(&self, tenant: &TenantId, by: i64) -> Update {
        Update::of(&self.table, key(tenant, COUNTER)).add(ENDPOINTS, number(by))
    }
}

/// Reads an item. An unreadable endpoint is skipped and logged, so that it does not stop deliveries to the other
/// endpoints of its tenant.
pub(super) fn readable<T>(item: &Item, read: fn(&Item) -> Result<T>) -> Option<T> {
    let id = record(item).optional_text(WEBHOOK_ENDPOINT_ID);
    let unreadable = |error: &Error| {
        crate::log!("endpoint.unreadable", endpoint = id, ?error);
        metrics::count("UnreadableEndpoint");
    };
    read(item).inspect_err(unreadable).ok()
}

impl NewEndpoint {
    fn to_item(&self, tenant: &TenantId) -> Item {
        let mut item = key(tenant, self.id);
        let mut set = |attribute: Attribute, value: AttributeValue| item.extend([attribute.with(value)]);
        match &self.address {
            Address::Push(url) => set(URL, text(url.as_str())),
            Address::Pull => set(KIND, text(Kind::Pull)),
        }
        set(SIGNING_SECRET, text(self.signing_secret.reveal()));
        set(ACTIVE, boolean(self.active));
        if !self.active {
            set(INACTIVE_SINCE, number(self.created_at.as_millisecond()));
        }
        set(CREATED_AT, text(self.created_at));
        set(UPDATED_AT, text(self.created_at));
        for (name, value) in headers::attributes(&self.headers) {
            set(name, value);
        }
        if let Some(description) = &self.description {
            set(DESCRIPTION, text(description.as_str()));
        }
        if let Some(events) = &self.events {
            set(EVENTS, texts(events.names()));
        }
        if let Some(workflows) = &self.workflows {
            set(WORKFLOWS, texts(workflows.names()));
        }
        item
    }
}

fn previous_secret(record: &Record<'_>) -> Result<Option<PreviousSecret>> {
    let Some(secret) = record.optional_checked(PREVIOUS_SECRET, SigningSecret::parse)? else { return Ok(None) };
    Ok(Some(PreviousSecret { secret, expires_at: record.time(PREVIOUS_SECRET_EXPIRES_AT)? }))
}

impl Endpoint {
    /// The URL, keys and headers for an attempt; `None` for a pull endpoint.
    #[must_use]
    pub fn target(&self) -> Option<Target<'_>> {
        self.address.url().map(|url| Target { url, keys: self.keys(), headers: Some(&self.headers) })
    }

    /// The keys that sign deliveries.
    #[must_use]
    pub fn keys(&self) -> SigningKeys<'_> {
        SigningKeys { current: &self.signing_secret, previous: self.previous_secret.as_ref() }
    }

    /// The shards of the delivery log that contain its deliveries.
    pub fn shards(&self) -> Vec<Shard> {
        Shard::first(DestinationId::Endpoint(self.id), self.log_shards).collect()
    }

    /// Whether the endpoint's filters include this event about a job of this workflow.
    #[must_use]
    pub fn wants(&self, event: EventName, workflow: Option<&str>) -> bool {
        self.events.as_ref().is_none_or(|events| events.wants(event))
            && self.workflows.as_ref().is_none_or(|workflows| workflows.wants(workflow))
    }

    /// Whether the endpoint gets this notice about another endpoint. It must subscribe to the notice by name.
    #[must_use]
    pub fn takes_notice(&self, notice: EventName) -> bool {
        self.events.as_ref().is_some_and(|events| events.wants(notice))
    }

    /// Whether events are sent to the endpoint.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.inactive_since.is_none()
    }

    /// Whether events are sent to the endpoint or held for it.
    #[must_use]
    pub fn takes_events(&self, hold_for: HoldFor, now: Timestamp) -> bool {
        let Some(since) = self.inactive_since else { return true };
        hold_for.end(since).is_some_and(|end| now < end)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = record(item);
        let inactive_since = || match record.optional_number(INACTIVE_SINCE) {
            Some(since) => Ok(Timestamp::from_millisecond(since)),
            // The endpoint became inactive in a version that did not store the time.
            None => record.parsed(UPDATED_AT),
        };
        Ok(Self {
            inactive_since: (!record.boolean(ACTIVE)?).then(inactive_since).transpose()?,
            id: record.parsed(WEBHOOK_ENDPOINT_ID)?,
            address: Address::read(&record)?,
            signing_secret: record.checked(SIGNING_SECRET, SigningSecret::parse)?,
            previous_secret: previous_secret(&record)?,
            headers: headers::read(&record)?,
            events: record.optional_set(EVENTS, EventFilter::parse_name)?,
            workflows: record.optional_set(WORKFLOWS, WorkflowFilter::parse_name)?,
            log_shards: log_shards(&record),
            health: Health::from_item(item),
            pulled: Pulled::read(&record),
        })
    }
}
