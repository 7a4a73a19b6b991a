//! `fanfare listen`: forwards events to a local program.
//!
//! The events wait at a pull endpoint. `listen` receives them with a lease, posts them, and settles them with the
//! program's response. If the process, its network or the machine fails, unsettled events are received again after
//! their leases have ended.

mod endpoint;
mod lease;
mod outcome;
mod output;
mod post;
mod settlement;
mod signals;
mod status_changes;

use std::{sync::Arc, time::Duration};

use api::deliveries::Receive;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};

use self::{
    endpoint::Source,
    lease::Lease,
    outcome::Done,
    output::{Output, Show},
    post::Poster,
    settlement::Settler,
    signals::Stop,
    status_changes::{News, Next},
};
use crate::{
    args::Listen,
    calls::Api,
    config::Config,
    failure::Failure,
    http::NetworkSettings,
    targets::{Target, Targets},
    terminal::print_note,
};

/// The maximum number of concurrent posts.
const POSTS: usize = 10;
/// The maximum number of leased events. It is low enough for each event to be posted well before its lease ends.
const MAX_LEASED: usize = 20;
/// More events are received once the number of leased events has dropped to this. Receiving single events would be
/// slower than posting them.
const REFILL_LEVEL: usize = POSTS;
/// The time limit for a `receive` call in progress at Ctrl-C. If the call were dropped immediately, its events would
/// stay leased needlessly.
const LAST_RECEIVE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) async fn run(
    api: &Api,
    network: &NetworkSettings,
    config: &mut Config,
    listen: Listen,
    is_json: bool,
) -> Result<(), Failure> {
    let targets = Targets::new(listen.to.clone())?;
    let mut source = endpoint::open(api, config, &listen).await?;
    let _lock = source.share(config)?;
    announce(&targets);
    print_note("Events that arrive while `fanfare listen` is stopped are kept for three days.");
    let stop = Stop::watch();
    let (done, settlements) = mpsc::unbounded_channel();
    let output = Output { is_json, has_bodies: listen.print_body, has_targets: targets.only().is_none() };
    let show = Show::new(api.origin(), output);
    let poster = Arc::new(Poster::new(network, targets, listen.insecure)?);
    let settler = tokio::spawn(Settler::new(api.clone(), show).run(settlements));
    let taken = take(api, config, &mut source, &poster, &done, stop).await;
    drop(done);
    let settled = settler.await.unwrap_or_else(|error| Err(Failure::local(error.to_string())));
    if let Ok(sum) = &settled {
        print_note(&format!("Stopped: {sum}."));
    }
    taken.and(settled.map(drop))
}

/// Prints where the events go.
fn announce(targets: &Targets) {
    const STOP: &str = "Press Ctrl-C to stop.";
    if let Some(Target { url, .. }) = targets.only() {
        return print_note(&format!("Forwarding to {url}. {STOP}"));
    }
    for target in targets.iter() {
        print_note(&format!("Forwarding {target} to {}.", target.url));
    }
    print_note(STOP);
}

/// Receives and posts events until Ctrl-C is pressed, the service returns a permanent error, or the settler ends.
/// Returns after every received event has been passed to the settler.
async fn take(
    api: &Api,
    config: &Config,
    source: &mut Source,
    poster: &Arc<Poster>,
    done: &mpsc::UnboundedSender<Done>,
    mut stop: Stop,
) -> Result<(), Failure> {
    let (slots, mut posts, mut news) = (Arc::new(Semaphore::new(POSTS)), JoinSet::new(), News::default());
    let ended = loop {
        while posts.len() > REFILL_LEVEL && !stop.is_requested() {
            tokio::select! {
                _ = posts.join_next() => {}
                () = stop.requested() => {}
            }
        }
        while posts.try_join_next().is_some() {}
        if stop.is_requested() || done.is_closed() {
            break Ok(());
        }
        let limit = MAX_LEASED.saturating_sub(posts.len());
        let lease = Lease::begin();
        let receive = Receive { limit: Some(limit), ..Receive::new(source.id.clone()) };
        let mut call = Box::pin(api.call(&receive));
        let received = tokio::select! {
            received = &mut call => received,
            () = stop.requested() => match timeout(LAST_RECEIVE_TIMEOUT, call).await {
                Ok(received) => received,
                Err(_elapsed) => break Ok(()),
            },
        };
        let heard = news.hear(received);
        heard.lines.iter().for_each(|line| print_note(line));
        let pause = match heard.next {
            Next::Taken(deliveries, pause) => {
                deliveries
                    .first()
                    .and_then(|delivery| source.outdated(config, delivery))
                    .iter()
                    .for_each(|line| print_note(line));
                for delivery in deliveries {
                    let (slots, poster, done, stop) = (slots.clone(), poster.clone(), done.clone(), stop.clone());
                    posts.spawn(async move {
                        let _gone = done.send(poster.post(delivery, &slots, stop, lease).await);
                    });
                }
                pause
            }
            Next::Wait(pause) => pause,
            Next::End(failure) => break Err(failure),
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.requested() => {}
            () = done.closed() => {}
        }
    };
    while posts.try_join_next().is_some() {}
    if !posts.is_empty() {
        print_note(&format!("Stopping. Posts in progress: {}. Press Ctrl-C again to stop immediately.", posts.len()));
    }
    while posts.join_next().await.is_some() {}
    ended
}
