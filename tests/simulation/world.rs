//! The world around the functions: its clock, its randomness, and its history.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use common::runtime_sources::RuntimeSources;
use dynoxide::Database;
use fastrand::Rng;
use local::Plan;
use tokio::{sync::Notify, time::Instant};

use crate::{
    queue::{Queue, Queues, Sent},
    receivers::{Post, To},
    run::{Stored, Within},
    script::{DeclaredError, Script, Service, Time, Which},
};

/// The start of all runs: 2026-01-31T12:00:20Z.
pub(crate) const BEGINNING: Duration = Duration::from_secs(1_769_860_820);

/// The time between two copies that different processes handle at the same time. If both were visible at once, they
/// would usually be in one batch.
const OVERLAPPING: Duration = Duration::from_millis(10);
/// The time within which a copy of an event is handled as a new event.
pub(crate) const NEW: Duration = Duration::from_mins(1);

#[derive(Clone, Debug)]
pub(crate) struct EmailMessage {
    pub(crate) at: Time,
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// The state of a run.
pub(crate) struct State {
    /// A line for each occurrence, in order.
    pub(crate) history: Vec<String>,
    /// The source of latencies and message order.
    pub(crate) rng: Rng,
    pub(crate) queues: Queues,
    pub(crate) posts: Vec<Post>,
    /// The number of requests to receivers that count requests, and of refused connections.
    pub(crate) requests_of: BTreeMap<To, usize>,
    pub(crate) refused: usize,
    pub(crate) mails: Vec<EmailMessage>,
    /// The items in the tables, if they have been read since the last write.
    pub(crate) stored: Option<Arc<Stored>>,
    /// The partitions for due rows that may contain a row.
    pub(crate) due: BTreeSet<String>,
    /// The numbers of calls, sent messages, processes and invocations.
    pub(crate) calls: usize,
    pub(crate) calls_of: BTreeMap<String, usize>,
    /// The services that are down, each with the end of its outage.
    pub(crate) outages: Vec<(Service, Time)>,
    pub(crate) sends: usize,
    pub(crate) processes: usize,
    pub(crate) processes_of: BTreeMap<&'static str, usize>,
    pub(crate) invocations: usize,
    /// The total duration of the invocations, and the numbers of SQS requests and of written rows.
    pub(crate) billed: Duration,
    pub(crate) sqs_requests: usize,
    pub(crate) writes: usize,
    /// The number of invocations in progress.
    pub(crate) busy: usize,
    pub(crate) crashes: usize,
    /// The processes that have made their last call.
    pub(crate) dying: BTreeSet<String>,
    /// Faults that took effect, including crashes.
    pub(crate) faults: usize,
    /// The number of faults that do not justify repetitions.
    pub(crate) harmless: usize,
    /// The number of messages delivered twice.
    pub(crate) copies: usize,
    /// The write units that are left of each table, and when they were counted.
    pub(crate) units: BTreeMap<String, (f64, Time)>,
    /// The period in which the event of each job was handled, by job id.
    pub(crate) handled: BTreeMap<String, Within>,
    /// When each delivery first appeared in the log, by its partition and sort key.
    pub(crate) logged: BTreeMap<[String; 2], Time>,
    /// Forbidden state changes in the log.
    pub(crate) misled: Vec<String>,
    /// Held deliveries that became pending without being resent or recovered.
    pub(crate) unasked: Vec<String>,
    /// Deliveries that were due for so long that a sweep considered their messages lost, although no fault had
    /// occurred.
    pub(crate) overdue: Vec<String>,
    /// Records, invocations and sweeps that failed.
    pub(crate) failures: Vec<String>,
}

/// The world of a run.
pub(crate) struct World {
    pub(crate) script: Script,
    pub(crate) plan: Arc<Plan>,
    pub(crate) database: Database,
    /// Signals that a message can be received, or that a process is free.
    pub(crate) changed: Notify,
    began: Instant,
    state: Mutex<State>,
}

thread_local! {
    static PLAN: RefCell<Option<Arc<Plan>>> = const { RefCell::new(None) };
}

/// The template, read once for each thread.
fn plan() -> Arc<Plan> {
    PLAN.with_borrow_mut(|plan| Arc::clone(plan.get_or_insert_with(|| Arc::new(Plan::new().expect("the template")))))
}

impl World {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        let plan = plan();
        let queues = plan.queues.iter().filter_map(|(name, properties)| {
            let number = |pointer| properties.pointer(pointer)?.as_u64();
            let max = number("/RedrivePolicy/maxReceiveCount")?;
            let visibility = Duration::from_secs(number("/VisibilityTimeout")?);
            Some((name.clone(), Queue::new(visibility, u32::try_from(max).ok()?, script.order)))
        });
        let state = State {
            history: Vec::new(),
            rng: Rng::with_seed(script.seed ^ 0xA5A5),
            queues: queues.collect(),
            posts: Vec::new(),
            requests_of: BTreeMap::new(),
            refused: 0,
            mails: Vec::new(),
            stored: None,
            due: BTreeSet::new(),
            calls: 0,
            calls_of: BTreeMap::new(),
            outages: Vec::new(),
            sends: 0,
            processes: 0,
            processes_of: BTreeMap::new(),
            invocations: 0,
            billed: Duration::ZERO,
            sqs_requests: 0,
            writes: 0,
            busy: 0,
            crashes: 0,
            dying: BTreeSet::new(),
            faults: 0,
            harmless: 0,
            copies: 0,
            units: BTreeMap::new(),
            handled: BTreeMap::new(),
            logged: BTreeMap::new(),
            misled: Vec::new(),
            unasked: Vec::new(),
            overdue: Vec::new(),
            failures: Vec::new(),
        };
        let database = Database::memory().expect("a database");
        local::create_tables(&database, &plan.tables).expect("tables");
        Arc::new(Self {
            script,
            plan,
            database,
            changed: Notify::new(),
            began: Instant::now(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Time {
        self.began.elapsed()
    }

    pub(crate) fn instant(&self, at: Time) -> Instant {
        self.began + at
    }

    /// The true time, in milliseconds since 1970.
    pub(crate) fn ms(&self) -> i64 {
        i64::try_from((BEGINNING + self.now()).as_millis()).expect("before the year 292,000,000")
    }

    /// Adds a line to the history.
    pub(crate) fn note(&self, who: impl Display, what: impl Display) {
        let line = format!("{} {who}: {what}", stamp(self.now()));
        self.state().history.push(line);
    }

    /// Records a failure of the service, which is permitted only after a fault.
    pub(crate) fn fail(&self, who: impl Display, what: impl Display) {
        let failure = format!("{who}: {what}");
        self.note("failure of", &failure);
        self.state().failures.push(failure);
    }

    /// A number below `end`.
    pub(crate) fn draw(&self, end: u64) -> u64 {
        self.state().rng.u64(0..end)
    }

    /// A clock with this offset in milliseconds, and a separate random source.
    pub(crate) fn sources(&self, off: i64) -> RuntimeSources {
        let began = self.began;
        let rng = Mutex::new(self.state().rng.fork());
        let now = move || {
            let right = SystemTime::UNIX_EPOCH + BEGINNING + began.elapsed();
            let by = Duration::from_millis(off.unsigned_abs());
            if off < 0 { right - by } else { right + by }
        };
        let fill = move |bytes: &mut [u8]| rng.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
        RuntimeSources { now: Arc::new(now), fill: Arc::new(fill) }
    }

    /// The number of the next call, and its fault.
    pub(crate) fn next_call(&self, service: Service, operation: &str) -> (usize, Option<DeclaredError>) {
        let now = self.now();
        let mut state = self.state();
        let number = state.calls;
        state.calls += 1;
        let of_its_kind = state.calls_of.entry(operation.to_owned()).or_default();
        let number_of_its_kind = *of_its_kind;
        *of_its_kind += 1;
        let is_it = |which: Which| match which {
            Which::Any(call) => call == number,
            Which::Of(name, call) => (name, call) == (operation, number_of_its_kind),
        };
        let began = self.script.faults.iter().find_map(|fault| match fault {
            DeclaredError::OutageFrom(which, ms) if is_it(*which) => Some(now + Duration::from_millis(*ms)),
            _ => None,
        });
        state.outages.extend(began.map(|end| (service, end)));
        let is_down = state.outages.iter().any(|(down, end)| *down == service && now <= *end);
        let met = self.script.faults.iter().find(|fault| match fault {
            DeclaredError::Refused(which)
            | DeclaredError::Lost(which)
            | DeclaredError::Throttled(which)
            | DeclaredError::Late(which, _)
            | DeclaredError::Partial(which)
            | DeclaredError::Conflict(which)
            | DeclaredError::Dies(which) => is_it(*which),
            DeclaredError::Outage(down, from, ms) => {
                *down == service && (*from..*from + Duration::from_millis(*ms)).contains(&now)
            }
            DeclaredError::OutageFrom(..) => is_down,
            _ => false,
        });
        state.faults += usize::from(met.is_some());
        (number, met.copied())
    }

    /// The delay until the next message is delivered a second time, if any.
    pub(crate) fn next_send(&self, state: &mut State) -> Option<Duration> {
        let number = state.sends;
        state.sends += 1;
        let again = self.script.faults.iter().find_map(|fault| match fault {
            DeclaredError::Duplicate(send, seconds) if *send == number => Some(Duration::from_secs(*seconds)),
            DeclaredError::Overlapping(send) if *send == number => Some(OVERLAPPING),
            _ => None,
        });
        state.faults += usize::from(again.is_some());
        // A late copy is recognized, because the deliveries are already in the log.
        let is_late = again.is_some_and(|again| again > NEW);
        state.harmless += usize::from(is_late);
        state.copies += usize::from(again.is_some() && !is_late);
        again
    }

    /// Puts a message into a queue.
    pub(crate) fn send(&self, queue: &str, message: Sent) -> Result<String, &'static str> {
        let age = if queue == "job-events" { self.script.age } else { Duration::ZERO };
        let (now, ms) = (Instant::now(), self.ms() - i64::try_from(age.as_millis()).expect("days"));
        let mut state = self.state();
        let again = self.next_send(&mut state);
        let State { queues, rng, .. } = &mut *state;
        let queue = queues.get_mut(queue).ok_or("AWS.SimpleQueueService.NonExistentQueue")?;
        let sent = queue.send(message, again, (now, ms), rng);
        drop(state);
        self.changed.notify_waiters();
        sent
    }
}

/// A time in the format of histories.
pub(crate) fn stamp(at: Time) -> String {
    let (seconds, ms) = (at.as_secs(), at.subsec_millis());
    format!("{:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
