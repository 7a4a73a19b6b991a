//! The number of requests that an event costs a receiver that is not quick: exactly one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use futures::future::join_all;
use tests::{Moody, event};
use tokio::time::sleep;

use crate::service::Service;

/// The number of events of each receiver.
const EVENTS: usize = 20;
/// The time between two events, and the time limit for all deliveries.
const EVERY: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_mins(5);
/// A receiver with a cold start takes `COLD` after a pause of `IDLE`. It gets two events after each longer pause.
const COLD: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(12);

/// Prints each receiver's numbers of events and requests. Returns whether each event caused one request.
pub(crate) async fn requests(local: &Path) -> bool {
    let (service, _output) = Service::start(local, &[], None).await;
    println!("\n| receiver of the run \"requests\" | events | requests | the last after |");
    println!("|---|--:|--:|--:|");
    let takes = [700_u32, 2000, 4000, 14_000];
    let takes = takes.map(|ms| (format!("takes {} s", f64::from(ms) / 1000.0), Some(ms)));
    let all = takes.into_iter().chain([("cold start".to_owned(), None)]);
    let runs = all.enumerate().map(|(number, (name, takes))| one(&service, number, name, takes));
    let rows = join_all(runs).await;
    rows.iter().for_each(|(row, _)| println!("{row}"));
    rows.iter().all(|(_, is_well)| *is_well)
}

/// Sends the events of one receiver, and waits until each has arrived and every answer was sent.
async fn one(service: &Service, number: usize, name: String, takes: Option<u32>) -> (String, bool) {
    let last = Mutex::new(None::<Instant>);
    let receiver = Moody::start(move |_| match takes {
        Some(ms) => (Duration::from_millis(ms.into()), 204),
        None => {
            let mut last = last.lock().expect("no panic");
            let is_cold = last.replace(Instant::now()).is_none_or(|last| last.elapsed() > IDLE);
            (if is_cold { COLD } else { Duration::from_millis(100) }, 204)
        }
    })
    .await;
    let tenant = service.tenant(&format!("requests-{number}")).await;
    service.endpoint(&tenant, receiver.url()).await;
    let started = Instant::now();
    for job in 0..EVENTS {
        service.send(&[event(&tenant.id, job).to_string()]).await;
        let is_of_a_pair = takes.is_none() && job % 2 == 0;
        sleep(match takes {
            _ if is_of_a_pair => Duration::ZERO,
            None => IDLE + Duration::from_secs(1),
            Some(_) => EVERY,
        })
        .await;
    }
    let distinct = || receiver.ids().into_iter().collect::<BTreeSet<_>>().len();
    while distinct() < EVENTS && started.elapsed() < PATIENCE {
        sleep(Duration::from_millis(100)).await;
    }
    let arrived = started.elapsed();
    // A repeated request would follow an answer, or the timeout.
    sleep(Duration::from_secs(20)).await;
    let mut counts = BTreeMap::<_, usize>::new();
    receiver.ids().into_iter().for_each(|id| *counts.entry(id).or_default() += 1);
    let is_well = counts.len() == EVENTS && counts.values().all(|count| *count == 1);
    (format!("| {name} | {EVENTS} | {} | {:.0} s |", receiver.requests(), arrived.as_secs_f64()), is_well)
}
