//! Isolation: the delay that bad tenants cause for others. Each run starts `cargo local`, and sends events of several
//! tenants concurrently:
//!
//! - A: one or many bad tenants with receivers that misbehave in one of several modes.
//! - B: a healthy tenant with a receiver that has accepted events before. B sends a hundred events during A's
//!   burst, and another hundred afterward, while A continues.
//! - S: a tenant with a receiver that always takes 0.8 seconds, even before the burst. S sends twenty events during
//!   A's burst.
//! - N: a healthy tenant that sends its first event in the middle of the burst.
//! - H: a healthy endpoint of the first bad tenant, which gets the same events as the bad endpoints.
//!
//! The benchmark measures the time from sending to arrival, the cost of the run, and the number of the first bad
//! tenant's deliveries that are missing from the log after all events have been received from their queue. Two controls
//! determine the bounds: B alone, and A with healthy receivers. The benchmark prints a table, and exits with 1 if a
//! bound is exceeded.
//!
//! ```sh
//! cargo bench -p tests --bench isolation                # each mode, and some in other shapes: about 20 minutes
//! cargo bench -p tests --bench isolation -- --all       # each mode in each shape, with each history: hours
//! cargo bench -p tests --bench isolation -- "hang 1x"   # the runs with these words in their names
//! LOCAL=/path/to/local cargo bench ...                  # with another version's local runner
//! ```
//!
//! A run is named after its mode, the number of bad tenants, the number of bad endpoints per tenant, and their
//! receivers' history before the burst: none (cold), the same behavior (warm), or healthy (turns).

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark stops at the first problem, and prints"
)]

#[path = "shared/artifacts.rs"]
mod artifacts;
#[path = "isolation/fat.rs"]
mod fat;
#[path = "isolation/half_core.rs"]
mod half_core;
#[path = "isolation/rates.rs"]
mod rates;
#[path = "isolation/receivers.rs"]
mod receivers;
#[path = "isolation/report.rs"]
mod report;
#[path = "isolation/requests.rs"]
mod requests;
#[path = "isolation/run.rs"]
mod run;
#[path = "isolation/scenario.rs"]
mod scenario;
#[path = "shared/service.rs"]
mod service;

use std::{
    env,
    path::{Path, PathBuf},
};

use report::{HEAD, Outcome};
use scenario::Scenario;

#[tokio::main]
async fn main() {
    if let Ok(tables) = env::var(fat::TABLES) {
        return fat::serve(tables).await;
    }
    let (flags, names): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let wanted = |name: &str| names.iter().all(|part| name.contains(part.as_str()));
    let all = flags.iter().any(|flag| flag == "--all");
    let scenarios = if all { Scenario::all() } else { Scenario::usual() };
    let local = env::var_os("LOCAL").map_or_else(service::build, PathBuf::from);
    let mut is_well = true;
    let mut controls = Vec::new();
    println!("{HEAD}");
    for scenario in scenarios.into_iter().filter(|scenario| wanted(&scenario.to_string())) {
        let absent = control(&local, &mut controls, Scenario::ABSENT).await;
        let good = control(&local, &mut controls, scenario.good()).await;
        let outcome = run::run(&local, scenario).await;
        let broken = outcome.broken(scenario, &controls[absent].1, &controls[good].1);
        is_well &= broken.is_empty();
        let verdict = if broken.is_empty() { "ok".to_owned() } else { format!("**broken: {}**", broken.join(", ")) };
        println!("{}", outcome.row(scenario, &verdict));
    }
    if wanted("requests") {
        is_well &= requests::requests(&local).await;
    }
    for fat in fat::ALL.into_iter().filter(|fat| wanted(&fat.to_string())) {
        is_well &= fat::fat(fat).await;
    }
    if wanted("rates") {
        is_well &= rates::rates(&local).await;
    }
    if !is_well {
        std::process::exit(1);
    }
}

/// The index of a control among the completed ones. Each control runs once.
async fn control(local: &Path, controls: &mut Vec<(Scenario, Outcome)>, control: Scenario) -> usize {
    if let Some(found) = controls.iter().position(|(scenario, _)| *scenario == control) {
        return found;
    }
    let outcome = run::run(local, control).await;
    println!("{}", outcome.row(control, "control"));
    controls.push((control, outcome));
    controls.len() - 1
}
