//! Aimed faults: in a few small worlds, each AWS call fails in turn. Some mistakes appear only if one particular call
//! fails or one particular message arrives twice, which random faults rarely cause.

use std::{
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use common::webhooks::delivery::MAX_AGE;

use crate::{
    SHARE,
    check::Violation,
    run::{Run, run},
    script::{
        Action, Audience, Call, DeclaredError, Event, Manner, Order, Processes, Receiver, Script, Tenant, Time, WHOLE,
        Which,
    },
};

/// The duration of an outage, in milliseconds: longer than a client retries.
const DOWN: u64 = 8000;

/// A named script. The aimed faults are added to its own faults.
pub(crate) struct Aimed {
    pub(crate) name: String,
    pub(crate) script: Script,
}

/// A way in which a call fails.
#[derive(Clone, Copy)]
enum Shot {
    /// The call has no effect, and neither do its retries.
    Before,
    /// The call takes effect, but its response is lost.
    Lost,
    /// The call takes effect, and its process dies.
    Death,
    /// The call takes effect partially.
    Part,
}

impl fmt::Display for Shot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "fails",
            Self::Lost => "loses its answer",
            Self::Death => "kills its process",
            Self::Part => "takes effect partially",
        })
    }
}

impl Shot {
    fn at(self, which: Which) -> DeclaredError {
        match self {
            Self::Before => DeclaredError::OutageFrom(which, DOWN),
            Self::Lost => DeclaredError::Lost(which),
            Self::Death => DeclaredError::Dies(which),
            Self::Part => DeclaredError::Partial(which),
        }
    }
}

/// The ways in which a call to this operation can fail. For a read, losing the response is equivalent to losing the
/// call.
fn shots(operation: &str) -> &'static [Shot] {
    match operation {
        "GetItem" | "Query" => &[Shot::Before],
        "BatchGetItem" => &[Shot::Before, Shot::Part],
        "BatchWriteItem" | "BatchExecuteStatement" | "SendMessageBatch" => {
            &[Shot::Before, Shot::Lost, Shot::Death, Shot::Part]
        }
        _ => &[Shot::Before, Shot::Lost, Shot::Death],
    }
}

const fn seconds(seconds: u64) -> Time {
    Duration::from_secs(seconds)
}

fn receiver(phases: &[(u64, Manner)], last: Manner) -> Receiver {
    let phases = phases.iter().map(|(until, manner)| (seconds(*until), *manner));
    Receiver { phases: phases.chain([(Duration::MAX, last)]).collect(), only_failures: false, has_dead_address: false }
}

const BROKEN: Manner = Manner::Answers(500, 5, None);
const SLOW: Manner = Manner::Answers(200, 900, None);
const LATE_AND_BROKEN: Manner = Manner::Answers(500, 900, None);

/// A tenant with these endpoints and small events.
fn tenant(endpoints: Vec<Receiver>) -> Tenant {
    Tenant { endpoints, callbacks: receiver(&[], Manner::Prompt), bytes: 0 }
}

/// A world without faults, with events for a tenant's endpoints at these times, in seconds.
fn world(schedule: &'static [u64], endpoints: Vec<Receiver>, events: &[u64], calls: &[(u64, Call)]) -> Script {
    let events = events.iter().enumerate().map(|(number, at)| Event {
        at: seconds(*at),
        tenant: 0,
        number,
        failed: true,
        audience: Audience::Endpoints,
    });
    let action = |(at, call): &(u64, Call)| Action { at: seconds(*at), tenant: 0, endpoint: 0, call: *call };
    Script {
        seed: 1,
        schedule,
        disable_after: 0,
        hold_for: 604_800,
        overlap: 86_400,
        processes: Processes::Few(1, 4),
        slow_invocations: usize::MAX,
        order: Order::Oldest,
        slots: 100,
        skew: 0,
        sweep_every: 1,
        sweeps_idly: false,
        trouble: seconds(60),
        age: Duration::ZERO,
        units: 0,
        tenants: vec![tenant(endpoints)],
        events: events.collect(),
        actions: calls.iter().map(action).collect(),
        faults: Vec::new(),
    }
}

/// The worlds in which each call fails in turn.
fn small() -> Vec<Aimed> {
    let good = || receiver(&[], Manner::Prompt);
    let worlds = [
        // An endpoint that fails on every attempt becomes failing, and its tenant is notified.
        ("fails", world(&[1, 2], vec![receiver(&[], BROKEN)], &[0], &[])),
        // A rotation between the attempts.
        ("rotated", world(&[10], vec![receiver(&[], BROKEN)], &[0], &[(5, Call::Rotate)])),
        // A slow endpoint and a good one: one attempt is cut off and postponed, and two others are postponed at once,
        // made together and stored together.
        ("slow", world(&[1], vec![receiver(&[], SLOW), good()], &[0, 3, 3], &[])),
        // The first attempt is quick enough, but a later one is cut off.
        ("slower", world(&[5], vec![receiver(&[(2, BROKEN)], SLOW)], &[0], &[])),
        // A failed delivery is resent while nothing else is pending.
        ("resent", world(&[2], vec![receiver(&[], BROKEN)], &[0], &[(60, Call::Resend(0))])),
        // The only attempt fails and disables its endpoint.
        ("gone at once", world(&[1], vec![receiver(&[], Manner::Answers(410, 5, None))], &[0], &[])),
        // The endpoint is disabled while a delivery is waiting.
        ("off", world(&[20], vec![receiver(&[], BROKEN)], &[0], &[(5, Call::Deactivate)])),
    ];
    let mut worlds: Vec<_> = worlds.into_iter().map(|(name, script)| Aimed { name: name.to_owned(), script }).collect();
    // The payload is divided into two items, which one delivery has, or two share.
    for (name, endpoints) in [("large", 1), ("large and shared", 2)] {
        let fails_once = || receiver(&[(1, BROKEN)], Manner::Prompt);
        let mut script = world(&[2, 2], (0..endpoints).map(|_| fails_once()).collect(), &[0], &[]);
        script.tenants[0].bytes = 700_000;
        worlds.push(Aimed { name: name.to_owned(), script });
    }
    worlds
}

/// Worlds with long waits, and one with many calls by the tenant. They make too many AWS calls for `cargo test`.
fn large() -> Vec<Aimed> {
    let worlds = [
        // The receiver responds with 410. Then the endpoint is enabled, recovered and tested.
        (
            "gone",
            world(
                &[2],
                vec![receiver(&[(10, Manner::Answers(410, 5, None))], Manner::Prompt)],
                &[0],
                &[(20, Call::Activate), (40, Call::Recover), (60, Call::Test)],
            ),
        ),
        ("waits long", world(&[5, 1000], vec![receiver(&[], BROKEN)], &[0], &[])),
        ("slow, and waits long", world(&[1, 1000], vec![receiver(&[], LATE_AND_BROKEN)], &[0], &[])),
        (
            "resent, and waits long",
            world(&[5, 60, 1000], vec![receiver(&[], BROKEN)], &[0], &[(1400, Call::Resend(0))]),
        ),
    ];
    worlds.into_iter().map(|(name, script)| Aimed { name: name.to_owned(), script }).collect()
}

/// Worlds whose tables accept fewer write units than a tenant with large events uses for four seconds, beside a healthy
/// tenant. Each payload belongs to one delivery, or is shared by several.
fn throttled() -> Vec<Aimed> {
    let worlds = [("throttled", 0, Audience::Callback, 250), ("throttled and shared", 4, Audience::Endpoints, 300)];
    let worlds = worlds.map(|(name, endpoints, audience, units)| {
        let fails = || receiver(&[(5, BROKEN)], Manner::Prompt);
        let good = tenant(vec![receiver(&[], Manner::Prompt)]);
        let bad = Tenant { callbacks: fails(), bytes: 40_000, ..tenant((0..endpoints).map(|_| fails()).collect()) };
        let event = |tenant, audience, number: usize| Event {
            at: Duration::from_millis(125) * u32::try_from(number).expect("few"),
            tenant,
            number,
            failed: false,
            audience,
        };
        let events = (0..32).flat_map(|number| [event(0, Audience::Endpoints, number), event(1, audience, number)]);
        let script = Script {
            processes: Processes::Lambda,
            units,
            tenants: vec![good, bad],
            events: events.collect(),
            ..world(&[2, 5], Vec::new(), &[], &[])
        };
        Aimed { name: format!("{name}, as it is"), script }
    });
    worlds.into()
}

/// The worlds without aimed faults, to check that all events arrive.
fn as_they_are() -> Vec<Aimed> {
    // Jitter can move the last attempt of the schedule past the deadline.
    let whole = world(WHOLE, vec![receiver(&[], BROKEN)], &[0], &[]);
    let whole = Aimed { name: "the whole schedule".to_owned(), script: whole };
    // If postponed deliveries were not marked in the log, a sweep would consider the messages for the longest waits
    // lost.
    let many = world(&[1], vec![receiver(&[(1800, Manner::Hangs)], Manner::Prompt)], &[0; 100], &[]);
    let many = Aimed { name: "many deliveries wait for a hanging endpoint".to_owned(), script: many };
    // The receiver answers just in time, but only if no attempt is cut off.
    let long = world(&[5], vec![receiver(&[], Manner::Answers(200, 14_000, None))], &[0, 1], &[]);
    let long = Aimed { name: "just in time".to_owned(), script: long };
    // The receiver fails at once, so the limits for hanging receivers do not apply.
    let refuses = world(&[1, 60], vec![receiver(&[(1200, Manner::Refuses)], Manner::Prompt)], &[0; 100], &[]);
    let refuses = Aimed { name: "many deliveries wait for an endpoint that refuses".to_owned(), script: refuses };
    // The events have waited for almost three days, so most of their deliveries expire before they are attempted.
    let old = world(&[1], vec![receiver(&[], Manner::Hangs)], &[0; 30], &[]);
    let old = Script { age: MAX_AGE - seconds(120), ..old };
    let old = Aimed { name: "old events for an endpoint that hangs".to_owned(), script: old };
    // The test fails, and every other delivery succeeds.
    let test = world(&[5], vec![receiver(&[(10, Manner::Prompt)], BROKEN)], &[0], &[(20, Call::Test)]);
    let test = Aimed { name: "only a test fails".to_owned(), script: test };
    let all = small().into_iter().chain(large()).chain([whole, many, refuses, long, old, test]);
    all.map(|Aimed { name, script }| Aimed { name: format!("{name}, as it is"), script }).collect()
}

/// For two copies of a message, one attempt fails at once and the other succeeds; all later attempts fail. The two
/// attempts are stored in random order.
fn copies() -> Vec<Aimed> {
    let flaps = receiver(&[(1, BROKEN), (4, Manner::Flaps)], BROKEN);
    let one = world(&[1, 5, 20], vec![flaps], &[0], &[]);
    let of = |seed, send| Aimed {
        name: format!("copies, seed {seed}, message {send}"),
        script: Script {
            seed,
            processes: Processes::Few(2, 1),
            order: Order::Any,
            faults: vec![DeclaredError::Overlapping(send)],
            ..one.clone()
        },
    };
    // A copy of an event arrives so late that the log is checked first.
    let late = world(&[1], vec![receiver(&[], Manner::Prompt)], &[0], &[]);
    let late = Script { faults: vec![DeclaredError::Duplicate(0, 100)], ..late };
    let late = Aimed { name: "a late copy".to_owned(), script: late };
    let seeds = (0..24).flat_map(|seed| (1..3).map(move |send| (seed, send)));
    seeds.map(|(seed, send)| of(seed, send)).chain([late]).collect()
}

/// Repeats each of these worlds once for each of its calls, and makes that call fail. Calls to the operation `without`
/// are left alone.
fn failing(worlds: Vec<Aimed>, without: &str) -> Vec<Aimed> {
    let mut all = Vec::new();
    for Aimed { name, script } in worlds {
        for (operation, calls) in run(&script).calls_of.into_iter().filter(|(operation, _)| operation != without) {
            let Some(operation) = OPERATIONS.into_iter().find(|known| *known == operation) else {
                panic!("{operation} is not one of the failing operations");
            };
            for number in 0..calls {
                for shot in shots(operation) {
                    let fault = shot.at(Which::Of(operation, number));
                    let mut script = script.clone();
                    script.faults.push(fault);
                    all.push(Aimed { name: format!("{name}: {operation} {number} {shot}"), script });
                }
            }
        }
    }
    all
}

/// All operations that the functions call.
const OPERATIONS: [&str; 11] = [
    "BatchExecuteStatement",
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "SendRawEmail",
    "SendMessageBatch",
    "TransactWriteItems",
    "UpdateItem",
];

/// The faults that are tested for each change. Queries are omitted, because most are similar queries by the sweep.
/// Returns the share that runs in `cargo test`, and the rest. Both cover all worlds, operations and faults.
fn parts() -> (Vec<Aimed>, Vec<Aimed>) {
    let (mut share, mut rest) = (Vec::new(), Vec::new());
    for (number, aimed) in (0..).zip(failing(small(), "Query")) {
        if number % SHARE == 0 { share.push(aimed) } else { rest.push(aimed) }
    }
    (share, rest)
}

/// All worlds, with all operations.
fn all() -> Vec<Aimed> {
    let worlds = small().into_iter().chain(large()).collect();
    [as_they_are(), throttled(), copies(), failing(worlds, "")].into_iter().flatten().collect()
}

/// Runs these worlds on all cores, and returns the indexes of the failed worlds with their violations, or only the
/// first.
fn failures(all: &[Aimed], one_is_enough: bool) -> Vec<(usize, Vec<Violation>)> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, aimed)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, all.get(at)?)))
        {
            let run = std::panic::catch_unwind(|| run(&aimed.script).violations);
            let violations = run.unwrap_or_else(|_| vec![Violation::new("nothing panics", "it panics")]);
            if !violations.is_empty() {
                failed.lock().expect("no panic").push((number, violations));
                if one_is_enough {
                    next.store(all.len(), Ordering::Relaxed);
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let mut failed = failed.into_inner().expect("no panic");
    failed.sort_by_key(|(number, _)| *number);
    failed
}

/// For `mutations.rs`: the first world that fails, and its violation.
pub(crate) fn first(is_quick: bool) -> Option<(String, &'static str)> {
    // If a long wait of a slow receiver is not woken, only the check of overdue deliveries is left.
    let long = large().into_iter().filter(|aimed| aimed.name == "slow, and waits long");
    let all = if is_quick {
        [as_they_are(), throttled(), copies()].into_iter().flatten().collect()
    } else {
        failing(small().into_iter().chain(long).collect(), "Query")
    };
    let (number, violations) = failures(&all, true).into_iter().next()?;
    Some((all[number].name.clone(), violations.first()?.invariant))
}

fn show(Aimed { name, script }: &Aimed) {
    let Run { history, violations, .. } = run(script);
    println!("{name}\n\n{script}");
    history.iter().for_each(|line| println!("{line}"));
    for violation in &violations {
        println!("\nviolated: {}: {}", violation.invariant, violation.detail);
    }
}

fn hold(all: &[Aimed]) {
    let failed = failures(all, false);
    println!("{} runs", all.len());
    let Some((number, _)) = failed.first() else { return };
    show(&all[*number]);
    let others: Vec<_> = failed.iter().map(|(number, _)| all[*number].name.as_str()).collect();
    panic!("{} of {} fail: {others:#?}", failed.len(), all.len());
}

#[test]
#[ignore = "prints the run of the world that WORLD names"]
fn one_world() {
    let name = std::env::var("WORLD").expect("WORLD");
    all().iter().filter(|aimed| aimed.name == name).for_each(show);
}

/// Runs one of the worlds with throttled tables.
fn hold_throttled(number: usize) {
    let Aimed { name, script } = &throttled()[number];
    let run = run(script);
    assert!(run.violations.is_empty(), "{name}: {:#?}", run.violations);
    assert!(run.faults > 100, "{name}: only {} throttled writes", run.faults);
}

#[test]
fn throttled_tables_delay_only_their_cause() {
    hold_throttled(0);
}

#[test]
fn throttled_shared_payloads_delay_only_their_cause() {
    hold_throttled(1);
}

#[test]
fn each_call_of_small_worlds_fails_before_and_after_its_effect() {
    let (share, _) = parts();
    hold(&[as_they_are(), copies(), share].into_iter().flatten().collect::<Vec<_>>());
}

#[test]
#[ignore = "takes two minutes of CPU time, in CI"]
fn the_remaining_calls_of_small_worlds_fail_too() {
    let (_, rest) = parts();
    hold(&rest);
}

#[test]
#[ignore = "takes some minutes"]
fn each_call_of_worlds_with_long_waits_fails_too() {
    hold(&all());
}
