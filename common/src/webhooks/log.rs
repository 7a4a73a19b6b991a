//! The delivery log: the state of every delivery, and the time of every due attempt.
//!
//! One table, with the partition key `destination` and the sort key `delivery`, contains:
//!
//! - The state of a [`Delivery`](super::delivery::Delivery): `<tenant>/<destination>.<shard>`, `<time>.<webhook-id>`. A
//!   destination's deliveries sort by time. All undelivered states are also in a sparse index by status, so searches
//!   for them skip the delivered ones. A delivery that succeeds or is held immediately has only this item, which
//!   includes its payload.
//! - The payload and the earlier attempts of every other delivery: a separate partition `<destination>/<delivery>`. An
//!   update costs one write unit per kilobyte of the item, so the state is kept small: it contains a payload of at most
//!   512 bytes, and earlier attempts are moved to other items when it reaches a kilobyte. Bodies over 640 bytes are
//!   compressed (LZ4 with a dictionary).
//! - The payload of an event to several endpoints, for those deliveries of it that need a payload apart from the state:
//!   `<tenant>/event/<event>`. It is deleted with the last of them that is erased, and otherwise expires.
//! - A sparse index of deliveries waiting to be received from a pull endpoint: [`pull`].
//! - Parked attempts: `parked/<tenant>`.
//! - [Due rows](due_rows): the attempts that are due in each minute, and the progress of the sweep.
//! - [Recoveries](recovery): `recovery/<tenant>`.
//! - [Deleted endpoints](endings) whose deliveries the sweep ends: `ending/<tenant>`.
//! - The index of jobs and `webhook-id`s, and the totals of each hour: `index/<tenant>`.
//!
//! Two tenants never share a key, because each key consists of the tenant's id and a part with a fixed format.

pub mod counts;
pub mod due_rows;
pub mod endings;
mod erasure;
mod index;
mod items;
mod lookup;
mod parked_attempts;
mod payload;
pub mod pull;
pub mod recovery;
mod room;
pub mod search;
mod statement;
mod states;
mod table;
mod totals;
pub mod undelivered;

pub use self::{
    payload::Shared,
    room::{Room, Rooms},
    states::{CHANGED_WITH_STATE, HELD_WITH_STATE},
    table::{DeliveryLog, Row},
};
use crate::{
    aws::{clients::Aws, from_env::FromEnv},
    config::{ConfigError, Env},
};

impl FromEnv for DeliveryLog {
    fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Self::from_env(env, aws)
    }
}
