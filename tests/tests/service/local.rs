//! The local runner, the queues that it embeds, its inbox and its demo tenant.

mod demo_tenant;
mod embedded;
mod inbox;
mod queues;
mod restarts;
mod runner;
