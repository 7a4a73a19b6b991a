//! The local process beside another webhook service: the open-source server of Svix, with PostgreSQL and Redis.
//!
//! Both get the same events of 1 KB from this process, deliver them to the same receiver, which answers 204, and log each
//! delivery. They run at once, and rounds alternate. A round of one service:
//!
//! - 2,000 events for one endpoint, from 16 callers that wait for each response, one event per call. Then the same for
//!   this project's service with ten events per call; the peer accepts one.
//! - 100 events a second for one endpoint, and the times from a response to the arrival of its event.
//! - 40 events, one after another, for an organization (of the peer, an application) with 100 endpoints.
//! - The memory at the end: the proportional set sizes of all processes.
//!
//! CPU time is that of all processes of a service, until they are idle again. The rounds are repeated with three kinds of
//! storage, see [`Storage`]. The benchmark prints a table and writes it to `docs/performance.md`, except with `ROUNDS`.
//!
//! It runs as root, and needs the Debian packages `postgresql` and `redis-server` and, to build the peer, `libssl-dev` and
//! `pkg-config`. PostgreSQL and Redis run in temporary folders, on ports of their own; installed services are not used.
//!
//! ```sh
//! git clone https://github.com/svix/svix-webhooks && cd svix-webhooks/server    # measured: 4fc0cfb8, 1.100.0
//! cargo build --release --package svix-server --bin svix-server
//! SVIX_SERVER=$PWD/target/release/svix-server cargo bench -p tests --bench peer    # in this project
//! LOCAL=/path/to/local ROUNDS=1 SVIX_SERVER=... cargo bench ...                    # of another version; prints only
//! SVIX_DB_POOL_MAX_SIZE=10 ROUNDS=2 SVIX_SERVER=... cargo bench ...                # another setting of the peer
//! ```
//!
//! Choices for the peer:
//!
//! - Its own release profile, with jemalloc, as in its `Dockerfile`. The measured program was built with hyper 1.11.0 and
//!   the two commits of the peer's fork of it, which differs only in access to the case of header names.
//! - No tracing, and no log line except for errors, as for `cargo local`.
//! - The settings of its documentation: a pool of 100 connections, 500 tasks, the cache in memory, which it recommends for
//!   a single server. Its queue is in Redis, with persistence as in its `docker-compose.yml`, where data is on disk.
//!   Otherwise, it is in memory, without Redis.
//! - PgBouncer, which its `docker-compose.yml` also runs, is left out.
//! - PostgreSQL has Debian's defaults, except that it accepts 200 connections.
//! - Callers keep their connections to its API open. Each event must arrive once, and be in the log.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark stops at the first problem, and prints; its counts are far below 2^52"
)]

#[path = "shared/artifacts.rs"]
mod artifacts;
#[path = "shared/job_event.rs"]
mod job_event;
#[path = "shared/page.rs"]
mod page;
#[path = "peer/processes.rs"]
mod processes;
#[path = "peer/receiver.rs"]
mod receiver;
#[expect(dead_code, reason = "the CPU time is that of all processes of a service")]
#[path = "shared/service.rs"]
mod service;
#[path = "peer/side.rs"]
mod side;
#[path = "peer/svix.rs"]
mod svix;
#[path = "peer/work.rs"]
mod work;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use receiver::Receiver;
use side::Side;
use work::{FIGURES, Figures};

/// Where both services keep their data.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Storage {
    /// In memory. PostgreSQL stores its files in memory and waits for no write.
    Memory,
    /// On disk. Accepted events survive the death of every process, but the last ones not a power failure: PostgreSQL
    /// acknowledges commits before they are on the disk, as `cargo local` does.
    Disk,
    /// On disk, with PostgreSQL's defaults: commits are on the disk before they are acknowledged. `cargo local` has no
    /// such setting, so its figures are those of [`Storage::Disk`], measured again.
    SyncedDisk,
}

const STORAGES: [(Storage, &str); 3] = [
    (Storage::Memory, "in memory"),
    (Storage::Disk, "on disk"),
    (Storage::SyncedDisk, "on disk, the peer's commits synced"),
];

#[tokio::main]
async fn main() {
    let server = env::var_os("SVIX_SERVER").map(PathBuf::from);
    let server = server.expect("SVIX_SERVER is the path of the peer's program, see tests/benches/peer.rs");
    let local = env::var_os("LOCAL").map_or_else(service::build, PathBuf::from);
    let rounds = env::var("ROUNDS").ok().map(|rounds| rounds.parse::<usize>().expect("a number"));
    let mut tables = Vec::new();
    for (storage, name) in STORAGES {
        println!("\n{name}");
        tables.push(compare(&local, &server, storage, rounds.unwrap_or(3)).await);
    }
    let table = table(&tables);
    println!("\n{table}");
    if rounds.is_none() {
        page::put("performance.md", "beside a peer", &table);
    }
}

/// The medians of both services' figures, ours first.
async fn compare(local: &Path, server: &Path, storage: Storage, rounds: usize) -> [Figures; 2] {
    let folder = env::temp_dir().join(format!("peer-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let receiver = Receiver::start().await;
    let mut sides = [
        Side::ours(local, storage, &folder, &receiver.url).await,
        Side::peer(server, storage, &folder, &receiver.url).await,
    ];
    let mut figures = [Vec::new(), Vec::new()];
    for side in &mut sides {
        side.round(&receiver, 300).await;
    }
    for round in 0..rounds {
        for turn in 0..2 {
            let number = (round + turn) % 2;
            let of_round = sides[number].round(&receiver, 2_000).await;
            println!("{}: {of_round:.3?}", ["ours", "peer"][number]);
            figures[number].push(of_round);
        }
    }
    for side in sides {
        side.stop().await;
    }
    fs::remove_dir_all(&folder).expect("the processes have ended");
    figures.map(|rounds| {
        std::array::from_fn(|figure| {
            let mut values: Vec<_> = rounds.iter().map(|round: &Figures| round[figure]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        })
    })
}

/// A row for each figure, and a column for each kind of storage.
fn table(storages: &[[Figures; 2]]) -> String {
    let head = STORAGES.iter().map(|(_, name)| format!(" {name} |")).collect::<String>();
    let mut text = format!("| ours / the peer |{head}\n|---|---|---|---|\n");
    for (figure, (name, unit)) in FIGURES.into_iter().enumerate() {
        let cell = |[own, peer]: &[Figures; 2]| {
            let (own, peer) = (own[figure], peer[figure]);
            format!(" {} / {} {unit}, x {:.2} |", digits(own), digits(peer), own / peer)
        };
        text += &format!("| {name} |{}\n", storages.iter().map(cell).collect::<String>());
    }
    text
}

/// Three significant digits.
fn digits(value: f64) -> String {
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$}")
}
