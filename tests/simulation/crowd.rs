//! A crowd: tenants with healthy receivers next to many with bad receivers, and as many processes as Lambda would
//! start. The delays of the healthy tenants' events are measured on the clock of the run, which moves only when no work
//! is left. They are therefore caused by receivers, AWS and scheduling, never by a lack of CPU.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::sleep_until;

use crate::{
    processes::Fleet,
    run::{Known, begin, in_virtual_time, produce, start},
    script::{Audience, Event, Manner, Order, Processes, Receiver, Script, Tenant, Time, WHOLE},
    world::World,
};

/// The neighbor: a healthy tenant with a receiver that has accepted deliveries before.
const NEIGHBOR: usize = 0;
/// For each burst, the number of healthy tenants whose first event is part of it. These tenants are numbered after the
/// neighbor and before the bad tenants.
const NEW: usize = 3;
/// A tenant with a receiver that has been known to be slow since before the burst.
const SLOW_TENANT: usize = 1 + 2 * NEW;
/// A tenant with a quick receiver, which takes 0.8 seconds from [`SLOWS`] onward.
const SLOWING: usize = SLOW_TENANT + 1;
const FIRST_BAD: usize = SLOWING + 1;
/// The usual behavior of the slow tenant's receiver.
const SLOW: Manner = Manner::Answers(200, 800, None);
/// The number of deliveries that the neighbor's receiver has accepted before the first burst.
const BEFORE: u32 = 5;

/// The start of the bursts. At the first burst, no process is running and the bad receivers are unknown. At the second,
/// their behavior is known.
const BURSTS: [Time; 2] = [Duration::from_secs(20), Duration::from_secs(80)];
/// When a quick receiver becomes slow. At this time, attempts at hanging receivers have just been cut off and are
/// repeated with more time.
const SLOWS: Time = Duration::from_secs(22);
/// The duration of a burst.
const BURST: Duration = Duration::from_millis(500);
/// The time between the neighbor's events before and after a burst.
const PACE: Duration = Duration::from_millis(500);
/// The interval between the bad tenants' events after a burst, if they continue, and the duration of that phase.
const BAD_PACE: Duration = Duration::from_millis(20);
const GOING_ON: Duration = Duration::from_secs(59);
/// The interval at which the log is searched for waiting deliveries.
const LOOK: Duration = Duration::from_secs(5);

/// The shape of a crowd.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    /// The number of bad tenants, and the number of endpoints of each.
    bad: usize,
    endpoints: usize,
    manner: Manner,
    /// The behavior of the neighbor's receiver, and of the slow tenant's.
    neighbor: Manner,
    slow: Manner,
    /// The behavior of the bad receivers starting with the second burst, if different.
    then: Option<Manner>,
    audience: Audience,
    /// The total number of the bad tenants' events in each burst, and whether they continue after it.
    events: usize,
    goes_on: bool,
    /// The number of the neighbor's events in each burst, and after it.
    own: u32,
    slow_invocations: usize,
    is_fair: bool,
    /// The end of the run.
    ends: Time,
}

/// The delays of some deliveries, from the queue to the receiver.
struct Latencies {
    /// The delays, in ascending order.
    arrived: Vec<Duration>,
    missing: usize,
}

struct Figures {
    /// For each burst: the neighbor's deliveries during and after it, and the deliveries of the new tenants and the
    /// slow tenant.
    bursts: Vec<[Latencies; 4]>,
    /// The deliveries to the receiver that becomes slow, from that time on.
    slowing: Latencies,
    /// The bad tenants' deliveries of the first burst.
    bad: Latencies,
    /// The number of the neighbor's deliveries that are in the log without an attempt.
    untried: usize,
    /// The number of attempts for all tenants; for healthy tenants, it is small and constant.
    attempts: usize,
    invocations: usize,
    billed: Duration,
    sqs_requests: usize,
    writes: usize,
}

impl Crowd {
    fn script(&self) -> Script {
        let receiver =
            |manner| Receiver { phases: vec![(Duration::MAX, manner)], only_failures: false, has_dead_address: false };
        let tenant = |endpoints: usize, manner| Tenant {
            endpoints: (0..endpoints).map(|_| receiver(manner)).collect(),
            callbacks: receiver(manner),
            bytes: 0,
        };
        let slow = tenant(1, self.slow);
        let mut slowing = tenant(1, SLOW);
        slowing.endpoints[0].phases.insert(0, (SLOWS, Manner::Prompt));
        let new = (1..SLOW_TENANT).map(|_| tenant(1, Manner::Prompt));
        let well = [tenant(1, self.neighbor)].into_iter().chain(new).chain([slow, slowing]);
        let bad = (0..self.bad).map(|_| {
            let mut bad = tenant(self.endpoints, self.manner);
            let changes = BURSTS[1] - Duration::from_secs(1);
            if let Some(then) = self.then {
                for receiver in &mut bad.endpoints {
                    receiver.phases = vec![(changes, self.manner), (Duration::MAX, then)];
                }
            }
            bad
        });
        Script {
            seed: 1,
            schedule: WHOLE,
            disable_after: 432_000,
            hold_for: 604_800,
            overlap: 86_400,
            processes: Processes::Lambda,
            slow_invocations: self.slow_invocations,
            order: if self.is_fair { Order::Fair } else { Order::Oldest },
            slots: 200,
            skew: 0,
            sweep_every: 1,
            sweeps_idly: true,
            trouble: self.ends,
            age: Duration::ZERO,
            units: 0,
            tenants: well.chain(bad).collect(),
            events: self.events(),
            actions: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut send = |at, tenant, audience| {
            let number = events.len();
            events.push(Event { at, tenant, number, failed: false, audience });
        };
        for number in 0..BEFORE {
            [NEIGHBOR, SLOW_TENANT, SLOWING]
                .into_iter()
                .for_each(|tenant| send(PACE * number, tenant, Audience::Endpoints));
        }
        (0..20).for_each(|number| send(SLOWS + BURST * number / 20, SLOWING, Audience::Endpoints));
        for (burst, begins) in BURSTS.into_iter().enumerate() {
            for number in 0..self.events {
                let at = begins + BURST.mul_f64(number as f64 / self.events as f64);
                send(at, FIRST_BAD + number % self.bad, self.audience);
            }
            let going_on = if self.goes_on { GOING_ON.as_millis() / BAD_PACE.as_millis() } else { 0 };
            for number in 0..u32::try_from(going_on).expect("few") {
                send(begins + BURST + BAD_PACE * number, FIRST_BAD + number as usize % self.bad, self.audience);
            }
            for number in 0..self.own {
                send(begins + BURST * number / self.own, NEIGHBOR, Audience::Endpoints);
                if number < self.own.min(20) {
                    send(begins + BURST * number / self.own.min(20), SLOW_TENANT, Audience::Endpoints);
                }
                send(after(begins) + PACE * number, NEIGHBOR, Audience::Endpoints);
            }
            let new = 1 + burst * NEW..1 + (burst + 1) * NEW;
            new.for_each(|tenant| send(begins + BURST / 2, tenant, Audience::Endpoints));
        }
        events
    }

    fn run(&self) -> Figures {
        let script = self.script();
        in_virtual_time(script.seed, async {
            let world = World::new(script);
            let known = begin(&world).await;
            let fleet = Fleet::new(&world);
            let mut tasks = start(&world, &fleet);
            tasks.spawn(produce(Arc::clone(&world), known.ids()));
            sleep_until(world.instant(BURSTS[0] - Duration::from_secs(1))).await;
            fleet.end();
            let untried = wait(&world, &known, self.ends).await;
            tasks.abort_all();
            Figures::of(&world, untried)
        })
    }
}

/// The end of a burst, when the neighbor's later events begin.
fn after(begins: Time) -> Time {
    begins + BURST * 2
}

/// Waits for the end of the run. Returns the number of the neighbor's deliveries that were in the log without an
/// attempt.
async fn wait(world: &World, known: &Known, end: Time) -> usize {
    let mut untried = BTreeMap::new();
    while world.now() < end {
        sleep_until(world.instant(world.now() + LOOK)).await;
        let pending = json!({"limit": 100, "status": "pending"});
        let pending = known.tenants[NEIGHBOR].client.deliveries(&pending).await;
        let waiting = pending.into_iter().filter(|delivery| delivery["attempts"] == 0);
        untried.extend(waiting.map(|delivery| (delivery["delivery_id"].to_string(), delivery)));
    }
    untried.len()
}

impl Figures {
    fn of(world: &World, untried: usize) -> Self {
        let state = world.state();
        let (mut arrivals, mut attempts) = (BTreeMap::new(), state.refused);
        for post in &state.posts {
            attempts += usize::from(post.to.0 >= FIRST_BAD);
            // Requests that were cut off are omitted, because these receivers get them again.
            if post.to.0 >= SLOWING && !post.taken {
                continue;
            }
            let body: Value = serde_json::from_str(&post.body).expect("JSON");
            arrivals.entry(body["job_id"].as_str().expect("a job").to_owned()).or_insert(post.at);
        }
        let latencies = |is_meant: &dyn Fn(&Event) -> bool| {
            let events = world.script.events.iter().filter(|event| is_meant(event));
            let waits = events.map(|event| Some(*arrivals.get(&event.job())? - event.at));
            let (arrived, missing): (Vec<_>, Vec<_>) = waits.partition(Option::is_some);
            let mut arrived: Vec<_> = arrived.into_iter().flatten().collect();
            arrived.sort();
            Latencies { arrived, missing: missing.len() }
        };
        let bursts = BURSTS.map(|begins| {
            let (in_it, after_it) = (begins..after(begins), after(begins)..begins + Duration::from_mins(1));
            [
                latencies(&|event| event.tenant == NEIGHBOR && in_it.contains(&event.at)),
                latencies(&|event| event.tenant == NEIGHBOR && after_it.contains(&event.at)),
                latencies(&|event| (1..SLOW_TENANT).contains(&event.tenant) && in_it.contains(&event.at)),
                latencies(&|event| event.tenant == SLOW_TENANT && in_it.contains(&event.at)),
            ]
        });
        Self {
            bursts: bursts.into(),
            slowing: latencies(&|event| event.tenant == SLOWING && event.at >= SLOWS),
            bad: latencies(&|event| event.tenant >= FIRST_BAD && event.at < BURSTS[0] + BURST),
            untried,
            attempts,
            invocations: state.invocations,
            billed: state.billed,
            sqs_requests: state.sqs_requests,
            writes: state.writes,
        }
    }
}

impl Latencies {
    /// The time within which this percentage of the deliveries arrived, if they did.
    fn percentile(&self, percent: usize) -> Option<Duration> {
        let all = self.arrived.len() + self.missing;
        self.arrived.get((all * percent).div_ceil(100).saturating_sub(1)).copied()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percentile = |percent| {
            self.percentile(percent).map_or_else(|| "-".to_owned(), |wait| format!("{:.2}", wait.as_secs_f64()))
        };
        write!(f, "{:>6} {:>6} {:>4}", percentile(50), percentile(99), self.missing)
    }
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bad, endpoints, manner, slow, then, events, slow_invocations, .. } = self;
        let to = match self.audience {
            Audience::Endpoints => format!("{bad} x {endpoints}"),
            Audience::OwnCallback => format!("{bad}, callbacks to many"),
            _ => format!("{bad}, callbacks to one"),
        };
        let (more, queue) = (if self.goes_on { "+" } else { "" }, if self.is_fair { "fair" } else { "in order" });
        let then = then.map_or_else(String::new, |then| format!(", then {then:?}"));
        let beside = if *slow == SLOW { String::new() } else { format!(", beside {slow:?}") };
        let few = if *slow_invocations < 100 { format!(", {slow_invocations} invocations") } else { String::new() };
        write!(f, "{:<58}", format!("{manner:?}{then} {to}, {events}{more} events, {queue}{beside}{few}"))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for [in_it, after_it, new, slow] in &self.bursts {
            write!(f, "| {in_it} | {after_it} | {new} | {slow} ")?;
        }
        let Self { slowing, bad, untried, attempts, invocations, sqs_requests, writes, .. } = self;
        let billed = self.billed.as_secs();
        write!(
            f,
            "| {slowing} | {bad} | {untried:>4} | {attempts:>7} {invocations:>7} {billed:>7} {sqs_requests:>7} {writes:>7}"
        )
    }
}

const HEADER: &str = "each p50, p99 in seconds, and missing: cold: in the burst | after it | new tenants | slow | \
                      known: in the burst | after it | new tenants | slow | becoming slow | the bad, cold | \
                      untried | \
                      attempts at the bad, invocations, billed seconds, SQS requests, rows written";

/// The crowds for the figures. With `goes_on`, which causes ten times the work, there are only ten tenants and no fair
/// queues.
fn crowds() -> Vec<Crowd> {
    let manners = [
        Manner::Prompt,
        Manner::Hangs,
        Manner::Answers(200, 450, None),
        Manner::Answers(200, 1400, None),
        Manner::Answers(200, 2900, None),
        Manner::Answers(200, 5000, None),
        Manner::Answers(500, 3, None),
        Manner::Alternates(1, 1),
        Manner::Alternates(9, 1),
        Manner::Alternates(1, 9),
        Manner::Refuses,
    ];
    let to_endpoints = manners.into_iter().flat_map(|manner| {
        let shapes = [(1, 10), (10, 10), (100, 10), (1, 100)];
        shapes.map(|(bad, endpoints)| (bad, endpoints, manner, Audience::Endpoints))
    });
    let to_callbacks = [Audience::Callback, Audience::OwnCallback].into_iter().flat_map(|audience| {
        let tenants = [1, 10, 100];
        tenants.map(|bad| (bad, 1, Manner::Hangs, audience))
    });
    let mut crowds = LARGE.to_vec();
    crowds.extend([LATE_ALONE, LATE_BESIDE_CALLBACKS, LATE_BESIDE_ENDPOINTS]);
    for (bad, endpoints, manner, audience) in to_endpoints.chain(to_callbacks) {
        // A hundred endpoints cause ten times as many deliveries.
        let events = if endpoints == 100 { 300 } else { 1000 };
        for (is_fair, goes_on) in [(false, false), (true, false), (false, true)] {
            if !goes_on || bad == 10 {
                crowds.push(Crowd {
                    bad,
                    endpoints,
                    manner,
                    neighbor: Manner::Prompt,
                    slow: SLOW,
                    then: None,
                    audience,
                    events,
                    goes_on,
                    own: 100,
                    slow_invocations: usize::MAX,
                    is_fair,
                    ends: Duration::from_secs(200),
                });
            }
        }
    }
    crowds
}

#[test]
#[ignore = "takes minutes with --profile bench; prints the crowds whose names contain CROWD"]
fn figures_of_a_crowd() {
    let (wanted, next) = (std::env::var("CROWD").unwrap_or_default(), AtomicUsize::new(0));
    let crowds: Vec<_> = crowds().into_iter().filter(|crowd| crowd.to_string().contains(&wanted)).collect();
    println!("{HEADER}");
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(crowd) = crowds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    println!("{crowd}{}", crowd.run());
                }
            });
        }
    });
}

/// A crowd that is small enough for every `cargo test`.
const SMALL: Crowd = Crowd {
    bad: 10,
    endpoints: 1,
    manner: Manner::Hangs,
    neighbor: Manner::Prompt,
    slow: SLOW,
    then: None,
    audience: Audience::Endpoints,
    events: 55,
    goes_on: false,
    own: 8,
    slow_invocations: usize::MAX,
    is_fair: false,
    ends: Duration::from_secs(90),
};

const SLOWLY: Crowd = Crowd { manner: Manner::Answers(200, 5000, None), ..SMALL };
const CALLBACKS: Crowd = Crowd { audience: Audience::OwnCallback, ..SMALL };
const MANY_CALLBACKS: Crowd = Crowd { bad: 1, events: 300, ..CALLBACKS };
const MANY_ENDPOINTS: Crowd = Crowd { bad: 1, endpoints: 10, events: 100, ..SMALL };
const JUST_IN_TIME: Crowd = Crowd { manner: Manner::Answers(200, 450, None), ..SMALL };
/// Crowds large enough to occupy all of a queue's invocations: hanging receivers, slow receivers that begin to hang,
/// and new callback origins of one organization.
const MANY: Crowd = Crowd { endpoints: 10, events: 600, ..SMALL };
const SLOW_THEN_HANGING: Crowd = Crowd {
    manner: Manner::Answers(200, 800, None),
    then: Some(Manner::Hangs),
    ends: Duration::from_secs(110),
    ..MANY
};
const VERY_MANY_CALLBACKS: Crowd = Crowd { events: 1500, ..MANY_CALLBACKS };
/// Receivers that answer just in time, with more events than invocations, next to a receiver that is never quick.
const BESIDE_STEADY: Crowd = Crowd { neighbor: Manner::Answers(200, 150, None), events: 1200, own: 20, ..JUST_IN_TIME };
const BESIDE_SLUGGISH: Crowd = Crowd { neighbor: Manner::Answers(200, 400, None), ..BESIDE_STEADY };
/// The same receivers of a single organization, which has most of the events that queue: only fair queues help others.
const LINGERING: Crowd = Crowd { bad: 1, events: 3000, own: 20, is_fair: true, ..JUST_IN_TIME };
/// More deliveries to slow receivers than the capacity allows, from one tenant and from many.
const MANY_SLOW: Crowd = Crowd { bad: 1, manner: Manner::Answers(200, 1400, None), events: 1200, own: 20, ..SMALL };
/// The same in a smaller service, where a crowd would occupy all invocations for slow receivers for seconds.
const CROWDED: Crowd = Crowd { events: 400, slow_invocations: 10, ..MANY_SLOW };
const SLOWER: Crowd = Crowd { manner: Manner::Answers(200, 2900, None), ..MANY_SLOW };
const SLOW_TENANTS: Crowd = Crowd { bad: 50, ..MANY_SLOW };
/// A receiver that takes two seconds, and therefore shares the queue of hanging receivers: alone, and beside crowds.
const LATE: Manner = Manner::Answers(200, 2000, None);
const LATE_ALONE: Crowd = Crowd { manner: Manner::Prompt, slow: LATE, own: 20, ends: Duration::from_mins(2), ..SMALL };
const LATE_BESIDE_CALLBACKS: Crowd =
    Crowd { manner: Manner::Hangs, audience: Audience::OwnCallback, bad: 1, events: 1500, ..LATE_ALONE };
const LATE_BESIDE_ENDPOINTS: Crowd =
    Crowd { endpoints: 10, events: 1000, audience: Audience::Endpoints, ..LATE_BESIDE_CALLBACKS };
pub(crate) const SMALL_ONES: [Crowd; 7] =
    [SMALL, SLOWLY, CALLBACKS, MANY_CALLBACKS, MANY_ENDPOINTS, JUST_IN_TIME, CROWDED];
pub(crate) const LARGE: [Crowd; 9] = [
    MANY,
    SLOW_THEN_HANGING,
    VERY_MANY_CALLBACKS,
    BESIDE_STEADY,
    BESIDE_SLUGGISH,
    LINGERING,
    MANY_SLOW,
    SLOWER,
    SLOW_TENANTS,
];

/// The rule that a crowd violates by delaying other tenants too much, if any.
fn violation(crowd: &Crowd) -> Option<&'static str> {
    let figures = crowd.run();
    println!("{HEADER}\n{crowd}{figures}");
    // If there are only a few invocations for slow receivers, this holds for half of their deliveries, and up to two
    // attempts may be in the way.
    let is_small = crowd.slow_invocations != usize::MAX;
    let (percent, slow_bound, slowing_bound) = if is_small { (50, 3, 4) } else { (99, 2, 6) };
    // Quick receivers that begin to hang hold the invocations of their first attempts until these end.
    let held = if crowd.then.is_some() { 15 } else { 0 };
    let bounds = [(5, 7), (1 + held, slow_bound + held)];
    let bounds = bounds.map(|(good, slow)| (Duration::from_secs(good), Duration::from_secs(slow)));
    let exceeds = |wait: Option<Duration>, bound| wait.is_none_or(|wait| wait > bound);
    let is_late = |latencies: &Latencies, bound| exceeds(latencies.percentile(99), bound);
    let is_late_and_slow = |latencies: &Latencies, bound| exceeds(latencies.percentile(percent), bound);
    for ([in_it, after_it, new, slow], (bound, slow_bound)) in figures.bursts.iter().zip(bounds) {
        if in_it.missing + after_it.missing + new.missing + slow.missing > 0 {
            return Some("everything is delivered despite a crowd");
        }
        if is_late(in_it, bound) || is_late(after_it, bound) {
            return Some("good receivers do not wait for a crowd");
        }
        if is_late_and_slow(slow, slow_bound) {
            return Some("slow receivers do not wait for a crowd");
        }
    }
    // A receiver that becomes slow gets a trial, and then shares the queue of slow receivers.
    if figures.slowing.missing > 0 || is_late_and_slow(&figures.slowing, Duration::from_secs(slowing_bound)) {
        return Some("receivers that become slow do not wait for a crowd");
    }
    // Receivers that are merely slow get all events of a burst before the next one.
    if crowd.then.is_none() && matches!(crowd.manner, Manner::Answers(200, ..1500, _)) && figures.bad.missing > 0 {
        return Some("a crowd of slow receivers gets its deliveries");
    }
    // An unanswered attempt is the last for half a minute. A receiver that begins to hang also has attempts in
    // progress until its gate is closed.
    let receivers = crowd.bad * crowd.endpoints;
    let most = match (crowd.manner, crowd.then) {
        (Manner::Hangs, None) => Some(receivers * 4),
        (_, Some(Manner::Hangs)) => Some(crowd.events * crowd.endpoints + receivers * 30),
        _ => None,
    };
    if matches!(crowd.audience, Audience::Endpoints) && most.is_some_and(|most| figures.attempts > most) {
        return Some("a receiver that hangs gets few attempts");
    }
    (figures.untried > 0).then_some("no first attempt is postponed for a crowd")
}

/// For `mutations.rs`: the first of these crowds that breaks a rule. The crowd in `last` comes first.
pub(crate) fn first(crowds: &[Crowd], last: &str) -> Option<(String, &'static str)> {
    let mut crowds: Vec<_> = crowds.iter().collect();
    crowds.sort_by_key(|crowd| !last.contains(crowd.to_string().trim_end()));
    crowds.into_iter().find_map(|crowd| {
        let violation = std::panic::catch_unwind(|| violation(crowd)).unwrap_or(Some("nothing panics"))?;
        Some((format!("a crowd, {}", crowd.to_string().trim_end()), violation))
    })
}

#[test]
fn hanging_receivers_do_not_delay_others() {
    assert_eq!(violation(&SMALL), None);
}

#[test]
fn slow_receivers_do_not_delay_others() {
    assert_eq!(violation(&SLOWLY), None);
}

#[test]
fn callbacks_to_hanging_origins_do_not_delay_others() {
    assert_eq!(violation(&CALLBACKS), None);
}

#[test]
fn many_hanging_callbacks_of_a_tenant_do_not_delay_others() {
    assert_eq!(violation(&MANY_CALLBACKS), None);
}

#[test]
#[ignore = "takes half a minute of CPU time, in CI"]
fn many_hanging_endpoints_of_a_tenant_do_not_delay_others() {
    assert_eq!(violation(&MANY_ENDPOINTS), None);
}

#[test]
fn a_receiver_that_is_mostly_just_in_time_does_not_delay_others() {
    assert_eq!(violation(&JUST_IN_TIME), None);
}

#[test]
#[ignore = "takes seconds of CPU time; `.ci/run` includes it"]
fn a_crowd_rests_while_the_remaining_slow_receivers_wait() {
    assert_eq!(violation(&CROWDED), None);
}

#[test]
#[ignore = "takes a minute"]
fn large_crowds_do_not_delay_others() {
    for crowd in &LARGE {
        assert_eq!(violation(crowd), None);
    }
}

#[test]
#[ignore = "takes half a minute of CPU time, in CI"]
fn many_hanging_endpoints_do_not_delay_a_slowing_receiver() {
    assert_eq!(violation(&Crowd { bad: 50, endpoints: 10, events: 100, ..SMALL }), None);
}
