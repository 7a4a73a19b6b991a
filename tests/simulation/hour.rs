//! A total outage: for an hour, all receivers refuse connections while events continue; then all return at once.
//! `benches/outage.rs` measures a minute of the outage at full size. This module simulates the hour and the hours after
//! it at a small fraction of the event rate, so each attempt represents hundreds.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use common::telemetry::log::subscriber;
use serde_json::{Value, json};
use tokio::time::sleep_until;
use tracing::level_filters::LevelFilter;

use crate::{
    check::{Violation, ends, log_key},
    page,
    processes::Fleet,
    run::{Known, begin, in_virtual_time, produce, start, time},
    script::{Audience, DeclaredError, Event, Manner, Order, Processes, Receiver, Script, Tenant, Time, WHOLE},
    world::{BEGINNING, World, stamp},
};

const fn minutes(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// When the receivers fail and return.
const GONE: Time = minutes(10);
const BACK: Time = minutes(70);
/// The end of the run. When the receivers return, the longest wait in progress lasts two hours plus up to 20%.
const END: Time = BACK.saturating_add(minutes(150));
/// The periods in the table, in minutes after the receivers return.
const PERIODS: [u64; 9] = [0, 1, 3, 6, 30, 36, 90, 120, 150];
/// Until this many minutes after the receivers return, each gets at most this multiple of its usual request rate.
const BOUNDS: [(u64, f64); 5] = [(6, 3.0), (36, 2.0), (90, 1.0), (145, 2.0), (150, 1.0)];
/// The period over which alarms evaluate metrics.
const PERIOD: Duration = minutes(5);
/// The maximum time by which a long wait is exceeded, because the wait ends when its minute is swept.
const SLACK: Duration = Duration::from_secs(65);
/// An attempt that begins within this time after a sweep may have been caused by the sweep.
const WITH_A_SWEEP: Duration = Duration::from_secs(1);
const MOST_WITH_A_SWEEP: f64 = 0.1;
/// By then, each receiver has had its first attempt, which a drain makes.
const NEW: Duration = minutes(5);
/// The maximum delay of an event for a slow receiver.
const POSTPONED: Duration = Duration::from_secs(5);
/// The time after which the receivers are good again and events are no longer postponed.
const PROBATION: Duration = minutes(15);
const PROMPT: Duration = Duration::from_secs(1);
/// The maximum lag of the sweep. The metric counts from the beginning of a minute.
const LAG: f64 = 120.0;
/// The metrics of other alarms.
const OTHERS: [&str; 4] = ["Overdue", "DeliveryFailed", "LogWriteFailed", "EndpointDisabled"];

/// The number of tenants, each with an endpoint; the time between a tenant's events; and the receivers' behavior during
/// the outage.
struct Hour {
    tenants: usize,
    every: Duration,
    manner: Manner,
}

/// An hour that is small enough for every `cargo test`.
const SMALL: Hour = Hour { tenants: 3, every: Duration::from_secs(45), manner: Manner::Refuses };
/// The hour of the table.
const LARGE: Hour = Hour { tenants: 100, every: minutes(2), manner: Manner::Refuses };
/// An hour in which the receivers hang instead.
const HANGING: Hour = Hour { tenants: 10, every: minutes(1), manner: Manner::Hangs };

/// An event, and the fate of its delivery.
struct Sent {
    at: Time,
    /// When the receiver accepted the delivery.
    taken: Vec<Time>,
    /// When the delivery first appeared in the log: after the receiver accepted it, unless the first attempt failed or
    /// was postponed.
    logged: Time,
    status: String,
    /// The start and end of each attempt, according to the log.
    attempts: Vec<Range<Time>>,
}

/// The observations of a run.
struct Seen {
    sent: Vec<Sent>,
    /// The requests that receivers got.
    requests: Vec<(Time, usize)>,
    metrics: Metrics,
}

/// The metrics that the functions emit, in each period: the sum of the values and the highest value.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<BTreeMap<Period, (f64, f64)>>>);

/// A metric, and the index of a period.
type Period = (String, u128);

impl io::Write for Metrics {
    /// Reads a log line, which is written with a single call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if str::from_utf8(line).is_ok_and(|line| line.contains("\"_aws\":")) {
            self.add(&serde_json::from_slice(line)?);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Metrics {
    fn add(&self, document: &Value) {
        let at = document["_aws"]["Timestamp"].as_u64().expect("a time");
        let period = Duration::from_millis(at).saturating_sub(BEGINNING).as_millis() / PERIOD.as_millis();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, values) in document.as_object().expect("a document") {
            let values = values.as_array().map_or(std::slice::from_ref(values), Vec::as_slice);
            for value in values.iter().filter_map(Value::as_f64) {
                let (sum, highest) = all.entry((name.clone(), period)).or_default();
                (*sum, *highest) = (*sum + value, highest.max(value));
            }
        }
    }

    /// The sum and the highest value of a metric in the period that begins at this time.
    fn of(&self, name: &str, begins: Time) -> (f64, f64) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(name.to_owned(), begins.as_millis() / PERIOD.as_millis())).copied().unwrap_or_default()
    }

    /// The violated rule about alarms in the period that begins at this time, if any.
    fn violation(&self, begins: Time) -> Option<Violation> {
        let sum = |name| self.of(name, begins).0;
        let (failed, delivered, lag) = (sum("Failed"), sum("Delivered"), self.of("SweepLag", begins).1);
        // `AttemptsFailed` also requires a hundred attempts, which at this scale is less than one attempt.
        let invariant = if (failed > delivered) != (GONE..BACK).contains(&begins) {
            "the alarm is on during an outage, and only then"
        } else if !(1.0..LAG).contains(&lag) {
            "the sweep does not fall behind in an outage"
        } else if OTHERS.into_iter().any(|name| sum(name) > 0.0) {
            "no other alarm is on in an outage"
        } else {
            return None;
        };
        let others = OTHERS.map(|name| (name, sum(name)));
        let begins = stamp(begins);
        Some(Violation::new(
            invariant,
            format!("from {begins}: {failed} failed, {delivered} delivered, {lag} s, {others:?}"),
        ))
    }
}

impl Hour {
    fn script(&self) -> Script {
        let receiver = Receiver {
            phases: vec![(GONE, Manner::Prompt), (BACK, self.manner), (Duration::MAX, Manner::Prompt)],
            only_failures: false,
            has_dead_address: false,
        };
        let tenant = Tenant { endpoints: vec![receiver.clone()], callbacks: receiver, bytes: 0 };
        let apart = self.every / u32::try_from(self.tenants).expect("few");
        let number = END.as_millis() / apart.as_millis();
        let events = (0..usize::try_from(number).expect("few")).map(|number| Event {
            at: apart * u32::try_from(number).expect("few"),
            tenant: number % self.tenants,
            number,
            failed: false,
            audience: Audience::Endpoints,
        });
        Script {
            seed: 1,
            schedule: WHOLE,
            disable_after: 432_000,
            hold_for: 604_800,
            overlap: 86_400,
            processes: Processes::Lambda,
            slow_invocations: usize::MAX,
            order: Order::Oldest,
            slots: 200,
            skew: 0,
            sweep_every: 1,
            sweeps_idly: true,
            trouble: END,
            age: Duration::ZERO,
            units: 0,
            tenants: vec![tenant; self.tenants],
            events: events.collect(),
            actions: Vec::new(),
            // Two concurrent sweeps, as if each one took longer than a minute.
            faults: (0..END.as_secs() / 60).map(DeclaredError::TwoSweeps).collect(),
        }
    }

    /// The usual number of events that a tenant sends in a period of this length.
    fn usual(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.every.as_secs_f64()
    }

    fn run(&self) -> Seen {
        let metrics = Metrics::default();
        let writer = metrics.clone();
        let log = subscriber(LevelFilter::INFO, move || writer.clone());
        // With a single subscriber in the process, `tracing` lets the first thread that reaches a line decide whether
        // the line is logged. The threads of other tests have no subscriber and would disable the line for all threads,
        // so this test registers two subscribers.
        let _other = tracing::Dispatch::new(subscriber(LevelFilter::OFF, io::sink));
        let _guard = tracing::subscriber::set_default(log);
        let script = self.script();
        in_virtual_time(script.seed, async {
            let world = World::new(script);
            let known = begin(&world).await;
            let fleet = Fleet::new(&world);
            let mut tasks = start(&world, &fleet);
            tasks.spawn(produce(Arc::clone(&world), known.ids()));
            sleep_until(world.instant(END)).await;
            tasks.abort_all();
            let sent = sent(&world, &known).await;
            let requests = world.state().posts.iter().map(|post| (post.at, post.to.0)).collect();
            Seen { sent, requests, metrics }
        })
    }
}

/// The final states of all events.
async fn sent(world: &World, known: &Known) -> Vec<Sent> {
    let mut taken = BTreeMap::<_, Vec<_>>::new();
    for post in world.state().posts.iter().filter(|post| post.taken) {
        let body: Value = serde_json::from_str(&post.body).expect("JSON");
        taken.entry(body["job_id"].as_str().expect("a job").to_owned()).or_default().push(post.at);
    }
    let mut logged = BTreeMap::new();
    for tenant in &known.tenants {
        for delivery in tenant.client.deliveries(&json!({"limit": 100})).await {
            let mut attempts = vec![delivery["last_attempt"].clone()];
            if delivery["attempts"] != 1 {
                let id = json!({"delivery_id": delivery["delivery_id"]});
                let (_, details) = tenant.client.observer().call("deliveries-get", &id, None).await;
                attempts.clone_from(details["attempts"].as_array().expect("attempts"));
            }
            let attempts = attempts.iter().filter(|attempt| attempt.is_object());
            let attempts: Vec<_> = attempts.map(|attempt| time(&attempt["at"])..ends(attempt)).collect();
            let status = delivery["status"].as_str().expect("a status").to_owned();
            let key = log_key(&tenant.id, delivery["delivery_id"].as_str().expect("an id"));
            let at = world.state().logged.get(&key).copied().unwrap_or(Time::MAX);
            logged.insert(delivery["job_id"].as_str().expect("a job").to_owned(), (status, at, attempts));
        }
    }
    let events = world.script.events.iter().map(|event| {
        let none = || ("missing".to_owned(), Time::MAX, Vec::new());
        let (status, logged, attempts) = logged.remove(&event.job()).unwrap_or_else(none);
        let taken = taken.remove(&event.job()).unwrap_or_default();
        Sent { at: event.at, taken, logged, status, attempts }
    });
    events.collect()
}

impl Sent {
    /// Whether the event arrived during the outage.
    fn is_old(&self) -> bool {
        (GONE..BACK).contains(&self.at)
    }

    /// Whether the event existed at this time and was accepted later.
    fn is_pending(&self, then: Time) -> bool {
        self.at <= then && self.taken.first().is_none_or(|taken| *taken > then)
    }

    /// The time by which the event has to be accepted, according to the schedule after each failed attempt.
    fn due(&self) -> Time {
        let Some(failed) = self.attempts.len().checked_sub(2) else { return self.at + POSTPONED };
        self.attempts[failed].end + Duration::from_secs(WHOLE[failed]).mul_f64(1.2) + SLACK
    }

    /// The rule that the event violates, if any.
    fn violation(&self) -> Option<Violation> {
        let Self { at, taken, logged, status, attempts } = self;
        let last = taken.last().copied().unwrap_or(Time::MAX);
        let is_good = *at >= NEW && *at + PROMPT < GONE || *at >= BACK + PROBATION;
        let invariant = if *at + POSTPONED >= END {
            // The event may still be in progress.
            return None;
        } else if status != "delivered" || taken.is_empty() {
            "everything is delivered after an outage"
        } else if taken.len() > 1 {
            "nothing is delivered twice after an outage"
        } else if attempts.iter().rev().skip(1).any(|attempt| attempt.start >= BACK) {
            "the first attempt after an outage succeeds"
        } else if last > self.due() {
            "waiting deliveries arrive when due, alongside new ones"
        } else if is_good && (last > *at + PROMPT || *logged < last) {
            "nothing new is postponed once the receivers are good"
        } else {
            return None;
        };
        let at = stamp(*at);
        Some(Violation::new(invariant, format!("{status}, of {at}, attempts {attempts:?}, taken at {taken:?}")))
    }
}

impl Seen {
    /// The number of requests to all receivers, or to one of them.
    fn requests(&self, within: &Range<Time>, of: Option<usize>) -> usize {
        let is_meant = |(at, to): &&(Time, usize)| within.contains(at) && of.is_none_or(|of| of == *to);
        self.requests.iter().filter(is_meant).count()
    }

    /// The rules that the run violates.
    fn violations(&self, hour: &Hour) -> Vec<Violation> {
        let mut violations: Vec<_> = self.sent.iter().filter_map(Sent::violation).collect();
        let mut from = 0;
        for (until, times) in BOUNDS {
            for begins in (from..until).step_by(5) {
                let within = BACK + minutes(begins)..BACK + minutes(until.min(begins + 5));
                let usual = hour.usual(within.end - within.start) * times;
                let each = (0..hour.tenants).map(|tenant| (Some(tenant), usual));
                for (of, usual) in each.chain([(None, usual * hour.tenants as f64)]) {
                    // The rate plus three standard deviations of random arrivals.
                    let (most, got) = (usual + 3.0 * usual.sqrt(), self.requests(&within, of));
                    if got as f64 > most {
                        let detail = format!("{got} and not {most:.0} to {of:?} from minute {begins} on");
                        violations
                            .push(Violation::new("receivers get the backlog at the rate at which it built up", detail));
                    }
                }
            }
            from = until;
        }
        // Sweeps end the third and later waits of the schedule.
        let waited_long: Vec<_> = self.sent.iter().filter(|sent| sent.attempts.len() > 3).collect();
        let is_with_a_sweep = |sent: &&&Sent| sent.taken.iter().any(|at| at.as_secs() % 60 < WITH_A_SWEEP.as_secs());
        let (number, all) = (waited_long.iter().filter(is_with_a_sweep).count(), waited_long.len());
        if number as f64 > all as f64 * MOST_WITH_A_SWEEP {
            let detail = format!("{number} of {all}");
            violations.push(Violation::new("long waits do not end all at once", detail));
        }
        let periods = u32::try_from(END.as_secs() / PERIOD.as_secs()).expect("few");
        violations.extend((0..periods).filter_map(|period| self.metrics.violation(PERIOD * period)));
        violations
    }

    /// The table in docs/performance.md.
    fn table(&self, hour: &Hour) -> String {
        let mut text = "| minutes after the return | requests, times the usual rate | in the busiest minute | \
                        new events, the slowest | outage events still pending at the end | the oldest of them |\n\
                        |---|---|---|---|---|---|\n"
            .to_owned();
        let old = self.sent.iter().filter(|sent| sent.is_old()).count();
        let everybody = hour.tenants as f64;
        let periods = PERIODS.windows(2).map(|period| (period[0], period[1]));
        for (from, to) in periods {
            let within = BACK + minutes(from)..BACK + minutes(to);
            let rate = |within: Range<Time>| {
                self.requests(&within, None) as f64 / hour.usual(within.end - within.start) / everybody
            };
            let highest = (from..to).map(|minute| rate(BACK + minutes(minute)..BACK + minutes(minute + 1)));
            let new = self.sent.iter().filter(|sent| within.contains(&sent.at) && sent.at + POSTPONED < END);
            let slowest = new.filter_map(|sent| Some(*sent.taken.first()? - sent.at)).max().unwrap_or_default();
            let pending: Vec<_> =
                self.sent.iter().filter(|sent| sent.is_old() && sent.is_pending(within.end)).collect();
            let oldest = pending.iter().map(|sent| within.end - sent.at).max();
            let oldest = oldest.map_or_else(
                || "-".to_owned(),
                |age| format!("{} h {} min", age.as_secs() / 3600, age.as_secs() / 60 % 60),
            );
            writeln!(
                text,
                "| {from} to {to} | {:.1} | {:.1} | {:.1} s | {:.0}% | {oldest} |",
                rate(within.clone()),
                highest.fold(0.0, f64::max),
                slowest.as_secs_f64(),
                pending.len() as f64 / old as f64 * 100.0,
            )
            .expect("a write to a string succeeds");
        }
        text
    }
}

/// For `mutations.rs`: the first rule that the hour violates.
pub(crate) fn first() -> Option<(String, &'static str)> {
    let violations = std::panic::catch_unwind(|| SMALL.run().violations(&SMALL));
    let first = violations.map(|violations| violations.first().map(|violation| violation.invariant));
    Some(("an hour without receivers".to_owned(), first.unwrap_or(Some("nothing panics"))?))
}

fn hold(hour: &Hour) -> String {
    let seen = hour.run();
    let table = seen.table(hour);
    println!("{} events, {} requests\n\n{table}", seen.sent.len(), seen.requests.len());
    let violations = seen.violations(hour);
    for Violation { invariant, detail } in violations.iter().take(20) {
        println!("violated: {invariant}: {detail}");
    }
    assert_eq!(violations.len(), 0, "violations");
    table
}

#[test]
#[ignore = "takes half a minute of CPU time, in CI"]
fn receivers_get_a_bounded_rate_after_an_hour_of_outage() {
    hold(&SMALL);
}

#[test]
#[ignore = "takes minutes; writes the table of docs/performance.md"]
fn an_hour_of_a_hundred_tenants() {
    page::put("performance.md", "the hours after it", &hold(&LARGE));
}

/// Deliveries to a hanging receiver do not keep the schedule, but all arrive eventually, and not all at once.
#[test]
#[ignore = "takes a minute; prints the same table"]
fn an_hour_of_hanging_receivers() {
    let seen = HANGING.run();
    println!("{}", seen.table(&HANGING));
    assert!(
        seen.sent.iter().all(|sent| sent.at + POSTPONED >= END || sent.status == "delivered"),
        "everything is delivered"
    );
}
