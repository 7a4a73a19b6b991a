//! Scripts: everything that a seed determines before a run begins. A script is a value, so a failed run can be repeated
//! with a reduced script.

use std::{fmt, time::Duration};

use fastrand::Rng;

/// A time, relative to the beginning of the run.
pub(crate) type Time = Duration;

/// Everything that is determined before a run.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// The seed for the run's random values: latencies, jitter, the order of messages.
    pub(crate) seed: u64,
    /// The delays of `RETRY_SCHEDULE`, in seconds.
    pub(crate) schedule: &'static [u64],
    /// `DISABLE_AFTER`, in seconds.
    pub(crate) disable_after: u64,
    /// `HOLD_FOR`, in seconds.
    pub(crate) hold_for: u64,
    /// `ROTATION_OVERLAP`, in seconds.
    pub(crate) overlap: u64,
    pub(crate) processes: Processes,
    /// The number of concurrent invocations for slow receivers, if lower than the template's.
    pub(crate) slow_invocations: usize,
    pub(crate) order: Order,
    /// `MAX_CONCURRENT_ATTEMPTS`.
    pub(crate) slots: usize,
    /// The maximum offset of the processes' clocks, in milliseconds.
    pub(crate) skew: i64,
    /// The number of minutes between two sweeps. Less frequent sweeps cover more minutes each.
    pub(crate) sweep_every: u64,
    /// Whether the sweep also runs in minutes without work. Sweeps without work would take up nine tenths of a run, and
    /// always behave the same.
    pub(crate) sweeps_idly: bool,
    /// The end of the period with faults.
    pub(crate) trouble: Time,
    /// The age of each event when it is sent, as if it had waited in its queue.
    pub(crate) age: Duration,
    /// The write units per second that a table accepts; 0 means any number.
    pub(crate) units: u32,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) events: Vec<Event>,
    pub(crate) actions: Vec<Action>,
    pub(crate) faults: Vec<DeclaredError>,
}

/// The number of processes that deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processes {
    /// The maximum number of processes, with many concurrent invocations in each. A few processes find problems between
    /// processes sooner.
    Few(usize, usize),
    /// One process for each concurrent invocation, as in Lambda.
    Lambda,
}

/// The order of delivery from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// No order, which is all that standard queues promise.
    Any,
    /// Roughly the oldest first, SQS's usual order.
    Oldest,
    /// Roughly the oldest first, but tenants with few messages in flight have priority, as in fair queues.
    Fair,
}

/// A tenant, with its endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) endpoints: Vec<Receiver>,
    /// The receiver for its jobs' callbacks.
    pub(crate) callbacks: Receiver,
    /// The number of incompressible bytes in each of its events.
    pub(crate) bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The receiver's successive behaviors, with the end of each.
    pub(crate) phases: Vec<(Time, Manner)>,
    /// Whether an endpoint subscribes only to `job.failed`.
    pub(crate) only_failures: bool,
    /// Whether the host name has a second address, without a listener.
    pub(crate) has_dead_address: bool,
}

impl Receiver {
    /// Whether the receiver always accepts deliveries quickly.
    pub(crate) fn is_well(&self) -> bool {
        self.phases.iter().all(|(_, manner)| matches!(manner, Manner::Answers(200..300, ..100, _) | Manner::Prompt))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    /// Answers with this status after this many milliseconds, and with this `Retry-After`.
    Answers(u16, u64, Option<u64>),
    /// Answers 200, each time after 20 to 80 milliseconds.
    Prompt,
    /// Alternates between leaving this many requests unanswered and answering this many like `Prompt`.
    Alternates(usize, usize),
    /// Answers alternately with 200 and 500.
    Flaps,
    /// Answers 200, and then closes the connection.
    Closes,
    /// Accepts the request, and never answers.
    Hangs,
    /// Closes the connection after the request.
    Cuts,
    /// Closes the connection in the middle of the body of a 200 response.
    CutsShort,
    /// Refuses connections.
    Refuses,
    /// Never accepts a connection.
    Swallows,
    /// Its host name does not resolve.
    Nameless,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Time,
    pub(crate) tenant: usize,
    pub(crate) number: usize,
    pub(crate) failed: bool,
    pub(crate) audience: Audience,
}

impl Event {
    /// The id of its job.
    pub(crate) fn job(&self) -> String {
        format!("t{}-j{}", self.tenant, self.number)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Endpoints,
    Callback,
    /// A callback at an origin that no other event uses.
    OwnCallback,
    None,
}

/// An API call by a tenant, repeated until it gets a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    pub(crate) at: Time,
    pub(crate) tenant: usize,
    pub(crate) endpoint: usize,
    pub(crate) call: Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Rotate,
    Deactivate,
    Activate,
    Delete,
    /// Resends one of the tenant's deliveries.
    Resend(usize),
    Recover,
    Test,
}

/// A call to AWS, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// The call with this number.
    Any(usize),
    /// The call with this number among the calls to its operation.
    Of(&'static str, usize),
}

/// A process, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Any(usize),
    /// The sweeper with this number.
    Sweeper(usize),
    /// The process with this number, which serves a tenant.
    Api(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum DeclaredError {
    /// A call does not reach AWS.
    Refused(Which),
    /// A call takes effect, but its response is lost.
    Lost(Which),
    /// A call is throttled.
    Throttled(Which),
    /// A call takes effect after this many milliseconds, after its caller has stopped waiting.
    Late(Which, u64),
    /// A batch takes effect partially.
    Partial(Which),
    /// A write conflicts with a transaction.
    Conflict(Which),
    /// A call takes effect, and its process dies before it gets the response.
    Dies(Which),
    /// The delivery log accepts no rows for this many milliseconds.
    Hot(Time, u64),
    /// All calls to a service fail for this many milliseconds.
    Outage(Service, Time, u64),
    /// A call fails, and so do all others to its service for this many milliseconds.
    OutageFrom(Which, u64),
    /// A process dies at its n-th wake-up.
    Crash(Who, u32),
    /// The message with this number is delivered again, this many seconds later.
    Duplicate(usize, u64),
    /// The message with this number is delivered again while the first copy is being handled.
    Overlapping(usize),
    /// The mapping fails to delete the messages of this invocation.
    Undeleted(usize),
    /// The sweep for this minute is skipped.
    NoSweep(u64),
    /// The sweep for this minute runs twice at the same time.
    TwoSweeps(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    DynamoDb,
    Sqs,
    Ses,
}

const SHORT: &[u64] = &[1, 5, 20];
const MEDIUM: &[u64] = &[5, 60, 1000];
/// The template's schedule.
pub(crate) const WHOLE: &[u64] = &[5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 72_000];

impl Script {
    /// Generates the script for a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED);
        let rng = &mut rng;
        let schedule = match rng.u32(0..2000) {
            0..4 => WHOLE,
            4..160 => MEDIUM,
            _ => SHORT,
        };
        let span = Duration::from_secs(if rng.bool() { 30 } else { 150 });
        let is_calm = rng.u32(0..4) == 0;
        let tenants: Vec<_> = (0..rng.usize(1..=2)).map(|_| tenant(rng, span)).collect();
        let most = if rng.u32(0..16) == 0 { 30 } else { 8 };
        let events = (0..rng.usize(1..=most)).map(|number| event(rng, span, &tenants, number)).collect();
        let mut actions: Vec<_> = (0..rng.usize(0..=4)).map(|_| action(rng, span, &tenants)).collect();
        let faults = if is_calm { Vec::new() } else { (0..rng.usize(1..=8)).map(|_| fault(rng, span)).collect() };
        // This value comes from a separate generator, so that the scripts for older seeds stay the same.
        let apart = &mut Rng::with_seed(seed ^ 0x4E1D);
        let hold_for = [604_800, 604_800, 604_800, 20, 0][apart.usize(0..5)];
        if seed % 4 == 1 {
            actions.extend(absence(apart, span, &tenants));
        }
        Self {
            seed,
            schedule,
            hold_for,
            disable_after: [0, 20, 432_000][rng.usize(0..3)],
            overlap: [0, 60, 86_400][rng.usize(0..3)],
            processes: [(1, 1), (1, 4), (2, 1), (3, 1), (2, 3)].map(|(all, each)| Processes::Few(all, each))
                [rng.usize(0..5)],
            slow_invocations: usize::MAX,
            order: Order::Any,
            slots: [100, 100, 3, 1][rng.usize(0..4)],
            skew: if is_calm { 0 } else { [0, 0, 900, 3000][rng.usize(0..4)] },
            sweep_every: if rng.u32(0..5) < 2 { 1 } else { rng.u64(2..=10) },
            sweeps_idly: schedule.len() < WHOLE.len() && rng.u32(0..8) == 0,
            trouble: span + Duration::from_mins(1),
            age: Duration::ZERO,
            units: 0,
            tenants,
            events,
            actions,
            faults,
        }
    }

    /// Reduced scripts, the smallest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let lengths = [self.events.len(), self.actions.len(), self.faults.len()];
        for (list, length) in lengths.into_iter().enumerate() {
            let mut size = length.next_power_of_two();
            while size > 0 {
                for start in (0..length).step_by(size) {
                    let mut script = self.clone();
                    let range = start..length.min(start + size);
                    match list {
                        0 => drop(script.events.drain(range)),
                        1 => drop(script.actions.drain(range)),
                        _ => drop(script.faults.drain(range)),
                    }
                    smaller.push(script);
                }
                size /= 2;
            }
        }
        let one = Processes::Few(1, 1);
        smaller.extend((self.processes != one).then(|| Self { processes: one, ..self.clone() }));
        smaller.extend((self.skew != 0).then(|| Self { skew: 0, ..self.clone() }));
        smaller
    }

    pub(crate) fn size(&self) -> usize {
        self.events.len() + self.actions.len() + self.faults.len()
    }
}

fn moment(rng: &mut Rng, span: Time) -> Time {
    Duration::from_millis(rng.u64(0..u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

fn tenant(rng: &mut Rng, span: Time) -> Tenant {
    let endpoints = 0..rng.usize(1..=3);
    let endpoints = endpoints.map(|number| Receiver { has_dead_address: number % 2 == 1, ..receiver(rng, span) });
    Tenant { endpoints: endpoints.collect(), callbacks: receiver(rng, span), bytes: 0 }
}

fn receiver(rng: &mut Rng, span: Time) -> Receiver {
    let mut phases = Vec::new();
    // Most receivers are healthy most of the time.
    for _ in 0..rng.usize(0..=2) {
        phases.push((moment(rng, span * 2), manner(rng)));
    }
    phases.sort_by_key(|(until, _)| *until);
    let last = match rng.u32(0..6) {
        0 => manner(rng),
        _ => Manner::Answers(200, rng.u64(0..50), None),
    };
    phases.push((Duration::MAX, last));
    Receiver { phases, only_failures: rng.u32(0..8) == 0, has_dead_address: false }
}

fn manner(rng: &mut Rng) -> Manner {
    let after = [0, 20, 900, 3000, 14_000, 15_500][rng.usize(0..6)];
    match rng.u32(0..16) {
        0 => Manner::Answers(204, after, None),
        1 | 2 => Manner::Answers(500, after, None),
        3 => Manner::Answers(404, 5, None),
        4 => Manner::Answers(302, 5, None),
        5 => Manner::Answers(410, 5, None),
        6 => Manner::Answers(429, 5, Some(rng.u64(1..90))),
        7 => Manner::Answers(503, 5, rng.bool().then(|| rng.u64(1..20))),
        8 => Manner::Flaps,
        9 => Manner::Closes,
        10 | 11 => Manner::Hangs,
        12 => Manner::Cuts,
        13 => Manner::CutsShort,
        14 => Manner::Refuses,
        _ => [Manner::Swallows, Manner::Nameless][rng.usize(0..2)],
    }
}

fn event(rng: &mut Rng, span: Time, tenants: &[Tenant], number: usize) -> Event {
    let audience = match rng.u32(0..10) {
        0..2 => Audience::Callback,
        2..3 => Audience::None,
        _ => Audience::Endpoints,
    };
    let within = if rng.bool() { span } else { Duration::from_secs(2) };
    let at = moment(rng, within);
    Event { at, tenant: rng.usize(0..tenants.len()), number, failed: rng.bool(), audience }
}

fn action(rng: &mut Rng, span: Time, tenants: &[Tenant]) -> Action {
    let tenant = rng.usize(0..tenants.len());
    let endpoint = rng.usize(0..tenants[tenant].endpoints.len());
    let call = match rng.u32(0..14) {
        0..4 => Call::Rotate,
        4..6 => Call::Deactivate,
        6..7 => Call::Activate,
        7..8 => Call::Delete,
        8..11 => Call::Resend(rng.usize(0..100)),
        11..12 => Call::Recover,
        _ => Call::Test,
    };
    Action { at: moment(rng, span * 2), tenant, endpoint, call }
}

/// An endpoint is inactive for a while, and its missed deliveries are recovered.
fn absence(rng: &mut Rng, span: Time, tenants: &[Tenant]) -> Vec<Action> {
    let tenant = rng.usize(0..tenants.len());
    let endpoint = rng.usize(0..tenants[tenant].endpoints.len());
    let begin = moment(rng, span);
    let end = begin + moment(rng, span);
    let calls = [(begin, Call::Deactivate), (end, Call::Activate), (end + moment(rng, span), Call::Recover)];
    let most = rng.usize(1..=4);
    calls.into_iter().take(most).map(|(at, call)| Action { at, tenant, endpoint, call }).collect()
}

/// The operations that are called to deliver events.
const OPERATIONS: [&str; 10] = [
    "BatchWriteItem",
    "BatchExecuteStatement",
    "UpdateItem",
    "UpdateItem",
    "SendMessageBatch",
    "SendMessageBatch",
    "GetItem",
    "BatchGetItem",
    "Query",
    "SendRawEmail",
];

fn which(rng: &mut Rng) -> Which {
    let any = if rng.bool() { 60 } else { 400 };
    match rng.u32(0..3) {
        0 => Which::Any(rng.usize(0..any)),
        _ => {
            let operation = OPERATIONS[rng.usize(0..OPERATIONS.len())];
            let first = if rng.bool() { 3 } else { 16 };
            Which::Of(operation, rng.usize(0..first))
        }
    }
}

fn who(rng: &mut Rng) -> Who {
    match rng.u32(0..8) {
        0 => Who::Sweeper(rng.usize(0..2)),
        1..3 => Who::Api(rng.usize(0..3)),
        _ => Who::Any(rng.usize(0..6)),
    }
}

fn fault(rng: &mut Rng, span: Time) -> DeclaredError {
    let polls = [40, 150, 400][rng.usize(0..3)];
    match rng.u32(0..28) {
        0 => DeclaredError::Refused(which(rng)),
        1..4 => DeclaredError::Lost(which(rng)),
        4 => DeclaredError::Throttled(which(rng)),
        5..7 => DeclaredError::Late(which(rng), rng.u64(500..9000)),
        7..9 => DeclaredError::Partial(which(rng)),
        9 if rng.bool() => DeclaredError::Hot(moment(rng, span), rng.u64(100..4000)),
        9 => DeclaredError::Conflict(which(rng)),
        10..12 => {
            let service = [Service::DynamoDb, Service::DynamoDb, Service::Sqs, Service::Ses][rng.usize(0..4)];
            DeclaredError::Outage(service, moment(rng, span), rng.u64(100..20_000))
        }
        12..15 => DeclaredError::OutageFrom(which(rng), rng.u64(100..20_000)),
        15..20 => DeclaredError::Crash(who(rng), rng.u32(1..polls)),
        20..24 => {
            let most = if rng.bool() { 8 } else { 30 };
            DeclaredError::Duplicate(rng.usize(0..most), [0, 0, 1, 30, 100, 300][rng.usize(0..6)])
        }
        24 => DeclaredError::Undeleted(rng.usize(0..12)),
        25..27 => DeclaredError::NoSweep(rng.u64(0..12)),
        _ => DeclaredError::TwoSweeps(rng.u64(0..12)),
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, schedule, disable_after, hold_for, overlap, processes, slots, skew, sweep_every, .. } = self;
        writeln!(
            f,
            "seed {seed}: retries after {schedule:?} s, disabled after {disable_after} s, held for {hold_for} s, rotation {overlap} s, \
                     {processes:?} processes and invocations in each, {slots} attempts at once, a sweep every {sweep_every} min, clocks off by up to {skew} ms"
        )?;
        for (number, tenant) in self.tenants.iter().enumerate() {
            for (endpoint, receiver) in tenant.endpoints.iter().enumerate() {
                writeln!(f, "  tenant {number}, endpoint {endpoint}: {receiver:?}")?;
            }
            writeln!(f, "  tenant {number}, callbacks: {:?}", tenant.callbacks)?;
        }
        self.events.iter().try_for_each(|event| writeln!(f, "  {event:?}"))?;
        self.actions.iter().try_for_each(|action| writeln!(f, "  {action:?}"))?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "  {fault:?}"))
    }
}
