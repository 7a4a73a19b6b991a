//! The scenarios: how bad tenants' receivers behave, how numerous they are, and their history.

use std::{fmt, time::Duration};

/// The behavior of the bad tenants' receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Absent,     // the control without bad tenants
    Good,       // the control in which they answer 200 at once
    Hang,       // read the request, and never answer
    Mute,       // accept the connection, and never read
    Headers,    // answer with a header at a byte a second
    Body,       // answer 200 with a body at a byte a second
    Slow5,      // answer 200 after five seconds
    Slow14,     // answer 200 after fourteen seconds
    Linger,     // answer 200 after 0.45 s, just within a short attempt
    Fail4,      // answer 500 after four and a half seconds
    Fail,       // answer 500 at once
    Flap11,     // every other request of each endpoint hangs
    Flap91,     // every tenth request of each endpoint hangs
    Refuse,     // the port is closed
    Nameless,   // the name does not exist
    Callbacks1, // each event has a callback to the same origin, which hangs
    Callbacks,  // each event has a callback to an origin of its own, which hangs
    CallLinger, // each event has a callback to its own origin, which answers 200 after 0.45 s
    CallTurns,  // the same as `Callbacks`, one tenant after the other
    Linger23,   // two of three requests are answered 200 after 0.45 s, the third at once
}

use Mode::*;

/// All behaviors except the controls.
const BAD: [Mode; 18] = [
    Hang, Mute, Headers, Body, Slow5, Slow14, Linger, Fail4, Fail, Flap11, Flap91, Refuse, Nameless, Callbacks1,
    Callbacks, CallLinger, CallTurns, Linger23,
];

impl Mode {
    /// Whether the bad tenants' events go to callbacks instead of endpoints.
    pub(crate) fn calls_back(self) -> bool {
        matches!(self, Callbacks1 | Callbacks | CallLinger | CallTurns)
    }

    /// Whether the receivers only make attempts wait, without using CPU, so the delay for other tenants must be small.
    pub(crate) fn only_waits(self) -> bool {
        !matches!(self, Good | Slow5 | Linger | Linger23 | CallLinger | Fail4 | Fail | Flap11 | Flap91)
    }

    fn answers_at_once(self) -> bool {
        matches!(self, Good | Fail | Flap11 | Flap91 | Refuse | Nameless)
    }

    /// The time before a request is answered, and the response's status.
    pub(crate) fn answer(self, request: usize) -> Option<(Duration, u16)> {
        let (seconds, status) = match self {
            Good => (0.0, 200),
            Slow5 => (5.0, 200),
            Slow14 => (14.0, 200),
            Linger | CallLinger => (0.45, 200),
            Linger23 if request % 3 < 2 => (0.45, 200),
            Linger23 => (0.0, 200),
            Fail4 => (4.5, 500),
            Fail => (0.0, 500),
            Flap11 if request.is_multiple_of(2) => (0.0, 200),
            Flap91 if request % 10 < 9 => (0.0, 200),
            _ => return None,
        };
        Some((Duration::from_secs_f64(seconds), status))
    }
}

/// The number of bad tenants, and the number of bad endpoints of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) tenants: usize,
    pub(crate) endpoints: usize,
}

/// The history of the bad receivers before the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    Cold,  // had nothing
    Warm,  // misbehaved
    Turns, // answered 200
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) mode: Mode,
    pub(crate) shape: Shape,
    pub(crate) past: Past,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, shape: Shape { tenants, endpoints }, past } = self;
        let [mode, past] = [format!("{mode:?}"), format!("{past:?}")].map(|name| name.to_lowercase());
        write!(f, "{mode} {tenants}x{endpoints} {past}")
    }
}

impl Scenario {
    /// B alone.
    pub(crate) const ABSENT: Self = Self { mode: Absent, shape: Shape { tenants: 0, endpoints: 0 }, past: Past::Cold };

    fn new(mode: Mode, tenants: usize, endpoints: usize, past: Past) -> Self {
        let endpoints = if mode.calls_back() { 0 } else { endpoints };
        Self { mode, shape: Shape { tenants, endpoints }, past }
    }

    /// This scenario with healthy receivers.
    pub(crate) fn good(self) -> Self {
        Self { mode: Good, past: Past::Cold, ..self }
    }

    /// The total number of events that the bad tenants send in the burst.
    pub(crate) fn events(self) -> usize {
        match self.shape {
            Shape { tenants: 0, .. } => 0,
            Shape { tenants: 12, .. } => 3840,
            Shape { tenants: 1, endpoints: 10 } => 1000,
            Shape { tenants: 1, endpoints: 100 } if self.mode.answers_at_once() => 300,
            Shape { tenants: 1, endpoints: 1 } => 6000,
            Shape { tenants: 1, endpoints: 0 } => 3000,
            Shape { tenants: 1, .. } => 900,
            Shape { endpoints: 1, .. } => 2000,
            Shape { .. } => 1000,
        }
    }

    /// The bad tenant that sends this event in the burst.
    pub(crate) fn sender(self, event: usize) -> usize {
        match self.mode {
            CallTurns => event * self.shape.tenants / self.events(),
            _ => event % self.shape.tenants,
        }
    }

    /// Each mode, some with more than one shape or history.
    pub(crate) fn usual() -> Vec<Self> {
        let mut usual: Vec<_> = [(Callbacks, 1, 0), (Hang, 1, 10), (CallTurns, 12, 0), (Linger23, 1, 1)]
            .map(|(mode, tenants, endpoints)| Self::new(mode, tenants, endpoints, Past::Cold))
            .into();
        let others = BAD.into_iter().filter(|mode| !matches!(mode, Callbacks | CallTurns | Linger23));
        usual.extend(others.map(|mode| Self::new(mode, 1, 100, Past::Cold)));
        usual.extend([(1, 1), (200, 1)].map(|(tenants, endpoints)| Self::new(Linger, tenants, endpoints, Past::Cold)));
        usual.extend([Fail, Flap11, Flap91].map(|mode| Self::new(mode, 1, 20, Past::Cold)));
        usual.extend([Hang, Slow5, Fail, Flap11, Callbacks].map(|mode| Self::new(mode, 50, 10, Past::Cold)));
        usual.extend([Past::Warm, Past::Turns].map(|past| Self::new(Hang, 1, 100, past)));
        usual
    }

    /// All scenarios.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for mode in BAD {
            // With callbacks, the number of endpoints makes no difference.
            let shapes =
                if mode.calls_back() { &[(1, 0), (50, 0)][..] } else { &[(1, 1), (1, 20), (1, 100), (50, 10)] };
            // Some combinations are impossible: closed ports and missing names cannot have a history of responses, and
            // callback origins are never known in advance.
            let answered = !mode.calls_back() && !matches!(mode, Refuse | Nameless);
            let pasts = if answered { &[Past::Cold, Past::Warm, Past::Turns][..] } else { &[Past::Cold, Past::Warm] };
            for (tenants, endpoints) in shapes {
                all.extend(pasts.iter().map(|past| Self::new(mode, *tenants, *endpoints, *past)));
            }
        }
        all
    }
}
