//! Endpoints, as shown to their tenants.

use std::borrow::Cow;

use super::{
    headers,
    health::{self, DisabledReason, Health},
    item::*,
    kind::{self, Kind, Pulled},
    last_error::LastError,
    log_shards::log_shards,
    options::Options,
    store::readable,
    table::{Endpoints, NOT_FOUND, record},
    test_events,
};
use crate::{
    aws::dynamo::{Attribute, Item},
    error::Result,
    id::{EndpointId, TenantId},
    name::Description,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DestinationId, Shard},
        destination::SigningSecret,
    },
};

/// An endpoint, as shown to its tenant. It contains neither the secret nor the header values.
#[derive(Debug)]
pub struct EndpointView {
    /// The endpoint's id. Ids sort by creation time.
    pub id: EndpointId,
    /// Whether the service posts deliveries or the tenant receives them.
    pub kind: Kind,
    /// The URL as stored, so that even an invalid one can be shown; `None` for a pull endpoint.
    pub url: Option<String>,
    /// The times of the last calls to receive deliveries, for a pull endpoint.
    pub pulled: Pulled,
    /// Whether events are delivered to the endpoint.
    pub active: bool,
    pub options: Options,
    /// When the endpoint was created.
    pub created_at: Timestamp,
    /// The number of changes so far, for [`EndpointChange::revision`](super::EndpointChange::revision).
    pub revision: i64,
    /// The names of the custom headers, sorted.
    pub header_names: Vec<String>,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// When the service stops signing with the previous secret. May be in the past.
    pub previous_secret_expires_at: Option<Timestamp>,
    /// The flaws of the secret, as the predicate of a sentence about it. A list of endpoints does not read the secrets.
    pub secret_is: Option<String>,
    /// The health of the endpoint's receiver.
    pub health: Health,
    /// The latest failed attempt, accurate to within a minute.
    pub last_error: Option<LastError>,
    /// When and why the service disabled the endpoint, if it did.
    pub disabled: Option<(Timestamp, DisabledReason)>,
    /// When the endpoint became inactive; `None` if it is active.
    pub inactive_since: Option<Timestamp>,
    /// When a user last enabled the endpoint; `None` if its receiver has become healthy again since.
    pub enabled_at: Option<Timestamp>,
    /// Whether the endpoint may have been inactive at some time.
    pub was_inactive: bool,
    /// The time of the newest test.
    pub tested_at: Option<Timestamp>,
    /// The number of shards in the delivery log.
    pub log_shards: u8,
}

#[rustfmt::skip]
const VIEW: [Attribute; 25] = [
    WEBHOOK_ENDPOINT_ID, URL, ACTIVE, HEADER_NAMES, CREATED_AT, UPDATED_AT, REVISION, LOG_SHARDS,
    PREVIOUS_SECRET_EXPIRES_AT, FIRST_FAILED_AT, DISABLED_AT, DISABLED_REASON, KIND, ASKED_AT, TAKEN_AT, ERRED_AT,
    ERRED_WITH, ERRED_CODE, ERRED_BECAUSE, INACTIVE_SINCE, HEALTHY_AT, RENEWED_AT, GATE, STREAK,
    TESTED_AT,
];

impl Endpoints {
    /// Lists all endpoints of `tenant`, oldest first, with a consistent read.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<EndpointView>> {
        let items = self.query(tenant, &[&VIEW, Options::ATTRIBUTES].concat()).await?;
        Ok(items.iter().filter_map(|item| readable(item, EndpointView::from_item)).collect())
    }

    /// Reads the endpoint `id` of `tenant`. The read is strongly consistent.
    ///
    /// # Errors
    /// The tenant has no such endpoint, or the stored endpoint cannot be parsed.
    pub async fn view(&self, tenant: &TenantId, id: EndpointId) -> Result<EndpointView> {
        EndpointView::from_item(&self.viewed(tenant, id).await?)
    }

    /// Reads an endpoint like [`Self::view`]. Returns `None` if it is unreadable.
    ///
    /// # Errors
    /// The tenant has no such endpoint.
    pub async fn readable_view(&self, tenant: &TenantId, id: EndpointId) -> Result<Option<EndpointView>> {
        Ok(readable(&self.viewed(tenant, id).await?, EndpointView::from_item))
    }

    async fn viewed(&self, tenant: &TenantId, id: EndpointId) -> Result<Item> {
        let attributes = [&VIEW, Options::ATTRIBUTES, &[SIGNING_SECRET]].concat();
        self.get(tenant, id, &attributes).await?.ok_or(NOT_FOUND)
    }
}

impl EndpointView {
    fn from_item(item: &Item) -> Result<Self> {
        let record = record(item);
        let kind = kind::kind(&record)?;
        let (health, active) = (Health::from_item(item), record.boolean(ACTIVE)?);
        Ok(Self {
            id: record.parsed(WEBHOOK_ENDPOINT_ID)?,
            kind,
            url: match kind {
                Kind::Push => Some(record.text(URL)?.to_owned()),
                Kind::Pull => None,
            },
            pulled: Pulled::read(&record),
            active,
            options: Options::read(&record)?,
            created_at: record.parsed(CREATED_AT)?,
            updated_at: record.parsed(UPDATED_AT)?,
            revision: record.optional_number(REVISION).unwrap_or(0),
            header_names: headers::read_names(&record)?,
            previous_secret_expires_at: record
                .optional_number(PREVIOUS_SECRET_EXPIRES_AT)
                .map(Timestamp::from_millisecond),
            secret_is: record
                .optional_text(SIGNING_SECRET)
                .and_then(|text| SigningSecret::parse(text).ok())
                .and_then(|secret| secret.flawed()),
            health,
            last_error: LastError::read(&record),
            disabled: health::disabled(&record)?,
            inactive_since: record.optional_time(INACTIVE_SINCE),
            // Enabling an endpoint and changing its URL set this time, and nothing removes it.
            was_inactive: !active || record.optional_time(RENEWED_AT).is_some(),
            // Only enabling an endpoint sets both times to the same value.
            enabled_at: health.healthy_at.filter(|at| record.optional_time(RENEWED_AT) == Some(*at)),
            tested_at: test_events::times(item).last().copied().map(Timestamp::from_millisecond),
            log_shards: log_shards(&record),
        })
    }

    /// The name to show: the URL or, if there is none, the description. If there is neither, a name with the end of the
    /// id.
    pub fn name(&self) -> Cow<'_, str> {
        let described = || self.options.description.as_ref().map(Description::as_str).filter(|text| !text.is_empty());
        match self.url.as_deref().or_else(described) {
            Some(name) => name.into(),
            None => {
                let id = self.id.to_string();
                format!("Pull endpoint …{}", id.rsplit('-').next().unwrap_or_default()).into()
            }
        }
    }

    /// The shards of the delivery log that contain the endpoint's deliveries.
    pub fn shards(&self) -> Vec<Shard> {
        Shard::first(DestinationId::Endpoint(self.id), self.log_shards).collect()
    }
}
