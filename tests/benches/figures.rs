//! The service's performance figures, each as a ratio to a baseline that is built and run in the same invocation.
//!
//! `cargo bench -p tests` measures all figures, prints a table, and writes `target/bench.json` and the generated parts
//! of `docs/performance.md`: the table, the plot and the costs. With `--quick`, as in CI, it does a tenth of the runs,
//! writes only the JSON, and fails if a figure is more than twice as bad as its bound.
//!
//! With `--delivery`, the benchmark measures only deliveries, prints the table, and writes the costs and the plot. This
//! skips building the other functions, which takes most of the time. With `--costs`, it only computes the costs and the
//! requirements for some event rates (`docs/performance.md`). With the names of parts, such as `warm thousand`, it
//! measures and prints only those parts.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark stops at the first problem, and prints"
)]

#[path = "figures/account.rs"]
mod account;
#[path = "shared/artifacts.rs"]
mod artifacts;
#[path = "figures/build.rs"]
mod build;
#[path = "figures/cost.rs"]
mod cost;
#[path = "figures/delivery.rs"]
mod delivery;
#[path = "shared/job_event.rs"]
mod job_event;
#[path = "shared/page.rs"]
mod page;
#[path = "figures/plot.rs"]
mod plot;
#[path = "figures/scaling.rs"]
mod scaling;
#[path = "shared/service.rs"]
mod service;
#[path = "figures/table.rs"]
mod table;
#[path = "figures/tls.rs"]
mod tls;
#[path = "figures/volume.rs"]
mod volume;
#[path = "figures/whole.rs"]
mod whole;

/// The allocator of `cargo local`, because some figures measure its tables in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use build::Binaries;
use table::Table;
use tests::World;

/// The number of runs.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    quick: bool,
}

impl Effort {
    /// `runs`, or a tenth of that in a quick run, but at least five, because a median of two is noise.
    fn runs(self, runs: usize) -> usize {
        if self.quick { (runs / 10).max(5) } else { runs }
    }
}

#[tokio::main]
async fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let effort = Effort { quick: has("--quick") };
    let mut table = Table::default();
    let world = World::with(&[("ARGON2_MEMORY_KIB", "19456"), ("ARGON2_ITERATIONS", "2")]).await;
    let is_of_all = !has("--delivery") && !has("--costs");
    let parts: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if !parts.is_empty() {
        some(&parts, &world, effort, &mut table).await;
        world.stack.stop().await;
        return;
    }
    let binaries = Binaries::build(effort, is_of_all);
    if has("--costs") {
        cost::table(&world, &binaries, &mut table).await;
        table.print();
        world.stack.stop().await;
        return;
    }
    if is_of_all {
        build::sizes(&binaries, &mut table);
        account::cold_starts(&world, &binaries, effort, &mut table).await;
        account::warm_calls(&world, &binaries, effort, &mut table).await;
        account::console(&world, &binaries, effort, &mut table).await;
        account::pull(&world, &binaries, effort, &mut table).await;
        account::sign_ups(&world, &binaries, effort, &mut table).await;
    }
    delivery::thousand(&world, &binaries, effort, &mut table).await;
    delivery::fan_out(&world, &binaries, effort, &mut table).await;
    delivery::burst(&world, &binaries, effort, &mut table).await;
    let curve = delivery::in_flight(&world, &binaries, effort, &mut table).await;
    delivery::hanging(&world, &binaries, effort, &mut table).await;
    delivery::large(&world, &binaries, &mut table).await;
    whole::process(effort, &mut table).await;
    volume::night(effort).await;
    if !effort.quick {
        cost::table(&world, &binaries, &mut table).await;
        plot::draw(&curve);
    }
    table.print();
    if is_of_all {
        if !effort.quick {
            page::put("performance.md", "figures", &table.markdown());
        }
        table.save();
    }
    world.stack.stop().await;
    if effort.quick && table.is_far_off() {
        std::process::exit(1);
    }
}

/// Measures the parts with these names, with the functions that they need.
async fn some(parts: &[String], world: &World, effort: Effort, table: &mut Table) {
    for part in parts {
        let functions: &[&str] = match part.as_str() {
            "warm" => &["webhooks-list"],
            "console" => &["webhooks-list", "console-webhooks"],
            "pull" => &["webhooks-list", "deliveries-receive", "deliveries-settle"],
            "whole" | "volume" => &[],
            _ => &[build::DELIVER],
        };
        let binaries = Binaries::of(functions, effort);
        match part.as_str() {
            "warm" => account::warm_calls(world, &binaries, effort, table).await,
            "console" => account::console(world, &binaries, effort, table).await,
            "pull" => account::pull(world, &binaries, effort, table).await,
            "thousand" => delivery::thousand(world, &binaries, effort, table).await,
            "fan-out" => delivery::fan_out(world, &binaries, effort, table).await,
            "large" => delivery::large(world, &binaries, table).await,
            "burst" => delivery::burst(world, &binaries, effort, table).await,
            "in-flight" => drop(delivery::in_flight(world, &binaries, effort, table).await),
            "whole" => whole::process(effort, table).await,
            "volume" => volume::night(effort).await,
            other => unreachable!("there is no part {other}"),
        }
    }
    table.print();
}
