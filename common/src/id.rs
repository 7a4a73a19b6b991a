//! Identifiers. Generated ids are lower-case, hyphenated version 7 UUIDs (RFC 9562), which sort by creation time.

use std::{fmt, str::FromStr};

use serde::Serialize;
use uuid::Uuid;

use crate::{issue::Problem, runtime_sources, timestamp::Timestamp};

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Generates an id that sorts after all earlier ones.
            pub fn generate() -> Self {
                Self(runtime_sources::uuid())
            }

            /// When the id was generated, in whole milliseconds.
            pub fn made_at(self) -> Timestamp {
                made_at(self.0)
            }

            /// Parses the hyphenated form, upper or lower case.
            pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
                text.parse().map_err(|NotAnId| vec![Problem::format("Must be a UUID")])
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                // The parser also accepts URNs, braces and bare digits; the API does not.
                match Uuid::try_parse(text) {
                    Ok(id) if text.len() == 36 => Ok(Self(id)),
                    _ => Err(NotAnId),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

uuid_id! {
    /// Identifies a user.
    UserId
    /// Identifies an invitation to an organization.
    InvitationId
    /// Identifies a session. Unlike the session's token, it is not secret.
    SessionId
    /// Identifies a browser login. It is not secret: the request has a separate secret.
    CliLoginId
    /// Identifies an API key. Unlike the key itself, it is not secret.
    KeyId
    /// Identifies a webhook endpoint.
    EndpointId
    /// Identifies a recovery of failed deliveries.
    RecoveryId
    /// Identifies a lease of a delivery.
    LeaseId
}

impl EndpointId {
    /// The id as a number, which stored indexes contain.
    pub(crate) fn bits(self) -> u128 {
        self.0.as_u128()
    }

    pub(crate) fn from_bits(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }
}

fn made_at(id: Uuid) -> Timestamp {
    let made = id.get_timestamp().map_or(0, |time| {
        let (seconds, nanoseconds) = time.to_unix();
        seconds.saturating_mul(1000).saturating_add(u64::from(nanoseconds / 1_000_000))
    });
    Timestamp::from_millisecond(i64::try_from(made).unwrap_or(i64::MAX))
}

/// The string is not an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an identifier")
    }
}

impl std::error::Error for NotAnId {}

/// Identifies a tenant: an organization as the owner of its data. Generated ids are UUIDs. In job events, which come
/// from producers, an id can be any string that SQS accepts as a `MessageGroupId` (1 to 128 printable ASCII
/// characters). There is no data for an id that was never generated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TenantId(String);

impl TenantId {
    /// Generates an id that sorts after all earlier ones.
    pub fn generate() -> Self {
        Self(runtime_sources::uuid().to_string())
    }

    /// Parses an id from a request.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be the id of an organization")])
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let fits = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAnId) }
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id = "01890f3e-7b5a-7cc0-8000-000000000000";
        assert_eq!(id.parse::<EndpointId>().expect("hyphenated").to_string(), id);
        assert_eq!(id.to_uppercase().parse::<EndpointId>().expect("upper case").to_string(), id);
        for other in ["", "01890f3e7b5a7cc08000000000000000", "{01890f3e-7b5a-7cc0-8000-000000000000}", "x"] {
            assert!(other.parse::<EndpointId>().is_err(), "{other}");
        }
    }

    #[test]
    fn new_ids_are_ordered() {
        let ids: Vec<_> = (0..1000).map(|_| EndpointId::generate()).collect();
        assert!(ids.is_sorted());
    }
}
