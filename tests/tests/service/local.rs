//! The local runner, the queues that it embeds, its inbox and its demo tenant.

mod demo_tenant;
mod inbox;
mod queues;
mod restarts;
mod runner;
