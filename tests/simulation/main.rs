//! The delivery protocol under virtual time: the real functions in a simulated world with every kind of fault. A seed
//! determines everything, so every run can be repeated byte for byte.
//!
//! `docs/reliability.md` explains which promises are checked and how seeds are run. Other runs:
//!
//! ```sh
//! SEEDS=300 cargo test -p tests --test simulation digests -- --ignored --nocapture    # a digest of each history
//! cargo test --test simulation -- --ignored remaining many_hanging_endpoints bounded_rate    # the runs that only CI makes
//! cargo test -p tests --test simulation worlds_with_long_waits -- --ignored           # aimed faults, all calls of all worlds
//! CROWD=Hangs cargo test --profile bench -p tests --test simulation figures_of_a_crowd -- --ignored --nocapture
//! cargo test -p tests --test simulation an_hour_of -- --ignored --nocapture           # an hour without receivers, at full length
//! ```
//!
//! Record the digests before you refactor: they must be the same afterward.

#![expect(clippy::indexing_slicing, reason = "in tests, a missing element fails the test")]
#![expect(clippy::print_stdout, reason = "a simulation reports its history")]
#![expect(clippy::panic, reason = "in tests, a panic is how a test fails")]

mod aimed;
mod aws;
mod check;
mod crowd;
mod hour;
mod mutations;
mod outage;
#[path = "../benches/shared/page.rs"]
mod page;
mod processes;
mod pull;
mod queue;
mod receivers;
mod run;
mod script;
mod world;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use run::{Run, run};
use script::Script;
use sha2::{Digest, Sha256};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of seeds that run for each change.
const SEEDS: u64 = 200;

/// `cargo test` runs one in this many of the seeds and of the aimed faults; `.ci/run` also runs the others.
const SHARE: u64 = 7;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The totals of all runs, and the first seed that failed.
#[derive(Default)]
struct Sum {
    runs: u64,
    span: Duration,
    posts: usize,
    crashes: usize,
    faults: usize,
    calls: usize,
    failed: Option<u64>,
}

/// Runs these seeds, on all cores, until one fails.
fn run_all(seeds: std::ops::Range<u64>) -> Sum {
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(Sum::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_enough =
                seed >= seeds.end || sum.lock().expect("no panic").failed.is_some_and(|failed| failed < seed);
            if is_enough {
                return;
            }
            let run = std::panic::catch_unwind(|| run(&Script::of(seed)));
            let mut sum = sum.lock().expect("no panic");
            match run {
                Ok(run) => {
                    sum.runs += 1;
                    sum.span += run.span;
                    sum.posts += run.posts;
                    sum.crashes += run.crashes;
                    sum.faults += run.faults;
                    sum.calls += run.calls;
                    if run.violations.is_empty() {
                        continue;
                    }
                }
                Err(_panic) => {}
            }
            sum.failed = Some(sum.failed.map_or(seed, |failed| failed.min(seed)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    sum.into_inner().expect("no panic")
}

/// Reduces a failing script, as long as it still violates the invariant.
fn shrink(script: Script, invariant: &str) -> Script {
    let (mut script, end) = (script, Instant::now() + Duration::from_mins(1));
    loop {
        let smaller = script.smaller().into_iter().find(|smaller| {
            let fails = |run: &Run| run.violations.iter().any(|violation| violation.invariant == invariant);
            Instant::now() < end && fails(&run(smaller))
        });
        match smaller {
            Some(smaller) => script = smaller,
            None => return script,
        }
    }
}

/// Prints a failed run in detail, and panics.
fn explain(seed: u64) -> ! {
    let script = Script::of(seed);
    let failed = run(&script);
    let Some(first) = failed.violations.first() else { panic!("seed {seed} fails, but not in a second run") };
    println!("seed {seed}");
    println!("violated: {}", first.invariant);
    let (size, small) = (script.size(), shrink(script, first.invariant));
    let smallest = run(&small);
    println!("\nWith {} of its {size} events, actions and faults, this happens:\n\n{small}", small.size());
    smallest.history.iter().for_each(|line| println!("{line}"));
    for violation in &smallest.violations {
        println!("\nviolated: {}: {}", violation.invariant, violation.detail);
    }
    println!("\nSEED={seed} cargo test -p tests --test simulation -- --ignored one_run --nocapture");
    panic!("seed {seed} violates: {}", first.invariant);
}

fn report(sum: &Sum, took: Duration) {
    let years = sum.span.as_secs_f64() / (365.25 * 24.0 * 3600.0);
    println!(
        "{} runs in {:.1} s: {years:.3} years, {} attempts, {} calls, {} faults, {} of them crashes",
        sum.runs,
        took.as_secs_f64(),
        sum.posts,
        sum.calls,
        sum.faults,
        sum.crashes
    );
}

fn simulate(seeds: std::ops::Range<u64>) {
    let began = Instant::now();
    let sum = run_all(seeds);
    report(&sum, began.elapsed());
    if let Some(seed) = sum.failed {
        explain(seed);
    }
}

/// Seeds that once revealed mistakes in the code. 84: two copies of an event in one batch. 307: a copy of an event that
/// arrives minutes later and is handled as a new event. 949: an endpoint that is disabled, enabled, and fails again.
/// 2813: a process that dies before it sends the message of a drain, whose delivery is then held.
const FOUND: [u64; 4] = [84, 307, 949, 2813];

#[test]
fn a_simulation_of_some_seeds() {
    simulate(0..SEEDS / SHARE);
    FOUND.into_iter().for_each(|seed| simulate(seed..seed + 1));
}

#[test]
#[ignore = "takes a minute of CPU time, in CI"]
fn a_simulation_of_the_remaining_seeds() {
    simulate(SEEDS / SHARE..SEEDS);
}

#[test]
#[ignore = "takes time in proportion to SEEDS"]
fn a_long_simulation() {
    let first = number("FIRST").unwrap_or(0);
    simulate(first..first + number("SEEDS").unwrap_or(10_000));
}

/// A search for the first world of a kind that violates a promise.
type Search<'a> = &'a dyn Fn() -> Option<(String, &'static str)>;

/// The first of these seeds that fails, and the promise that it breaks.
fn first_of(seeds: std::ops::Range<u64>) -> Option<(String, &'static str)> {
    let seed = run_all(seeds).failed?;
    let run = std::panic::catch_unwind(|| run(&Script::of(seed)));
    let violated = run.map(|run| run.violations.first().map_or("a seed decides everything", |it| it.invariant));
    Some((format!("seed {seed}"), violated.unwrap_or("nothing panics")))
}

/// For `mutations.rs`: prints the first world of any kind that violates a promise. The kind of `LAST`, which is the
/// world that found the mutation in an earlier run, is searched first.
#[test]
#[ignore = "for mutations.rs"]
fn mutated() {
    let last = std::env::var("LAST").unwrap_or_default();
    let seed = last.strip_prefix("seed ").and_then(|rest| rest.split(':').next()?.parse().ok());
    let again = seed.and_then(|seed| first_of(seed..seed + 1));
    let is_aimed = last.contains(", as it is: ") || last.starts_with("copies") || last.starts_with("a late copy");
    let is_of_a_call = last.matches(": ").count() > 1;
    let mut kinds: [(bool, Search<'_>); 7] = [
        (is_aimed, &|| aimed::first(true)),
        (last.starts_with("a crowd"), &|| crowd::first(&crowd::SMALL_ONES, &last)),
        (last.starts_with("seed"), &|| first_of(0..number("SEEDS").unwrap_or(320))),
        (last.starts_with("pull"), &pull::first),
        (last.starts_with("an hour"), &hour::first),
        (last.starts_with("a crowd"), &|| crowd::first(&crowd::LARGE, &last)),
        (is_of_a_call, &|| aimed::first(false)),
    ];
    kinds.sort_by_key(|(is_the_last, _)| !is_the_last);
    if let Some((world, violated)) = again.or_else(|| kinds.iter().find_map(|(_, search)| search())) {
        println!("found: {world}: {violated}");
    }
}

#[test]
#[ignore = "shows the run of the seed SEED"]
fn one_run() {
    let seed = number("SEED").expect("SEED");
    let run = run(&Script::of(seed));
    println!("{}", Script::of(seed));
    run.history.iter().for_each(|line| println!("{line}"));
    if !run.violations.is_empty() {
        explain(seed);
    }
}

/// A refactoring leaves these digests unchanged.
#[test]
#[ignore = "prints a digest of the history of each run, of SEEDS runs from FIRST on"]
fn digests() {
    let first = number("FIRST").unwrap_or(0);
    for seed in first..first + number("SEEDS").unwrap_or(320) {
        let digest = Sha256::digest(run(&Script::of(seed)).history.join("\n"));
        println!("{seed} {}", hex::encode(digest));
    }
}

/// Each promise in docs/reliability.md has a check.
#[test]
fn each_promise_of_the_page_has_its_check_by_its_name() {
    let numbered = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit()) && line.contains(". **");
    let promises = include_str!("../../docs/reliability.md").lines().filter(numbered);
    let promises = promises.filter_map(|line| line.split("**").nth(1)?.strip_suffix('.'));
    let promises: Vec<_> = promises.map(|promise| promise.to_lowercase().replace(' ', "_")).collect();
    let checks = include_str!("check.rs").lines().filter_map(|line| line.trim().strip_prefix("check."));
    let checks: Vec<_> = checks.filter_map(|line| line.split_once("()")).map(|(name, _)| name).collect();
    assert_eq!((promises.len(), promises), (12, checks.iter().map(ToString::to_string).collect()));
}

#[test]
fn two_simulations_of_a_seed_are_identical_to_the_byte() {
    are_identical(0..2);
}

#[test]
#[ignore = "takes some seconds of CPU time, in CI"]
fn two_simulations_of_the_remaining_seeds_are_identical() {
    are_identical(2..8);
}

fn are_identical(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let here = run(&Script::of(seed)).history;
        // On a different thread, hash maps have a different order.
        let there = thread::spawn(move || run(&Script::of(seed)).history).join().expect("no panic");
        for (number, (here, there)) in here.iter().zip(&there).enumerate() {
            assert_eq!(here, there, "seed {seed}, line {number}");
        }
        assert_eq!(here.len(), there.len(), "seed {seed}");
    }
}
