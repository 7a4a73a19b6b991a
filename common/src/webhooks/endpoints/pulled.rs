//! Pull endpoints: their tenants take what comes for them. Their records say when somebody last did.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    health::is_noted,
    records::Receiver,
    table::{Endpoints, NOT_FOUND},
};
use crate::{
    aws::dynamo::{Record, change, number},
    error::{Conflict, Error, Result},
    id::{EndpointId, NotAnId, TenantId, names},
    issue::Problem,
    timestamp::Timestamp,
    webhooks::target::EndpointUrl,
};

/// How an endpoint gets its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// They are posted to its URL.
    Push,
    /// Its tenant takes them.
    Pull,
}

/// How an endpoint gets its deliveries, and where.
#[derive(Clone, Debug)]
pub enum Address {
    /// They are posted to this URL.
    Push(EndpointUrl),
    /// Its tenant takes them.
    Pull,
}

/// When somebody last asked for what waits, and when there last was something to take. Both are noted only now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    /// When somebody asked.
    pub asked_at: Option<Timestamp>,
    /// When something was taken.
    pub taken_at: Option<Timestamp>,
}

names! { Kind {
    Push => "push",
    Pull => "pull",
} }

/// For how long an endpoint's record need not say that somebody asks: an idle client asks thousands of times an hour.
const ASKED: Duration = Duration::from_secs(10 * 60);
/// For how long it need not say that something is taken.
const TAKEN: Duration = Duration::from_secs(60);

impl Kind {
    /// Parses a kind from a request.
    ///
    /// # Errors
    /// There is no such kind.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be push or pull")])
    }
}

impl Address {
    /// The URL, if deliveries are posted.
    #[must_use]
    pub fn url(&self) -> Option<&EndpointUrl> {
        match self {
            Self::Push(url) => Some(url),
            Self::Pull => None,
        }
    }

    pub(super) fn read(record: &Record<'_>) -> Result<Self> {
        match kind(record)? {
            Kind::Push => record.checked("url", EndpointUrl::parse).map(Self::Push),
            Kind::Pull => Ok(Self::Pull),
        }
    }
}

/// The kind of an endpoint. Those that were stored before there were kinds are for pushing.
pub(super) fn kind(record: &Record<'_>) -> Result<Kind> {
    if record.optional_text("kind").is_some() { record.parsed("kind") } else { Ok(Kind::Push) }
}

impl Pulled {
    pub(super) fn read(record: &Record<'_>) -> Self {
        let time = |name| record.optional_number(name).map(Timestamp::from_millisecond);
        Self { asked_at: time("asked_at"), taken_at: time("taken_at") }
    }
}

impl Endpoints {
    /// The pull endpoint `id` of `tenant`, active, read consistently.
    ///
    /// # Errors
    /// The tenant has no such endpoint, it is inactive, or deliveries are posted to it; or the read fails.
    pub async fn pulled(&self, tenant: &TenantId, id: EndpointId) -> Result<Receiver> {
        let endpoint = self.find(tenant, id).await?.ok_or(NOT_FOUND)?;
        match endpoint.address {
            Address::Push(_) => Err(Error::Conflict(Conflict::NotAPullEndpoint)),
            Address::Pull if !endpoint.is_active() => Err(Error::Conflict(Conflict::EndpointInactive)),
            Address::Pull => Ok(endpoint),
        }
    }

    /// Notes that somebody asked for what waits for an endpoint, and whether there was something to take, unless its record
    /// says so already.
    pub async fn note_pulled(
        &self,
        tenant: &TenantId,
        endpoint: &Receiver,
        has_taken: bool,
        now: Timestamp,
    ) -> Result<()> {
        let is_old = |at: Option<Timestamp>, after| at.is_none_or(|at| now.since(at) >= after);
        let Pulled { asked_at, taken_at } = endpoint.pulled;
        let mut set = Vec::new();
        if is_old(asked_at, ASKED) {
            set.push(("asked_at", number(now.as_millisecond())));
        }
        if has_taken && is_old(taken_at, TAKEN) {
            set.push(("taken_at", number(now.as_millisecond())));
        }
        if set.is_empty() {
            return Ok(());
        }
        // It may have been deleted meanwhile.
        let update = change(self.change(tenant, endpoint.id), set, &[]);
        is_noted(update.condition_expression("attribute_exists(webhook_endpoint_id)")).await.map(drop)
    }
}
