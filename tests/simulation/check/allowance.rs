//! The tolerances of the checks.

use std::time::Duration;

use crate::{
    script::DeclaredError,
    world::{NEW, World},
};

/// The maximum time by which bad receivers may delay deliveries to a healthy receiver. A single process with one
/// invocation at a time may first handle two batches, each with a timeout of 15 seconds.
const BESIDE_BAD: Duration = Duration::from_mins(1);
/// The same if tables throttle the writes for the bad receivers, with as many processes as Lambda would start.
const BESIDE_THROTTLED: Duration = Duration::from_millis(500);

/// The tolerated time differences and consequences of faults. Each of them relaxes promises in docs/reliability.md.
pub(super) struct Allowance {
    /// The maximum offset of a process's clock. Limits "Valid signatures" and "Stable ids".
    pub(super) skew: Duration,
    /// The maximum difference between the clocks of two processes. Limits "Deliveries end".
    pub(super) apart: Duration,
    /// The maximum time by which an attempt may be early, given the clocks of two processes. Limits "Punctual attempts"
    /// and "Accepted calls take effect".
    pub(super) early: Duration,
    /// The maximum time since a process read an endpoint: the duration of an invocation. Limits "Punctual attempts" and
    /// "Permitted destinations".
    pub(super) read: Duration,
    /// The same maximum, given the clocks of two processes. Limits "Valid signatures" and "Endpoints".
    pub(super) stale: Duration,
    /// The number of seconds between a signature and its request. Limits "Stable ids".
    pub(super) signing: u64,
    /// The maximum time that an attempt waits for a process that is handling a batch. Limits "Punctual attempts".
    pub(super) prompt: Duration,
    /// The maximum time that the first attempt at a healthy receiver waits, regardless of other receivers. Limits
    /// "Punctual attempts".
    pub(super) beside_bad: Duration,
    /// The maximum time by which an attempt may exceed a delivery's lifetime: it may first wait for an
    /// invocation that another attempt occupies. Limits "Punctual attempts".
    pub(super) expiring: Duration,
    /// Attempts at a receiver with this response time, in milliseconds, may be postponed. Limits "Punctual attempts".
    pub(super) slow: u64,
    /// The minimum duration of an attempt that times out. Limits "Correct log".
    pub(super) timeout: Duration,
    /// The number of delays that can, with jitter, exceed a message's longest delay. After such a delay, an attempt can
    /// be made twice: if two processes make the previous attempt at the same moment, both leave a row for it. Limits
    /// "At least once".
    pub(super) long_waits: usize,
    /// The number of failures that the service, rather than a receiver, caused. Limits "Deliveries end", "Correct log"
    /// and "Endpoints".
    pub(super) faults: usize,
    /// The number of repetitions that faults can cause. Limits "At least once".
    pub(super) repeating: usize,
    /// The number of faults that can cause a repetition only if another attempt follows. Limits "At least once".
    pub(super) harmless: usize,
    /// Whether the run is free of faults that make a process repeat or omit work. If not, limits "Correct log" and
    /// "Punctual attempts".
    pub(super) is_sound: bool,
    /// Whether a message was delivered twice within a short time, so that the copy of an event is handled as a new
    /// event. Limits "Deliveries end", "Correct log", "At least once", "Punctual attempts" and "Accepted calls take
    /// effect".
    pub(super) has_duplicates: bool,
    /// Whether a write took effect long after it was repeated, and therefore undid later changes. Limits "Deliveries
    /// end", "Valid signatures", "Permitted destinations" and "Accepted calls take effect".
    pub(super) has_late_writes: bool,
}

impl Allowance {
    pub(super) fn of(world: &World) -> Self {
        let (script, state) = (&world.script, world.state());
        let skew = Duration::from_millis(script.skew.unsigned_abs());
        let (apart, read) = (skew * 2, Duration::from_secs(33));
        let is_twice = |fault: &DeclaredError| match fault {
            DeclaredError::Duplicate(_, after) => Duration::from_secs(*after) <= NEW,
            DeclaredError::Overlapping(_) => true,
            _ => false,
        };
        Self {
            skew,
            apart,
            early: Duration::from_secs(1) + apart,
            read,
            stale: read + apart,
            signing: 7,
            prompt: Duration::from_mins(5),
            beside_bad: if script.units > 0 { BESIDE_THROTTLED } else { BESIDE_BAD },
            expiring: Duration::from_secs(20),
            slow: 2000,
            timeout: Duration::from_millis(14_900),
            long_waits: script.schedule.iter().filter(|delay| **delay >= 750).count(),
            faults: state.faults,
            // A copy of an event also causes another message for the next attempt, and two processes can get both
            // messages at the same time.
            repeating: state.faults - state.harmless + state.copies,
            harmless: state.harmless,
            is_sound: script.faults.iter().all(|fault| {
                use DeclaredError::{Duplicate, NoSweep, Overlapping, TwoSweeps, Undeleted};
                matches!(fault, Duplicate(..) | Overlapping(_) | Undeleted(_) | NoSweep(_) | TwoSweeps(_))
            }),
            has_duplicates: script.faults.iter().any(is_twice),
            has_late_writes: script.faults.iter().any(|fault| matches!(fault, DeclaredError::Late(..))),
        }
    }
}
