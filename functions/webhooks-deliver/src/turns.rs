//! The turns of receivers: the drain that makes their parked attempts, and the time of the next one.

use std::time::Duration;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Drain, Receiver},
        endpoints::Gate,
    },
};

/// The minimum and maximum time between attempts at a silent receiver. The minimum is longer than any attempt.
const SILENT_INTERVAL: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(5));

/// The drain that serves a receiver.
pub(crate) fn drain_of(receiver: Receiver, gate: Gate) -> Drain {
    match (receiver, gate) {
        (Receiver::Asked(_), _) | (_, Gate::New | Gate::Quick { .. } | Gate::Late { .. }) => Drain::Answering,
        (_, Gate::Silent { .. }) => Drain::Silent,
    }
}

/// When a receiver's next attempt is due: at once, or after a tenth of its silence.
pub(crate) fn due_at(receiver: Receiver, gate: Gate, now: Timestamp) -> Timestamp {
    match (drain_of(receiver, gate), gate) {
        (Drain::Silent, Gate::Silent { since, tried_at }) => {
            let (least, most) = SILENT_INTERVAL;
            tried_at.after((tried_at.since(since) / 10).clamp(least, most))
        }
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_receiver_waits_for_a_tenth_of_its_silence() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let receiver = Receiver::Endpoint("01890f3e-7b5a-7cc0-8000-000000000000".parse().expect("an id"));
        for (silence, expected) in [(0, 30), (300, 30), (1000, 100), (100_000, 300)] {
            let gate = Gate::Silent { since: at(1000), tried_at: at(1000 + silence) };
            assert_eq!(due_at(receiver, gate, at(0)), at(1000 + silence + expected), "{silence}");
        }
        assert_eq!(due_at(receiver, Gate::New, at(7)), at(7));
    }
}
