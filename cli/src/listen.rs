//! `fanfare listen`: events reach a program on this machine.
//!
//! A pull endpoint collects them. They are taken with a lease, posted, and settled with what the program answered. Whatever
//! ends this process, its network or the machine, what was not settled comes again when its lease is over.

mod endpoint;
mod lease;
mod news;
mod post;
mod settle;
mod show;
mod stop;

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};

use self::{
    endpoint::Source,
    lease::Lease,
    news::{News, Next},
    post::Poster,
    settle::{Done, Settler},
    show::Show,
    stop::Stop,
};
use crate::{api::Api, args::Listen, config::Config, failure::Failure, terminal::note};

/// How many events are posted at the same time.
const POSTS: usize = 10;
/// How many are under way: those that wait for a post have theirs well before their lease ends.
const UNDER_WAY: usize = 20;
/// More are taken once so many are left: a call for each would be slower than the posts.
const FEW: usize = POSTS;
/// How long a call that has begun is waited for in the end: what it takes would be leased for nothing.
const LAST_CALL: Duration = Duration::from_secs(2);

pub(crate) async fn run(api: &Api, config: &mut Config, listen: Listen, is_json: bool) -> Result<(), Failure> {
    let mut source = endpoint::open(api, config, &listen).await?;
    let _lock = source.share(config)?;
    note(&format!("Posting to {}. Ctrl-C ends it.", listen.to));
    note("What comes while this does not run waits for three days.");
    let stop = Stop::watch();
    let (done, settlements) = mpsc::unbounded_channel();
    let settler = tokio::spawn(Settler::new(api.clone(), Show::new(api.origin(), is_json)).run(settlements));
    let taken = take(api, &mut source, &Arc::new(Poster::new(listen.to)), &done, stop).await;
    drop(done);
    let settled = settler.await.unwrap_or_else(|error| Err(Failure::Local(error.to_string())));
    taken.and(settled)
}

/// Takes and posts until somebody stops it, the service refuses, or nothing can be settled any more. Ends once all that was
/// taken has been handed on.
async fn take(
    api: &Api,
    source: &mut Source,
    poster: &Arc<Poster>,
    done: &mpsc::UnboundedSender<Done>,
    mut stop: Stop,
) -> Result<(), Failure> {
    let (slots, mut posts, mut news) = (Arc::new(Semaphore::new(POSTS)), JoinSet::new(), News::default());
    let ended = loop {
        while posts.len() > FEW && !stop.is_asked() {
            tokio::select! {
                _ = posts.join_next() => {}
                () = stop.asked() => {}
            }
        }
        while posts.try_join_next().is_some() {}
        if stop.is_asked() || done.is_closed() {
            break Ok(());
        }
        let limit = UNDER_WAY.saturating_sub(posts.len());
        let lease = Lease::begin();
        let call = api.call("deliveries/receive", json!({ "webhook_endpoint_id": source.id, "limit": limit }));
        let mut call = Box::pin(call);
        let received = tokio::select! {
            received = &mut call => received,
            () = stop.asked() => match timeout(LAST_CALL, call).await {
                Ok(received) => received,
                Err(_elapsed) => break Ok(()),
            },
        };
        let heard = news.hear(received);
        heard.lines.iter().for_each(|line| note(line));
        let pause = match heard.next {
            Next::Taken(deliveries, pause) => {
                deliveries.first().and_then(|delivery| source.outdated(delivery)).iter().for_each(|line| note(line));
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
            () = stop.asked() => {}
            () = done.closed() => {}
        }
    };
    while posts.try_join_next().is_some() {}
    if !posts.is_empty() {
        note(&format!("Ending: {} under way. Ctrl-C again ends at once.", posts.len()));
    }
    while posts.join_next().await.is_some() {}
    ended
}
