//! The work of `deliveries-wake` after a total outage in which 1,000 events a second from 100 tenants have failed for
//! an hour. In a minute, 180,000 long waits end and 180,000 due rows are checked; then all tenants start recoveries.
//!
//! The function is built as it is deployed, and runs against the embedded tables and queues. Each sweeper has two
//! processes, which are invoked at once, as if the sweep of a minute took longer than a minute. The run fails if a
//! delivery is not woken, or is woken twice; if a process needs too much memory; or if the template gives the sweepers
//! too little CPU to keep up. The benchmark writes the measurements to `docs/performance.md`.
//!
//! ```sh
//! cargo bench -p tests --bench outage
//! ROWS=18000 cargo bench -p tests --bench outage      # a tenth of it; writes nothing
//! ```

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark stops at the first problem, and prints; its counts are far below 2^52"
)]

#[path = "shared/artifacts.rs"]
mod artifacts;
#[path = "outage/backlog.rs"]
mod backlog;
#[path = "shared/page.rs"]
mod page;
#[path = "outage/sweep.rs"]
mod sweep;

use std::{fmt::Write, time::Duration};

use backlog::Backlog;
use common::{timestamp::Timestamp, webhooks::log::due_rows::SWEEPERS};
use sweep::{Measured, Sweepers};
use tests::World;

/// The number of long waits that end in one minute.
const ROWS: usize = 180_000;
/// The number of recovered deliveries, less than the 600,000 that a hundred recoveries resend in a minute.
const RECOVERED: usize = 60_000;
/// The maximum memory of a process, in MiB. Reading all of a minute's rows at once would exceed it.
const MOST_MEMORY: f64 = 64.0;
/// The memory, in MiB, that gives a process one full CPU
/// (<https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>).
const MIB_OF_A_CPU: f64 = 1769.0;

#[tokio::main]
async fn main() {
    let rows = std::env::var("ROWS").ok().map_or(ROWS, |rows| rows.parse().expect("a number"));
    let shipped = artifacts::folder().parent().expect("a target folder").join("shipped");
    artifacts::cargo_build(&shipped, ["--release", "--package", "deliveries-wake"]);
    let world = World::with(&[]).await;
    let mut sweepers = Sweepers::start(&world, &shipped.join("release/deliveries-wake")).await;
    let backlog = Backlog::of(&world, 100);
    let minute = backlog.wait(rows).await;

    let woken = sweepers.sweep(minute.after(Duration::from_mins(1))).await;
    let messages = left_in(&world, "deliveries").await;
    println!("woken: {messages} messages of {rows} waits; {woken:?}");
    let checked = sweepers.sweep(minute.after(Duration::from_mins(17))).await;
    let again = left_in(&world, "deliveries").await - messages;
    println!("checked: {again} more messages; {checked:?}");

    let to_recover = RECOVERED.min(rows);
    backlog.fail(to_recover).await;
    let recovered = sweepers.sweep(minute.after(Duration::from_mins(18))).await;
    let resent = left_in(&world, "deliveries").await - messages - again;
    println!("recovered: {resent} messages of {to_recover}; {recovered:?}");

    let measured =
        [("waits woken", rows, woken), ("due rows checked", rows, checked), ("recovered", to_recover, recovered)];
    let (text, load) = report(&measured);
    println!("\n{text}");
    world.stack.stop().await;
    assert_eq!((messages, again, resent), (rows, 0, to_recover), "each is woken once, and only once");
    let memory = measured.iter().map(|(_, _, measured)| measured.memory).fold(0.0, f64::max);
    assert!(memory <= MOST_MEMORY, "a process needs {memory:.0} MiB");
    assert!(load <= 1.0, "a minute takes {load:.2} minutes");
    if rows == ROWS {
        page::put("performance.md", "the outage", &text);
    }
}

/// The table, and the part of a minute that the waits and checks need.
fn report(measured: &[(&str, usize, Measured); 3]) -> (String, f64) {
    let memory = sweep::memory_of_function();
    let share = memory / MIB_OF_A_CPU;
    let mut text = format!(
        "| in a minute | CPU of 1,000 | of one process on a full CPU | of {SWEEPERS} sweepers with {memory} MiB | \
         part of a minute | memory of a process |\n|---|---|---|---|---|---|\n"
    );
    let mut load = 0.0;
    for (index, (what, number, measured)) in measured.iter().enumerate() {
        let each = measured.cpu.as_secs_f64() / *number as f64;
        let takes = measured.slowest.as_secs_f64() / share / 60.0;
        if index < 2 {
            load += takes;
        }
        writeln!(
            text,
            "| {number} {what} | {:.0} ms | {:.0} a second | {:.0} a second | {:.0}% | {:.0} MiB |",
            each * 1e6,
            1.0 / each,
            f64::from(SWEEPERS) * share / each,
            takes * 100.0,
            measured.memory,
        )
        .expect("a write to a string succeeds");
    }
    (text, load)
}

/// The number of messages in a queue, including delayed messages.
async fn left_in(world: &World, queue: &str) -> usize {
    let counts = tests::world::queues::counts(&world.stack.sqs_client(), &world.stack.queues()[queue]).await;
    counts.iter().sum()
}

/// The beginning of a minute, so rows that are due less than a minute later belong to the same minute.
fn on_the_minute(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond().div_euclid(60_000) * 60_000)
}
