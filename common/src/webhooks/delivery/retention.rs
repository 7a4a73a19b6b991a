//! The retention period of deliveries.

use std::time::Duration;

use super::outcome::MAX_AGE;
use crate::{
    config::{ConfigError, Env},
    timestamp::Timestamp,
};

/// Deliveries are visible for this long.
#[derive(Clone, Copy, Debug)]
pub struct Retention(Duration);

/// Items outlive the retention period by this much, so a resend on the last day still has its full schedule.
const GRACE: Duration = MAX_AGE.saturating_add(Duration::from_hours(24));

impl Retention {
    /// Reads `DELIVERY_RETENTION`, in days.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        let days: u32 = env.number("DELIVERY_RETENTION", 1..=3650)?;
        Ok(Self(Duration::from_hours(u64::from(days) * 24)))
    }

    /// Deliveries are visible for this long.
    pub fn period(self) -> Duration {
        self.0
    }

    /// When an item written at `now` expires. DynamoDB may delete it days later, so reads check the age.
    pub fn end(self, now: Timestamp) -> Timestamp {
        now.after(self.0 + GRACE)
    }
}
