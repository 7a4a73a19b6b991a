//! How an endpoint gets its deliveries, and when its tenant last took some.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    aws::dynamo::Record,
    error::Result,
    id::{NotAnId, names},
    issue::Problem,
    timestamp::Timestamp,
    webhooks::destination::EndpointUrl,
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
