//! What the log says about a delivery.

use std::{borrow::Cow, fmt, str::FromStr};

use aws_sdk_dynamodb::types::AttributeValue;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    aws::dynamo::{Item, Record, item, number, text},
    error::Result,
    id::{EndpointId, NotAnId},
    issue::Problem,
    timestamp::Timestamp,
    webhooks::{
        delivery_id::{DeliveryId, Millis, WebhookId},
        event::EventName,
        outcome::{Failure, Outcome},
    },
};

/// The most of a receiver's response that the log keeps, in bytes.
pub const RESPONSE_BYTES: usize = 1024;

/// A delivery in the log.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "Delivery")]
pub struct Entry {
    /// Its id, for `get` and `resend`.
    #[serde(rename = "delivery_id")]
    pub id: DeliveryId,
    /// The id that the receiver gets as a header.
    pub webhook_id: WebhookId,
    /// Where it goes; absent for a job's own callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EndpointId")]
    pub webhook_endpoint_id: Option<EndpointId>,
    /// The event's name.
    pub event: EventName,
    /// The producer's id of the job.
    pub job_id: String,
    /// How it stands.
    pub status: Status,
    /// How many attempts have been made.
    pub attempts: u32,
    /// When the event entered its queue.
    pub created_at: Timestamp,
    /// When the next attempt is due, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub next_attempt_at: Option<Timestamp>,
    /// The latest attempt; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Attempt")]
    pub last_attempt: Option<Attempt>,
    /// How many attempts of the current schedule have been made: a resend starts it anew.
    #[serde(skip)]
    pub tries: u32,
    /// Why the next attempt will be made.
    #[serde(skip)]
    pub trigger: Trigger,
    /// An attempt that fails after this time is the last.
    #[serde(skip)]
    pub give_up_at: Millis,
}

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

/// A POST to the receiver.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct Attempt {
    /// When it began.
    pub at: Timestamp,
    /// `delivered`, or why it failed.
    pub outcome: Cow<'static, str>,
    /// The receiver's HTTP status, if it sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    pub status_code: Option<u16>,
    /// How long it took.
    pub duration_ms: u32,
    /// The first 1,024 bytes of the response to a failed attempt, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub response: Option<String>,
    /// What it was made for.
    pub trigger: Trigger,
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

impl Attempt {
    /// An attempt that began `at` and ended with `outcome` after `duration_ms`.
    #[must_use]
    pub fn new(at: Timestamp, duration_ms: u32, outcome: Outcome, response: Option<String>, trigger: Trigger) -> Self {
        let (name, status_code) = match outcome {
            Outcome::Delivered(status) => ("delivered", Some(status)),
            Outcome::Failed(failure @ Failure::Status(status, _)) => (failure.reason(), Some(status)),
            Outcome::Failed(failure) => (failure.reason(), None),
        };
        Self { at, outcome: name.into(), status_code, duration_ms, response, trigger }
    }

    /// As a map, with short names: every delivery pays for each of its bytes.
    pub(super) fn to_value(&self) -> AttributeValue {
        let mut value = item([
            ("at", number(self.at.as_millisecond())),
            ("ms", number(self.duration_ms.into())),
            ("outcome", text(&self.outcome)),
            ("trigger", text(self.trigger)),
        ]);
        value.extend(self.status_code.map(|status| ("code".to_owned(), number(status.into()))));
        value.extend(self.response.as_ref().map(|response| ("response".to_owned(), text(response))));
        AttributeValue::M(value)
    }

    pub(super) fn from_value(value: &AttributeValue) -> Result<Self> {
        let none = Item::new();
        let record = Record::new("attempt", value.as_m().unwrap_or(&none));
        Ok(Self {
            at: record.time("at")?,
            outcome: record.text("outcome")?.to_owned().into(),
            status_code: record.optional_number("code").and_then(|code| u16::try_from(code).ok()),
            duration_ms: u32::try_from(record.number("ms")?).unwrap_or(u32::MAX),
            response: record.optional_text("response").map(str::to_owned),
            trigger: record.parsed("trigger")?,
        })
    }
}

impl Entry {
    /// Reads the state of the delivery `id`.
    pub(super) fn from_item(id: DeliveryId, item: &Item) -> Result<Self> {
        let record = Record::new("delivery", item);
        let count = |name: &str| record.optional_number(name).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        Ok(Self {
            id,
            webhook_id: id.webhook_id,
            webhook_endpoint_id: id.destination.endpoint(),
            event: record.parsed("event")?,
            job_id: record.text("job_id")?.to_owned(),
            status: record.parsed("status")?,
            attempts: count("attempts"),
            created_at: Timestamp::from_millisecond(id.at.get()),
            next_attempt_at: record.optional_number("next_attempt_at").map(Timestamp::from_millisecond),
            last_attempt: item.get("last").map(Attempt::from_value).transpose()?,
            tries: count("tries"),
            trigger: record.optional_text("trigger").and_then(|name| name.parse().ok()).unwrap_or(Trigger::Event),
            give_up_at: Millis::new(record.optional_number("give_up_at").unwrap_or_default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That is how the log tells a write whose answer was lost from somebody else's.
    #[test]
    fn an_attempt_is_the_same_once_it_has_been_stored_and_read() {
        let answer = Some("no".to_owned());
        let failed = Outcome::Failed(Failure::Status(500, None));
        let attempt = Attempt::new(Timestamp::now(), 12, failed, answer, Trigger::Schedule);
        assert_eq!(Attempt::from_value(&attempt.to_value()).expect("an attempt"), attempt);
    }
}
