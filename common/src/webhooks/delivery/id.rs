//! The ids of deliveries.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{
    id::{EndpointId, NotAnId, TenantId},
    issue::Problem,
    runtime_sources,
    timestamp::Timestamp,
};

/// Identifies a delivery within its tenant. The id is also the key of the delivery in the log, so a lookup does not
/// need an index: `<endpoint id or "callback">.<shard>.<milliseconds>.<webhook-id in hex>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryId {
    pub destination: DestinationId,
    /// The shard of the destination's log that stores the delivery.
    pub shard: u8,
    /// When the event entered its queue, in Unix milliseconds.
    pub at: Millis,
    /// The value of the `webhook-id` header.
    pub webhook_id: WebhookId,
}

/// A Unix time in milliseconds. Its string form has thirteen digits, so it sorts by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Millis(i64);

/// The part of the log that a delivery belongs to: an endpoint's part, or the part for all the tenant's callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DestinationId {
    /// A stored endpoint.
    Endpoint(EndpointId),
    /// The callbacks of all the tenant's jobs.
    Callback,
}

/// The id in the `webhook-id` header. All attempts for an event, and for its duplicates, share the id, so the receiver
/// can detect duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookId(u128);

/// A separately read part of a tenant's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// The destination of the shard's deliveries.
    pub destination: DestinationId,
    /// The number of this shard within the destination, starting at 0.
    pub number: u8,
}

/// The number of shards in the log of a busy destination. A DynamoDB partition accepts a thousand writes per second.
pub const SHARDS: u8 = 8;

impl DeliveryId {
    /// Parses an id from a request.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be the id of a delivery")])
    }

    /// The first half of the id.
    pub(in crate::webhooks) fn shard(&self) -> Shard {
        Shard { destination: self.destination, number: self.shard }
    }

    /// When the event entered its queue.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_millisecond(self.at.get())
    }

    /// The second half of the id, which sorts by time.
    pub(in crate::webhooks) fn moment(&self) -> String {
        format!("{}.{:032x}", self.at, self.webhook_id.0)
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { destination, shard, at, webhook_id } = self;
        write!(f, "{destination}.{shard}.{at}.{:032x}", webhook_id.0)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.destination, self.number)
    }
}

impl Shard {
    pub fn first(destination: DestinationId, number: u8) -> impl Iterator<Item = Self> {
        (0..number).map(move |number| Self { destination, number })
    }

    /// The id of the delivery in this shard whose second half is `moment`.
    pub(in crate::webhooks) fn delivery(self, moment: &str) -> Result<DeliveryId, NotAnId> {
        let Self { destination, number: shard } = self;
        let (at, webhook_id) = moment.split_once('.').ok_or(NotAnId)?;
        Ok(DeliveryId { destination, shard, at: Millis::parse(at)?, webhook_id: WebhookId::parse_hex(webhook_id)? })
    }
}

impl FromStr for DeliveryId {
    type Err = NotAnId;

    /// Accepts only the exact output of `Display`, so each delivery has only one id.
    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(NotAnId);
        let destination = part()?.parse()?;
        let number = part()?.parse().map_err(|_not_a_number| NotAnId)?;
        let id = Shard { destination, number }.delivery(part()?)?;
        if number < SHARDS && id.to_string() == text { Ok(id) } else { Err(NotAnId) }
    }
}

impl Serialize for DeliveryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Millis {
    /// The time `milliseconds` after the Unix epoch, limited to the range of thirteen digits.
    pub fn new(milliseconds: i64) -> Self {
        Self(milliseconds.clamp(0, 9_999_999_999_999))
    }

    /// Milliseconds since the Unix epoch.
    pub fn get(self) -> i64 {
        self.0
    }

    fn parse(text: &str) -> Result<Self, NotAnId> {
        let digits = text.len() == 13 && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse().map(Self).map_err(|_not_a_number| NotAnId) } else { Err(NotAnId) }
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013}", self.0)
    }
}

impl DestinationId {
    /// The endpoint; `None` for callbacks.
    pub fn endpoint(self) -> Option<EndpointId> {
        match self {
            Self::Endpoint(id) => Some(id),
            Self::Callback => None,
        }
    }
}

impl fmt::Display for DestinationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(id) => id.fmt(f),
            Self::Callback => f.write_str("callback"),
        }
    }
}

impl FromStr for DestinationId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if text == "callback" { Ok(Self::Callback) } else { text.parse().map(Self::Endpoint) }
    }
}

impl WebhookId {
    /// Computes the id for an event and a destination: 128 bits of a hash of the tenant, the job, the event, and the
    /// endpoint's id or the callback's URL. Each part is prefixed with its length, so different parts never produce the
    /// same input.
    pub fn of(tenant: &TenantId, job: &str, event: &str, destination: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [tenant.as_str(), job, event, destination] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        let half = hash.finalize().first_chunk::<16>().copied().unwrap_or_default();
        Self(u128::from_be_bytes(half))
    }

    /// Generates a random id for a test, because tests are never duplicates of each other.
    pub fn unique() -> Self {
        Self(runtime_sources::uuid().as_u128())
    }

    /// Parses an id from a request.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be the value of a webhook-id header")])
    }

    /// The shard of a delivery with this id if there are `shards` shards.
    pub fn shard(self, shards: u8) -> u8 {
        u8::try_from(self.0 % u128::from(shards.max(1))).unwrap_or_default()
    }

    /// The id as a number, which stored indexes contain.
    pub(in crate::webhooks) fn bits(self) -> u128 {
        self.0
    }

    pub(in crate::webhooks) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    fn parse_hex(text: &str) -> Result<Self, NotAnId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits { u128::from_str_radix(text, 16).map(Self).map_err(|_not_hex| NotAnId) } else { Err(NotAnId) }
    }
}

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "msg_{:032x}", self.0)
    }
}

impl FromStr for WebhookId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        Self::parse_hex(text.strip_prefix("msg_").ok_or(NotAnId)?)
    }
}

impl Serialize for WebhookId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str) -> TenantId {
        id.parse().expect("an id")
    }

    #[test]
    fn the_webhook_id_depends_on_tenant_job_event_and_destination() {
        let id = WebhookId::of(&tenant("t"), "j", "job.completed", "e");
        assert_eq!(id, WebhookId::of(&tenant("t"), "j", "job.completed", "e"));
        assert_eq!(id.to_string().parse(), Ok(id));
        for (other, job, event, destination) in [
            ("u", "j", "job.completed", "e"),
            ("tj", "", "job.completed", "e"),
            ("t", "j", "job.failed", "e"),
            ("t", "j", "job.completed", "f"),
        ] {
            assert_ne!(id, WebhookId::of(&tenant(other), job, event, destination));
        }
    }

    #[test]
    fn a_delivery_has_one_id() {
        let hex = "0123456789abcdef0123456789abcdef";
        for text in [
            format!("callback.7.1769860800999.{hex}"),
            format!("01890f3e-7b5a-7cc0-8000-000000000000.0.0000000000001.{hex}"),
        ] {
            assert_eq!(text.parse::<DeliveryId>().expect(&text).to_string(), text);
        }
        for text in [
            String::new(),
            "callback".to_owned(),
            format!("callback.8.1769860800999.{hex}"),
            format!("callback.07.1769860800999.{hex}"),
            format!("callback.7.176986080099.{hex}"),
            format!("callback.7.+769860800999.{hex}"),
            format!("callback.7.1769860800999.{}", hex.to_uppercase()),
            format!("callback.7.1769860800999.+{}", &hex[1..]),
            format!("callback.7.1769860800999.{hex}."),
            format!("01890F3E-7b5a-7cc0-8000-000000000000.0.1769860800999.{hex}"),
        ] {
            assert!(text.parse::<DeliveryId>().is_err(), "{text}");
        }
        assert!(format!("msg_{}", hex.to_uppercase()).parse::<WebhookId>().is_err());
    }
}
