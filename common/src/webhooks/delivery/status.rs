//! How a delivery stands, and what its attempts are made for.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{id::NotAnId, issue::Problem};

/// How a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// An attempt is due.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was given up.
    Failed,
    /// Its endpoint was deleted or made inactive meanwhile.
    Ended,
}

/// What an attempt is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The event: the first attempt.
    Event,
    /// The schedule of retries.
    Schedule,
    /// A resend.
    Resend,
    /// A recovery.
    Recovery,
    /// A test of the endpoint.
    Test,
}

impl Status {
    /// Parses a status from a request.
    ///
    /// # Errors
    /// There is no such status.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be pending, delivered, failed or ended")])
    }
}

/// The names of a closed set, as they are stored.
macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal,)* }) => {
        impl $type {
            /// The name on the wire and in the tables.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                match text {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(NotAnId),
                }
            }
        }
    };
}

names! { Status {
    Pending => "pending",
    Delivered => "delivered",
    Failed => "failed",
    Ended => "ended",
} }

names! { Trigger {
    Event => "event",
    Schedule => "schedule",
    Resend => "resend",
    Recovery => "recovery",
    Test => "test",
} }
