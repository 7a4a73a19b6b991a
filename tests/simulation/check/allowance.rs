//! The tolerances of the checks.

use std::time::Duration;

use crate::{
    script::Fault,
    world::{NEW, World},
};

/// How long a receiver that is well may wait beside receivers that are not: with a single process that takes one invocation
/// at a time, for two batches that wait for a timeout of 15 seconds, and what is between.
const BESIDE_BAD: Duration = Duration::from_secs(60);

/// How far times may be off, and what the faults of a run excuse. Each limits promises of docs/reliability.md.
pub(super) struct Allowance {
    /// How far the clock of a process is off. Limits "Signed" and "The same id".
    pub(super) skew: Duration,
    /// How far the clocks of two processes are apart. Limits "It ends".
    pub(super) apart: Duration,
    /// How much too early an attempt may be, by the clocks of two processes. Limits "In time" and "Accepted calls take effect".
    pub(super) early: Duration,
    /// How old is what a process has read of an endpoint: at most as old as an invocation. Limits "In time" and "Permitted
    /// destinations".
    pub(super) read: Duration,
    /// The same, by the clocks of two processes. Limits "Signed" and "Endpoints".
    pub(super) stale: Duration,
    /// How many seconds before its request a signature is made. Limits "The same id".
    pub(super) signing: u64,
    /// How long an attempt waits for a process: a batch may have to wait for a whole batch. Limits "In time".
    pub(super) prompt: Duration,
    /// How long the first attempt at a receiver that is well waits, whatever others do. Limits "In time".
    pub(super) beside_bad: Duration,
    /// Attempts at a receiver that takes this many milliseconds may be postponed, so that others need not wait for it. Limits "In
    /// time".
    pub(super) slow: u64,
    /// How long an attempt takes that is cut off, in a queue that all tenants share or in that of slow receivers. Limits "At least
    /// once".
    pub(super) short: Duration,
    /// How long an attempt takes at least that times out. Limits "The log tells the truth".
    pub(super) timeout: Duration,
    /// How many delays may, with their jitter, be longer than a message can wait: if two processes make an attempt at the same
    /// moment, both leave a row for the next one. Limits "At least once".
    pub(super) long_waits: usize,
    /// How many things went wrong on our side. Limits "It ends", "The log tells the truth" and "Endpoints".
    pub(super) faults: usize,
    /// How often faults can make something happen once more. Limits "At least once".
    pub(super) repeating: usize,
    /// How many faults can do so only where another attempt follows. Limits "At least once".
    pub(super) harmless: usize,
    /// Whether nothing went wrong that makes a process do something twice, or forget it. Otherwise, limits "The log tells the
    /// truth" and "In time".
    pub(super) is_sound: bool,
    /// Whether messages came twice within a short time: then the copy of an event is handled as a new event. Limits "It ends",
    /// "The log tells the truth", "At least once", "In time" and "Accepted calls take effect".
    pub(super) has_duplicates: bool,
    /// Whether a write took effect long after it was repeated: then it undoes what came meanwhile. Limits "It ends", "Signed",
    /// "Permitted destinations" and "Accepted calls take effect".
    pub(super) has_late_writes: bool,
}

impl Allowance {
    pub(super) fn of(world: &World) -> Self {
        let (script, state) = (&world.script, world.state());
        let skew = Duration::from_millis(script.skew.unsigned_abs());
        let (apart, read) = (skew * 2, Duration::from_secs(33));
        let is_twice =
            |fault: &Fault| matches!(fault, Fault::Duplicate(_, after) if Duration::from_secs(*after) <= NEW);
        Self {
            skew,
            apart,
            early: Duration::from_secs(1) + apart,
            read,
            stale: read + apart,
            signing: 7,
            prompt: Duration::from_secs(300),
            beside_bad: BESIDE_BAD,
            slow: 2000,
            short: Duration::from_millis(3100),
            timeout: Duration::from_millis(14_900),
            long_waits: script.schedule.iter().filter(|delay| **delay >= 750).count(),
            faults: state.faults,
            // A copy of an event also sends another message for its next attempt, which two processes can get at the same
            // moment.
            repeating: state.faults - state.harmless + state.copies,
            harmless: state.harmless,
            is_sound: script.faults.iter().all(|fault| {
                matches!(fault, Fault::Duplicate(..) | Fault::Undeleted(_) | Fault::NoSweep(_) | Fault::TwoSweeps(_))
            }),
            has_duplicates: script.faults.iter().any(is_twice),
            has_late_writes: script.faults.iter().any(|fault| matches!(fault, Fault::Late(..))),
        }
    }
}
