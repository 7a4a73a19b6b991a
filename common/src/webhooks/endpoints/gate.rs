//! Gates: whether attempts at a receiver are made at once, in the invocation that received the event.
//!
//! An invocation waits for its slowest attempt, so attempts are made at once only at receivers that answer within a
//! [`SECOND`]. Deliveries to all others are parked, and their receiver's drain makes the attempts. A receiver is new,
//! quick (its gate is open), late or silent. An attempt never ends early: one that has lasted a second closes the gate
//! for those that follow.

use std::{
    ops::ControlFlow::{Break, Continue},
    str::FromStr,
    time::Duration,
};

use super::{
    item::{DELETE_AT, GATE, RENEWED_AT, WEBHOOK_ENDPOINT_ID},
    table::{Endpoints, key, record},
};
use crate::{
    aws::{
        dynamo::{Item, get, number, text},
        expression::Update,
        retry_conflicts,
    },
    error::Result,
    id::{EndpointId, NotAnId, TenantId},
    timestamp::Timestamp,
    webhooks::delivery::Origin,
};

/// A receiver that answers within this time is quick.
pub const SECOND: Duration = Duration::from_secs(1);
/// The gate of a late receiver opens after quick answers for this long.
const QUICK_TIME: Duration = Duration::from_mins(1);
/// The gate of a late or silent receiver is not written more often than this.
const INTERVAL: Duration = Duration::from_secs(5);
/// The gate of a callback origin is forgotten this long after its last change.
const MEMORY: Duration = Duration::from_hours(30 * 24);
/// The operation named in errors.
const NOTING: &str = "noting the gate of a receiver";
/// The sort key prefix of callback origins, which sort before every id.
const ORIGIN: &str = "#origin#";

/// The standing of a receiver, as its latest attempts have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// There has been no attempt yet.
    #[default]
    New,
    /// It is quick: the gate is open.
    Quick { since: Timestamp },
    /// It answers, but took longer than a second, last at `at`, and answered at `answered_at`.
    Late { at: Timestamp, answered_at: Timestamp },
    /// It does not answer. The last attempt that showed this ended at `tried_at`.
    Silent { since: Timestamp, tried_at: Timestamp },
}

/// The evidence of an attempt about its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It ended within a second, with any outcome.
    Quick,
    /// It has lasted a second, and is still in progress.
    Waits,
    /// It got an answer after more than a second.
    Late,
    /// It was requested, and got an answer from a silent receiver.
    Asked,
    /// It got no answer.
    Nothing,
    /// There was no attempt, but the owner expects an answer, and has started a recovery.
    Expected,
}

impl Gate {
    pub fn is_open(self) -> bool {
        matches!(self, Self::Quick { .. })
    }

    /// The gate after an attempt that began at `began`.
    #[must_use]
    pub fn after(self, evidence: Evidence, began: Timestamp, now: Timestamp) -> Self {
        let (quick, late) = (Self::Quick { since: now }, Self::Late { at: now, answered_at: now });
        match (self, evidence) {
            (Self::New, Evidence::Quick) => quick,
            (Self::New | Self::Quick { .. }, Evidence::Late)
            | (Self::Silent { .. }, Evidence::Quick | Evidence::Late) => late,
            // The silent drain may be making an attempt, so it also makes the next one, after the shortest pause.
            (Self::Silent { .. }, Evidence::Asked) => Self::Silent { since: now, tried_at: now },
            (Self::Quick { .. }, Evidence::Waits) => Self::Late { at: began, answered_at: began },
            (Self::Late { at, .. }, Evidence::Quick) if began.since(at) >= QUICK_TIME => quick,
            (Self::Late { at, answered_at }, Evidence::Quick) if now.since(answered_at) >= INTERVAL => {
                Self::Late { at, answered_at: now }
            }
            (Self::Late { at, .. }, Evidence::Late) if now.since(at) >= INTERVAL => late,
            // A short silence has short pauses. The time of the last attempt stays, because it may still be in progress.
            (Self::Silent { since, tried_at }, Evidence::Expected) if now.since(since) >= INTERVAL => {
                Self::Silent { since: now, tried_at }
            }
            // Another attempt has had an answer since this one began.
            (Self::Quick { since }, Evidence::Nothing) if since > began => late,
            (Self::Late { answered_at, .. }, Evidence::Nothing) if answered_at > began => self,
            (Self::New | Self::Quick { .. } | Self::Late { .. }, Evidence::Nothing) => {
                Self::Silent { since: now, tried_at: now }
            }
            (Self::Silent { since, tried_at }, Evidence::Nothing) if now.since(tried_at) >= INTERVAL => {
                Self::Silent { since, tried_at: now }
            }
            _ => self,
        }
    }

    /// The form in an item.
    fn written(self) -> Option<String> {
        match self {
            Self::New => None,
            Self::Quick { since } => Some(format!("open.{}", since.as_millisecond())),
            Self::Late { at, answered_at } => {
                Some(format!("late.{}.{}", at.as_millisecond(), answered_at.as_millisecond()))
            }
            Self::Silent { since, tried_at } => {
                Some(format!("silent.{}.{}", since.as_millisecond(), tried_at.as_millisecond()))
            }
        }
    }

    pub(super) fn from_item(item: &Item) -> Self {
        record(item).optional_text(GATE).and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

impl FromStr for Gate {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let mut parts = text.split('.');
        let name = parts.next();
        let mut time = || {
            let ms = parts.next().and_then(|ms| ms.parse().ok());
            ms.map(Timestamp::from_millisecond).ok_or(NotAnId)
        };
        match name {
            Some("open") => Ok(Self::Quick { since: time()? }),
            Some("late") => Ok(Self::Late { at: time()?, answered_at: time()? }),
            Some("silent") => Ok(Self::Silent { since: time()?, tried_at: time()? }),
            _ => Err(NotAnId),
        }
    }
}

/// A receiver with a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateOwner {
    Endpoint(EndpointId),
    Origin(Origin),
}

impl GateOwner {
    fn key(self, tenant: &TenantId) -> Item {
        match self {
            Self::Endpoint(id) => key(tenant, id),
            Self::Origin(origin) => key(tenant, format!("{ORIGIN}{origin}")),
        }
    }
}

impl Endpoints {
    /// Reads the gate of a callback origin. The read is strongly consistent.
    pub async fn gate_of_origin(&self, tenant: &TenantId, origin: Origin) -> Result<Gate> {
        let key = GateOwner::Origin(origin).key(tenant);
        let item = get(&self.dynamodb, &self.table, key, "reading a callback origin").await?;
        Ok(item.as_ref().map(Gate::from_item).unwrap_or_default())
    }

    /// Records what an attempt that began at `began` has shown about its receiver, whose gate was `seen` before, unless
    /// that changes nothing or the endpoint has been deleted, enabled, or given another URL since.
    pub async fn shift_gate(
        &self,
        tenant: &TenantId,
        of: GateOwner,
        seen: Gate,
        evidence: Evidence,
        began: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        retry_conflicts(seen, |before| async move {
            let after = before.after(evidence, began, now);
            let Some(written) = after.written().filter(|_| after != before) else { return Ok(Break(())) };
            let update = Update::of(&self.table, of.key(tenant)).set(GATE, text(written));
            let update = match of {
                GateOwner::Endpoint(_) => {
                    let is_before = RENEWED_AT.is_below(number(began.as_millisecond()));
                    update.only_if(WEBHOOK_ENDPOINT_ID.exists()).only_if(RENEWED_AT.is_absent().or(is_before))
                }
                GateOwner::Origin(_) => update.set(DELETE_AT, number(now.after(MEMORY).as_second())),
            };
            let update = update.only_if(match before.written() {
                None => GATE.is_absent(),
                Some(before) => GATE.equals(text(before)),
            });
            if update.send(&self.dynamodb, NOTING).await? {
                return Ok(Break(()));
            }
            let item = get(&self.dynamodb, &self.table, of.key(tenant), "reading a gate").await?;
            let current = item.as_ref().map(Gate::from_item).unwrap_or_default();
            let is_gone = item.is_none() && matches!(of, GateOwner::Endpoint(_));
            Ok(if is_gone || current == before { Break(()) } else { Continue(current) })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_gate_is_read_as_it_was_written() {
        for gate in [
            Gate::New,
            Gate::Quick { since: at(7) },
            Gate::Late { at: at(8), answered_at: at(11) },
            Gate::Silent { since: at(9), tried_at: at(10) },
        ] {
            let written = gate.written();
            let read = written.map_or(Gate::New, |text| text.parse().expect("a gate"));
            assert_eq!(read, gate);
        }
    }

    #[test]
    fn each_attempt_moves_the_gate() {
        use Evidence::{Expected, Late, Nothing, Quick, Waits};
        let quick = Gate::Quick { since: at(1000) };
        let late = |second, answered| Gate::Late { at: at(second), answered_at: at(answered) };
        let silent = |since, tried| Gate::Silent { since: at(since), tried_at: at(tried) };
        for (before, evidence, began, expected) in [
            (Gate::New, Quick, 2000, Gate::Quick { since: at(2000) }),
            (Gate::New, Late, 1998, late(2000, 2000)),
            (Gate::New, Nothing, 1985, silent(2000, 2000)),
            (quick, Quick, 2000, quick),
            (quick, Waits, 1999, late(1999, 1999)),
            (quick, Late, 1990, late(2000, 2000)),
            (quick, Nothing, 1985, silent(2000, 2000)),
            // The gate opened after the attempt had begun.
            (quick, Nothing, 999, late(2000, 2000)),
            (late(1985, 1985), Nothing, 1985, silent(2000, 2000)),
            (late(1980, 1986), Nothing, 1985, late(1980, 1986)),
            (late(1996, 1996), Late, 1997, late(1996, 1996)),
            (late(1995, 1999), Late, 1996, late(2000, 2000)),
            (late(1941, 1996), Quick, 2000, late(1941, 1996)),
            (late(1941, 1995), Quick, 2000, late(1941, 2000)),
            (late(1940, 1999), Quick, 2000, Gate::Quick { since: at(2000) }),
            (late(1000, 1000), Waits, 1999, late(1000, 1000)),
            (silent(1000, 1900), Quick, 2000, late(2000, 2000)),
            (silent(1000, 1900), Late, 1990, late(2000, 2000)),
            (silent(1000, 1900), Nothing, 1985, silent(1000, 2000)),
            (silent(1000, 1996), Nothing, 1985, silent(1000, 1996)),
            (silent(1000, 1900), Expected, 2000, silent(2000, 1900)),
            (silent(1996, 1900), Expected, 2000, silent(1996, 1900)),
            (late(1000, 1000), Expected, 2000, late(1000, 1000)),
        ] {
            assert_eq!(before.after(evidence, at(began), at(2000)), expected, "{before:?} {evidence:?} {began}");
        }
    }
}
