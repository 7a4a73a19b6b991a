//! The delivery log: what became of every delivery, and what the pending ones wait for.
//!
//! One table holds it all, by the partition key `destination` and the sort key `delivery`:
//!
//! - The state of a [`Delivery`](super::delivery::Delivery): `<tenant>/<destination>.<shard>`, `<time>.<webhook-id>`. A
//!   destination's deliveries sort by time. Those that are not delivered are also in a sparse index, by status, so that
//!   they are found without reading the others. A delivery that succeeds or is
//!   held at once is this one item, with its payload in it.
//! - The payload and the earlier attempts of any other delivery: a partition `<destination>/<delivery>` of its own. An
//!   update pays for the whole item, so the state is kept small.
//! - [Parked events](parked) of version 0.1.0: `<tenant>/parked/<id>`.
//! - What waits for a pull endpoint, in a sparse index of its own: [`pull`].
//! - [Due rows](due): which attempt is due in which minute, and how far the sweep is.
//! - [Recoveries](recovery): `recovery/<tenant>`.
//!
//! No two tenants have a key in common: each is made from the tenant's id, and its rest has a fixed form.

pub mod count;
pub mod due;
mod forget;
mod gathered;
pub mod glance;
mod items;
pub mod parked;
mod payload;
pub mod pull;
pub mod recovery;
mod resend;
pub mod search;
mod states;
mod table;

pub use self::{
    states::{CHANGED_WITH_STATE, First, HELD_WITH_STATE},
    table::{Log, Retention, Row, Unwritten},
};
