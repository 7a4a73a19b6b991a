//! The stored endpoints: creating, listing, finding, changing and deleting them.

use std::{
    ops::ControlFlow::{Break, Continue},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    audit_trail::{self, AUDITED},
    changes::{EndpointChange, NewEndpoint},
    headers,
    health::{DISABLED, Health},
    item::*,
    kind::{self, DeliveryMethod, Kind, Pulled},
    last_error::ERROR,
    log_shards::{LOGGED, deleted, log_shards},
    options::Options,
    table::{Endpoints, NOT_FOUND, key, record},
};
use crate::{
    audit::{Action, Entry, Recorder},
    aws::{
        dynamo::{Attribute, Item, ItemReader, boolean, number, text},
        expression::Update,
        retry_conflicts,
        transaction::{Marker, Transaction},
    },
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    id::{EndpointId, TenantId},
    patch::Patch,
    random,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DestinationId, Shard, Status},
        destination::{EndpointUrl, Headers, PreviousSecret, RequestTarget, SigningKeys, SigningSecret},
        event::{EventName, PayloadForm},
        log::endings::Endings,
    },
};

/// An endpoint with only the fields that a delivery needs.
#[derive(Debug)]
pub struct Endpoint {
    pub id: EndpointId,
    /// The URL of a push endpoint, or `Pull`.
    pub method: DeliveryMethod,
    /// The secret for signing deliveries.
    pub signing_secret: SigningSecret,
    /// The secret before the latest rotation.
    pub previous_secret: Option<PreviousSecret>,
    /// The custom headers.
    pub headers: Headers,
    pub options: Options,
    /// The number of shards in the delivery log.
    pub log_shards: u8,
    /// The health of the endpoint's receiver.
    pub health: Health,
    /// When it became inactive; `None` if it is active.
    pub inactive_since: Option<Timestamp>,
    /// When a user last changed it.
    pub updated_at: Timestamp,
    /// The times of the last calls to receive deliveries, for a pull endpoint.
    pub pulled: Pulled,
}

/// The time that an inactive endpoint collects held deliveries. Zero disables holding.
#[derive(Clone, Copy, Debug)]
pub struct HoldFor(Duration);

impl HoldFor {
    /// Reads `HOLD_FOR`, in seconds.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        env.number("HOLD_FOR", 0..=31_536_000).map(|seconds| Self(Duration::from_secs(seconds)))
    }

    /// When an endpoint that became inactive at `inactive_since` stops collecting deliveries; `None` if holding is off.
    pub fn end(self, inactive_since: Timestamp) -> Option<Timestamp> {
        (!self.0.is_zero()).then(|| inactive_since.after(self.0))
    }
}

/// Reads the maximum number of endpoints per tenant from `MAX_ENDPOINTS_PER_TENANT`.
pub fn max_endpoints(env: &Env) -> Result<u32, ConfigError> {
    env.number("MAX_ENDPOINTS_PER_TENANT", 1..=MAX_ENDPOINTS)
}

/// The largest endpoint limit that a deployment may set. A Lambda response can have at most 6,291,556 bytes, and
/// contains the list as JSON inside a JSON string. Encoded this way, an endpoint takes up to 21,000 bytes: a URL with
/// 2,048 characters at four bytes each, a description with 500 characters at seven bytes (a control character, escaped
/// twice), 20 workflows with 100 characters at four bytes, ten header names with 64 bytes, and 730 bytes for the rest.
/// 299 endpoints fit.
pub const MAX_ENDPOINTS: u32 = 290;
/// The maximum number of tries for a change that conflicts with other calls.
const MAX_TRIES: u32 = 20;
const UPDATING: &str = "updating an endpoint";
/// The sort key of the counter, which sorts before every id.
const COUNTER: &str = "#count";
/// The attribute of the counter.
const ENDPOINTS: Attribute = Attribute("endpoints");
/// The attributes of an [`Endpoint`], with its [`Health`].
#[rustfmt::skip]
const ATTRIBUTES: [Attribute; 19] = [
    WEBHOOK_ENDPOINT_ID, URL, ACTIVE, SIGNING_SECRET, PREVIOUS_SECRET, PREVIOUS_SECRET_EXPIRES_AT, HEADERS, LOG_SHARDS,
    HEALTHY_AT, INACTIVE_SINCE, UPDATED_AT, KIND, ASKED_AT, TAKEN_AT, FIRST_FAILED_AT, GATE, ERRED_AT, STREAK, TOLD_SINCE,
];

impl Endpoints {
    /// Stores a new endpoint and counts it, if the tenant has fewer than `limit` endpoints. `once` makes the call
    /// idempotent.
    ///
    /// # Errors
    /// The tenant has `limit` endpoints.
    pub async fn create(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        endpoint: &NewEndpoint,
        limit: u32,
        once: Option<&Marker>,
    ) -> Result<()> {
        let has_room = ENDPOINTS.is_absent().or(ENDPOINTS.is_below(number(limit.into())));
        let target = audit_trail::target(endpoint.id, endpoint.method.url().map(EndpointUrl::as_str));
        let entry = Entry::new(Action::WebhookCreated, tenant, target).with(audit_trail::fields(endpoint));
        Transaction::new("creating an endpoint")
            .update(self.counter(tenant, 1).only_if(has_room))
            .or(Error::Conflict(Conflict::EndpointLimit(limit)))
            .put_new(&self.table, WEBHOOK_ENDPOINT_ID, endpoint.to_item(tenant))
            .once(once)
            .record(recorder, entry)?
            .commit(&self.dynamodb)
            .await
    }

    /// Reads the endpoints of `tenant`, active or not. The read is strongly consistent.
    pub async fn all(&self, tenant: &TenantId) -> Result<Vec<Endpoint>> {
        let items = self.query(tenant, &[&ATTRIBUTES, Options::ATTRIBUTES].concat()).await?;
        Ok(items.iter().filter_map(|item| readable(item, Endpoint::from_item)).collect())
    }

    /// Reads the endpoint `id` of `tenant`, active or not. The read is strongly consistent.
    pub async fn find(&self, tenant: &TenantId, id: EndpointId) -> Result<Option<Endpoint>> {
        let found = self.get(tenant, id, &[&ATTRIBUTES, Options::ATTRIBUTES].concat()).await?;
        found.as_ref().map(Endpoint::from_item).transpose()
    }

    /// Checks that an endpoint exists.
    ///
    /// # Errors
    /// The tenant has no such endpoint.
    pub async fn require(&self, tenant: &TenantId, id: EndpointId) -> Result<()> {
        self.get(tenant, id, &LOGGED).await?.map(drop).ok_or(NOT_FOUND)
    }

    /// Applies `change`. An empty change has no effect, not even on `updated_at`. A new secret rotates the current one,
    /// which becomes the previous secret and stays in use for the change's overlap or, without one, for `overlap`.
    ///
    /// # Errors
    /// The tenant has no such endpoint; the endpoint has custom headers, and the change has another URL but no headers;
    /// or the change has a URL, but the endpoint is a pull endpoint.
    pub async fn update(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        id: EndpointId,
        change: EndpointChange,
        overlap: Duration,
        now: Timestamp,
    ) -> Result<()> {
        if change.is_empty() {
            return self.require(tenant, id).await;
        }
        for attempt in 0..MAX_TRIES {
            let before = self.get(tenant, id, &[&AUDITED, Options::ATTRIBUTES].concat()).await?.ok_or(NOT_FOUND)?;
            check(&change, &before)?;
            let update = self.written(tenant, id, &change, &before, overlap, now);
            let changes = audit_trail::changes(&before, &change);
            // A transaction even if there is nothing to record: if its response is lost, its repetition succeeds.
            let transaction = Transaction::new(UPDATING).update(update);
            let transaction = if changes.is_empty() {
                transaction
            } else {
                let target = audit_trail::target(id, record(&before).optional_text(URL));
                transaction.record(recorder, Entry::new(Action::WebhookUpdated, tenant, target).with(changes))?
            };
            if transaction.try_commit(&self.dynamodb).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10 << attempt.min(5)).mul_f64(random::fraction())).await;
        }
        Err(Error::Busy)
    }

    /// Builds the write for `change`, on condition that the endpoint has not been changed since `before` was read. The
    /// condition ensures that an audit log entry contains the values that were replaced, and that concurrent rotations
    /// do not lose a secret.
    fn written(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        change: &EndpointChange,
        before: &Item,
        overlap: Duration,
        now: Timestamp,
    ) -> Update {
        let (before, overlap) = (record(before), change.overlap.unwrap_or(overlap));
        let mut update = self.change(tenant, id).set(UPDATED_AT, text(now)).add(REVISION, number(1));
        update = update.only_if(WEBHOOK_ENDPOINT_ID.exists());
        update = match before.optional_number(REVISION) {
            None => update.only_if(REVISION.is_absent()),
            Some(revision) => update.only_if(REVISION.equals(number(revision))),
        };
        // When the service disables an endpoint, the revision does not change.
        if let Some(active) = change.active.and(before.optional_boolean(ACTIVE)) {
            update = update.only_if(ACTIVE.equals(boolean(active)));
        }
        if let Some(url) = &change.url {
            update = update.set(URL, text(url.as_str())).remove(ERROR);
        }
        update = update.set_all(change.active.map(|active| (ACTIVE, boolean(active))));
        let is_fresh = change.active == Some(true);
        if is_fresh || change.url.is_some() {
            // The recorded standing applies to the receiver at the old URL, or to the time before the endpoint was
            // enabled.
            update = update.set(RENEWED_AT, number(now.as_millisecond())).remove([GATE]);
        }
        if change.active.is_some() || change.url.is_some() {
            update = update.remove([STREAK]);
        }
        if is_fresh {
            update = update.set(HEALTHY_AT, number(now.as_millisecond())).remove(DISABLED);
            update = update.remove([FIRST_FAILED_AT, INACTIVE_SINCE]);
        }
        if change.active == Some(false) {
            // The endpoint may already have been inactive.
            update = update.set_once(INACTIVE_SINCE, number(now.as_millisecond()));
        }
        update = change.options.set(update);
        update = match &change.headers {
            Patch::Set(headers) => update.replace(&[HEADERS, HEADER_NAMES], headers::attributes(headers)),
            Patch::Clear => update.remove([HEADERS, HEADER_NAMES]),
            Patch::Keep => update,
        };
        let secret = change.signing_secret.as_ref().map(SigningSecret::reveal);
        let earlier = before.optional_time(PREVIOUS_SECRET_EXPIRES_AT);
        match secret.filter(|secret| before.optional_text(SIGNING_SECRET) != Some(secret)) {
            None => match change.overlap.map(|overlap| now.after(overlap)) {
                Some(end) if end <= now => update.remove([PREVIOUS_SECRET, PREVIOUS_SECRET_EXPIRES_AT]),
                Some(end) if earlier > Some(end) => {
                    update.set(PREVIOUS_SECRET_EXPIRES_AT, number(end.as_millisecond()))
                }
                _ => update,
            },
            Some(secret) if overlap.is_zero() => {
                update.set(SIGNING_SECRET, text(secret)).remove([PREVIOUS_SECRET, PREVIOUS_SECRET_EXPIRES_AT])
            }
            Some(secret) => update
                .set(SIGNING_SECRET, text(secret))
                .copy(PREVIOUS_SECRET, SIGNING_SECRET)
                .set(PREVIOUS_SECRET_EXPIRES_AT, number(now.after(overlap).as_millisecond())),
        }
    }

    /// Deletes an endpoint and decrements the count. The sweep ends its waiting deliveries. The log still lists them until
    /// `remembered_until`.
    ///
    /// # Errors
    /// The tenant has no such endpoint.
    pub async fn delete(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        id: EndpointId,
        endings: &Endings,
        remembered_until: Timestamp,
    ) -> Result<()> {
        retry_conflicts((), |()| async move {
            let endpoint = self.get(tenant, id, &[WEBHOOK_ENDPOINT_ID, URL, LOG_SHARDS]).await?.ok_or(NOT_FOUND)?;
            let endpoint = record(&endpoint);
            let url = endpoint.optional_text(URL);
            let target = audit_trail::target(id, url);
            // The log may be spread over more shards at any time before the deletion, but not after it.
            let is_as_read = match endpoint.optional_number(LOG_SHARDS) {
                None => LOG_SHARDS.is_absent(),
                Some(shards) => LOG_SHARDS.equals(number(shards)),
            };
            let transaction = Transaction::new("deleting an endpoint")
                .delete_if(&self.table, key(tenant, id), WEBHOOK_ENDPOINT_ID.exists().and(is_as_read))
                .put(&self.table, deleted(tenant, id, Some(log_shards(&endpoint)), remembered_until))
                .update(self.counter(tenant, -1));
            let is_deleted = endings
                .note(transaction, tenant, id, url.is_none())
                .record(recorder, Entry::new(Action::WebhookDeleted, tenant, target))?
                .try_commit(&self.dynamodb)
                .await?;
            Ok(if is_deleted { Break(()) } else { Continue(()) })
        })
        .await
    }

    fn counter(&self, tenant: &TenantId, by: i64) -> Update {
        Update::of(&self.table, key(tenant, COUNTER)).add(ENDPOINTS, number(by))
    }
}

/// Checks that `change` is permitted for the endpoint in `before`.
///
/// # Errors
/// `change` sets a URL on a pull endpoint, would send the current headers to another URL, or is for another revision
/// ([`Error::Busy`]).
fn check(change: &EndpointChange, before: &Item) -> Result<()> {
    let stored = record(before);
    if change.url.is_some() && kind::kind(&stored)? == Kind::Pull {
        return Err(Error::Conflict(Conflict::PullEndpoint));
    }
    let revision = stored.optional_number(REVISION).unwrap_or(0);
    if change.revision.is_some_and(|wanted| wanted != revision) {
        return Err(Error::Busy);
    }
    let is_other = change.url.as_ref().is_some_and(|url| stored.optional_text(URL) != Some(url.as_str()));
    if is_other && change.takes_headers_along() && before.contains_key(HEADERS.name()) {
        return Err(Error::Conflict(Conflict::HeadersNeeded));
    }
    Ok(())
}

/// Reads an item. An unreadable endpoint is skipped and logged, so it does not stop deliveries to the other endpoints
/// of its tenant.
pub(super) fn readable<T>(item: &Item, read: impl FnOnce(&Item) -> Result<T>) -> Option<T> {
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
        match &self.method {
            DeliveryMethod::Push(url) => set(URL, text(url.as_str())),
            DeliveryMethod::Pull => set(KIND, text(Kind::Pull)),
        }
        set(SIGNING_SECRET, text(self.signing_secret.reveal()));
        set(ACTIVE, boolean(self.active));
        if !self.active {
            set(INACTIVE_SINCE, number(self.created_at.as_millisecond()));
        }
        set(CREATED_AT, text(self.created_at));
        set(UPDATED_AT, text(self.created_at));
        for (name, value) in headers::attributes(&self.headers).into_iter().chain(self.options.attributes()) {
            set(name, value);
        }
        item
    }
}

fn previous_secret(record: &ItemReader<'_>) -> Result<Option<PreviousSecret>> {
    let Some(secret) = record.optional_checked(PREVIOUS_SECRET, SigningSecret::parse)? else { return Ok(None) };
    Ok(Some(PreviousSecret { secret, expires_at: record.time(PREVIOUS_SECRET_EXPIRES_AT)? }))
}

impl Endpoint {
    /// The URL, keys and headers for an attempt; `None` for a pull endpoint.
    pub fn target(&self) -> Option<RequestTarget<'_>> {
        self.method.url().map(|url| RequestTarget { url, keys: self.keys(), headers: Some(&self.headers) })
    }

    /// The keys for signing deliveries.
    pub fn keys(&self) -> SigningKeys<'_> {
        SigningKeys { current: &self.signing_secret, previous: self.previous_secret.as_ref() }
    }

    /// The shards of the delivery log that contain the endpoint's deliveries.
    pub fn shards(&self) -> Vec<Shard> {
        Shard::first(DestinationId::Endpoint(self.id), self.log_shards).collect()
    }

    /// Whether the endpoint's filters select this event for a job in this workflow.
    pub fn wants(&self, event: EventName, workflow: Option<&str>) -> bool {
        self.options.events.as_ref().is_none_or(|events| events.wants(event))
            && self.options.workflows.as_ref().is_none_or(|workflows| workflows.wants(workflow))
    }

    /// How much of an event the endpoint gets.
    pub fn payload_form(&self) -> PayloadForm {
        self.options.payload.unwrap_or(PayloadForm::Full)
    }

    /// Returns the delivery after an attempt, with what the log keeps of it if it has succeeded.
    pub fn kept(&self, after: Delivery, now: Timestamp) -> Delivery {
        match after.status {
            Status::Delivered if !self.keeps_payloads() => after.erased(now),
            Status::Delivered => Delivery { is_thin: self.payload_form() == PayloadForm::Thin, ..after },
            _ => after,
        }
    }

    /// Whether the log keeps the payloads of deliveries that succeed.
    pub fn keeps_payloads(&self) -> bool {
        self.options.keep_payload.unwrap_or(true)
    }

    /// The maximum number of attempts in progress.
    pub fn ceiling(&self) -> Option<usize> {
        self.options.max_concurrent.map(|ceiling| ceiling.get().into())
    }

    /// Whether the endpoint gets this notice about another endpoint. It must subscribe to the notice by name.
    pub fn takes_notice(&self, notice: EventName) -> bool {
        self.options.events.as_ref().is_some_and(|events| events.wants(notice))
    }

    /// Whether events are sent to the endpoint.
    pub fn is_active(&self) -> bool {
        self.inactive_since.is_none()
    }

    /// Whether events are sent to the endpoint or held for it.
    pub fn takes_events(&self, hold_for: HoldFor, now: Timestamp) -> bool {
        let Some(since) = self.inactive_since else { return true };
        hold_for.end(since).is_some_and(|end| now < end)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = record(item);
        let inactive_since = || match record.optional_number(INACTIVE_SINCE) {
            Some(since) => Ok(Timestamp::from_millisecond(since)),
            // The endpoint was made inactive by a version that did not store the time.
            None => record.parsed(UPDATED_AT),
        };
        Ok(Self {
            inactive_since: (!record.boolean(ACTIVE)?).then(inactive_since).transpose()?,
            id: record.parsed(WEBHOOK_ENDPOINT_ID)?,
            method: DeliveryMethod::read(&record)?,
            signing_secret: record.checked(SIGNING_SECRET, SigningSecret::parse)?,
            previous_secret: previous_secret(&record)?,
            headers: headers::read(&record)?,
            options: Options::read(&record)?,
            log_shards: log_shards(&record),
            health: Health::from_item(item),
            updated_at: record.parsed(UPDATED_AT)?,
            pulled: Pulled::read(&record),
        })
    }
}
