//! An endpoint's kind (push or pull), and when its deliveries were last requested and received.

pub use api::webhooks::Kind;

use super::item::{ASKED_AT, KIND, TAKEN_AT, URL};
use crate::{aws::dynamo::ItemReader, error::Result, timestamp::Timestamp, webhooks::destination::EndpointUrl};

/// How an endpoint gets its deliveries.
#[derive(Clone, Debug)]
pub enum DeliveryMethod {
    /// The service posts deliveries to this URL.
    Push(EndpointUrl),
    /// The tenant receives deliveries.
    Pull,
}

/// When a client last called to receive deliveries. To save writes, the times are updated only at intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    /// When the last call was made, even if no delivery was waiting.
    pub asked_at: Option<Timestamp>,
    /// When a call last returned a delivery.
    pub taken_at: Option<Timestamp>,
}

impl DeliveryMethod {
    /// The URL of a push endpoint.
    pub fn url(&self) -> Option<&EndpointUrl> {
        match self {
            Self::Push(url) => Some(url),
            Self::Pull => None,
        }
    }

    pub(super) fn read(record: &ItemReader<'_>) -> Result<Self> {
        match kind(record)? {
            Kind::Push => record.checked(URL, EndpointUrl::parse).map(Self::Push),
            Kind::Pull => Ok(Self::Pull),
        }
    }
}

/// Reads an endpoint's kind. Items of push endpoints do not have this attribute.
pub(super) fn kind(record: &ItemReader<'_>) -> Result<Kind> {
    if record.optional_text(KIND).is_some() { record.parsed(KIND) } else { Ok(Kind::Push) }
}

impl Pulled {
    pub(super) fn read(record: &ItemReader<'_>) -> Self {
        let time = |name| record.optional_time(name);
        Self { asked_at: time(ASKED_AT), taken_at: time(TAKEN_AT) }
    }
}
