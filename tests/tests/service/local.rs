//! The local runner, and the queues that it embeds.

mod queues;
mod restarts;
mod runner;
