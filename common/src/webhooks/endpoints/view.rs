//! Endpoints in the form that their tenants see.

use super::{
    headers,
    health::{self, DisabledReason, Health},
    item::*,
    kind::{self, Kind, Pulled},
    last_error::LastError,
    logged::log_shards,
    records::readable,
    table::{Endpoints, NOT_FOUND, record},
};
use crate::{
    aws::dynamo::{Attribute, Item},
    error::Result,
    id::{EndpointId, TenantId},
    name::Description,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DestinationId, Shard},
        event::{EventFilter, WorkflowFilter},
    },
};

/// An endpoint in the form that its tenant sees. Its secret and the values of its headers are not read.
#[derive(Debug)]
pub struct EndpointView {
    /// The endpoint's id; ids sort by creation time.
    pub id: EndpointId,
    /// Whether the service posts its deliveries or the tenant receives them.
    pub kind: Kind,
    /// The stored text of the URL, so that the owner can see even a broken URL. A pull endpoint has none.
    pub url: Option<String>,
    /// The last calls to receive its deliveries, if it is a pull endpoint.
    pub pulled: Pulled,
    /// The tenant's own description.
    pub description: Option<Description>,
    /// Whether events are delivered to it.
    pub active: bool,
    /// The events to deliver; `None` for all about jobs.
    pub events: Option<EventFilter>,
    /// The workflows whose events to deliver; `None` for all.
    pub workflows: Option<WorkflowFilter>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The number of times that it was changed, for [`Change::revision`](super::Change::revision).
    pub revision: i64,
    /// The names of the headers that its receiver gets, sorted.
    pub header_names: Vec<String>,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The time at which the secret before the latest rotation stops (or stopped) signing.
    pub previous_secret_expires_at: Option<Timestamp>,
    /// The time since which deliveries to it have failed without a success.
    pub failing_since: Option<Timestamp>,
    /// The latest failed attempt, to the minute.
    pub last_error: Option<LastError>,
    /// The time of, and the reason for, the service's decision to make it inactive, if it did.
    pub disabled: Option<(Timestamp, DisabledReason)>,
    /// The time at which it became inactive, if it is.
    pub inactive_since: Option<Timestamp>,
    /// The time at which a user last enabled it, unless its receiver has become healthy again since.
    pub enabled_at: Option<Timestamp>,
    /// The time at which its receiver last became healthy again, or a user enabled it.
    pub healthy_at: Option<Timestamp>,
    /// Whether its receiver is slow or hangs, so that its deliveries take turns.
    pub is_slow: bool,
    /// The number of its shards in the delivery log.
    pub log_shards: u8,
}

#[rustfmt::skip]
const VIEW: [Attribute; 26] = [
    WEBHOOK_ENDPOINT_ID, URL, ACTIVE, DESCRIPTION, HEADER_NAMES, CREATED_AT, UPDATED_AT, REVISION, LOG_SHARDS,
    PREVIOUS_SECRET_EXPIRES_AT, EVENTS, WORKFLOWS, FAILING_SINCE, DISABLED_AT, DISABLED_REASON, KIND, ASKED_AT, TAKEN_AT,
    ERRED_AT, ERRED_WITH, ERRED_CODE, ERRED_BECAUSE, INACTIVE_SINCE, HEALTHY_AT, GOOD_AT, SLOW_AT,
];

impl Endpoints {
    /// All endpoints of `tenant`, oldest first, read consistently.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<EndpointView>> {
        let items = self.query(tenant, &VIEW).await?;
        Ok(items.iter().filter_map(|item| readable(item, EndpointView::from_item)).collect())
    }

    /// The endpoint `id` of `tenant`, read consistently.
    ///
    /// # Errors
    /// The tenant has no such endpoint, or it cannot be read.
    pub async fn view(&self, tenant: &TenantId, id: EndpointId) -> Result<EndpointView> {
        EndpointView::from_item(&self.get(tenant, id, &VIEW).await?.ok_or(NOT_FOUND)?)
    }
}

impl EndpointView {
    fn from_item(item: &Item) -> Result<Self> {
        let record = record(item);
        let kind = kind::kind(&record)?;
        let health = Health::from_item(item);
        Ok(Self {
            id: record.parsed(WEBHOOK_ENDPOINT_ID)?,
            kind,
            url: match kind {
                Kind::Push => Some(record.text(URL)?.to_owned()),
                Kind::Pull => None,
            },
            pulled: Pulled::read(&record),
            description: record.optional_checked(DESCRIPTION, Description::parse)?,
            active: record.boolean(ACTIVE)?,
            events: record.optional_set(EVENTS, EventFilter::parse_name)?,
            workflows: record.optional_set(WORKFLOWS, WorkflowFilter::parse_name)?,
            created_at: record.parsed(CREATED_AT)?,
            updated_at: record.parsed(UPDATED_AT)?,
            revision: record.optional_number(REVISION).unwrap_or(0),
            header_names: headers::read_names(&record)?,
            previous_secret_expires_at: record
                .optional_number(PREVIOUS_SECRET_EXPIRES_AT)
                .map(Timestamp::from_millisecond),
            failing_since: health.failing_since,
            last_error: LastError::read(&record),
            disabled: health::disabled(&record)?,
            inactive_since: record.optional_number(INACTIVE_SINCE).map(Timestamp::from_millisecond),
            // Enabling an endpoint sets both times to its own. Nothing else sets both at once.
            enabled_at: health.healthy_at.filter(|at| health.good_at == Some(*at)),
            healthy_at: health.healthy_at,
            is_slow: health.slow_at.is_some(),
            log_shards: log_shards(&record),
        })
    }

    /// The name to show: its URL or, if it has none, its description.
    #[must_use]
    pub fn name(&self) -> &str {
        let described = || self.description.as_ref().map(Description::as_str).filter(|text| !text.is_empty());
        self.url.as_deref().or_else(described).unwrap_or("A pull endpoint")
    }

    /// The shards of the delivery log with its deliveries.
    pub fn shards(&self) -> Vec<Shard> {
        Shard::first(DestinationId::Endpoint(self.id), self.log_shards).collect()
    }
}
