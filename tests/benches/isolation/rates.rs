//! The rate of deliveries to endpoints that take five seconds. Four concurrent attempts would make 0.8 deliveries a
//! second.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use tests::event;
use tokio::time::sleep;

use crate::{receivers::Receivers, scenario::Mode, service::Service};

const ENDPOINTS: usize = 3;
const EVENTS: usize = 40;
/// The time limit for all deliveries, and when counting starts.
const PATIENCE: Duration = Duration::from_mins(3);
const FROM: Duration = Duration::from_secs(10);

/// Prints each endpoint's rate and number of repeated requests. Returns whether all of them are fast enough and got at
/// most one repeat.
pub(crate) async fn rates(local: &Path) -> bool {
    let (service, _output) = Service::start(local, &[], None).await;
    let receivers = Receivers::start(Mode::Slow5).await;
    receivers.be_bad(true);
    let tenant = service.tenant("rates").await;
    for number in 0..ENDPOINTS {
        service.endpoint(&tenant, &receivers.bad(0, number)).await;
    }
    let started = Instant::now();
    let events: Vec<_> = (0..EVENTS).map(|job| event(&tenant.id, job).to_string()).collect();
    for batch in events.chunks(10) {
        service.send(batch).await;
    }
    while receivers.done() < ENDPOINTS * EVENTS && started.elapsed() < PATIENCE {
        sleep(Duration::from_millis(100)).await;
    }
    println!("\n| endpoint of the run \"rates\" | done | a second from 10 s on | the last after | repeats |");
    println!("|---|--:|--:|--:|--:|");
    let mut is_well = true;
    for (path, endpoint) in BTreeMap::from_iter(receivers.seen()) {
        let done = endpoint.done.values().map(|at| *at - started);
        let last = done.clone().max().unwrap_or_default();
        let counted = u32::try_from(done.filter(|after| *after > FROM).count()).expect("a small number");
        let rate = f64::from(counted) / last.saturating_sub(FROM).as_secs_f64();
        let (done, repeats) = (endpoint.done.len(), endpoint.requests - endpoint.ids.len());
        is_well &= rate > 0.7 && repeats <= 1 && done == EVENTS;
        println!("| {path} | {done} | {rate:.2} | {:.0} s | {repeats} |", last.as_secs_f64());
    }
    is_well
}
