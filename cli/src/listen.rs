//! `fanfare listen`: events reach a program on this machine.
//!
//! A pull endpoint collects them. They are taken with a lease, posted, and settled with what the program answered. Whatever
//! ends this process, its network or the machine, what was not settled comes again when its lease is over.

mod endpoint;
mod post;
mod settle;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep},
};

use self::{endpoint::Source, post::Poster, settle::Settler};
use crate::{api::Api, args::Listen, config::Config, failure::Failure, http::Http, terminal::note};

/// How many events are posted at the same time.
const POSTS: usize = 10;
/// How many are under way: those that wait for a post have theirs well before their lease ends.
const UNDER_WAY: usize = 20;
/// The pauses after calls that failed: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    api: &Api,
    config: &mut Config,
    http: &Http,
    listen: Listen,
    is_json: bool,
) -> Result<(), Failure> {
    let source = endpoint::open(api, config, &listen).await?;
    let _lock = source.share(config)?;
    note(&format!("Posting to {}. Events wait for three days while this does not run. Ctrl-C ends it.", listen.to));
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        // A second Ctrl-C finds the default, which ends the process at once.
        if tokio::signal::ctrl_c().await.is_ok() {
            let _ended = stop.send(true);
        }
    });
    let (done, settlements) = mpsc::unbounded_channel();
    let settler = tokio::spawn(Settler::new(api.clone(), is_json).run(settlements));
    let poster = Arc::new(Poster::new(http.clone(), listen.to, is_json));
    let taken = take(api, &source, &poster, &done, stopped).await;
    drop(done);
    let settled = settler.await.unwrap_or_else(|error| Err(Failure::Local(error.to_string())));
    taken.and(settled)
}

/// Takes and posts until somebody stops it, or the service refuses. Ends once all that was taken has been handed on.
async fn take(
    api: &Api,
    source: &Source,
    poster: &Arc<Poster>,
    done: &mpsc::UnboundedSender<settle::Done>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let (slots, mut posts, mut news) = (Arc::new(Semaphore::new(POSTS)), JoinSet::new(), News::default());
    let ended = loop {
        while posts.len() >= UNDER_WAY {
            tokio::select! {
                _ = posts.join_next() => {}
                _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
            }
        }
        while posts.try_join_next().is_some() {}
        if *stopped.borrow() {
            break Ok(());
        }
        let room = UNDER_WAY.saturating_sub(posts.len());
        let fields = json!({ "webhook_endpoint_id": source.id, "limit": room });
        // A call that was begun is waited for: what it takes would be leased for nothing.
        let began = Instant::now();
        let received = api.call("deliveries/receive", fields).await;
        let pause = match news.of(received)? {
            Some(answer) => {
                for delivery in answer["deliveries"].as_array().cloned().unwrap_or_default() {
                    let (slots, poster, done) = (slots.clone(), poster.clone(), done.clone());
                    let stopped = stopped.clone();
                    posts.spawn(async move {
                        let _gone = done.send(poster.post(delivery, &slots, stopped, began).await);
                    });
                }
                Duration::from_millis(answer["poll_after_ms"].as_u64().unwrap_or(1_000).min(60_000))
            }
            None => news.pause(),
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
    };
    if !posts.is_empty() {
        note(&format!("Ending: {} under way.", posts.len()));
    }
    while posts.join_next().await.is_some() {}
    ended
}

/// What has been said of the service and the endpoint, so that each change is one line.
#[derive(Default)]
struct News {
    failures: u32,
    is_inactive: bool,
    /// Until when the secret before the latest rotation signs, as the latest answer said; `None` before the first.
    rotated: Option<Value>,
}

impl News {
    /// The answer, if there is one now; `None` if it is worth asking again.
    fn of(&mut self, received: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
        let answer = match received {
            Ok(answer) => answer,
            Err(error) if error.reason() == "endpoint_inactive" => {
                if !std::mem::replace(&mut self.is_inactive, true) {
                    note("The endpoint has been made inactive. Events are held until it is active again.");
                }
                self.failures = self.failures.max(3);
                return Ok(None);
            }
            Err(error) if error.is_passing() => {
                if self.failures == 0 {
                    note(&format!("{error} Trying again until that works."));
                }
                self.failures = self.failures.saturating_add(1);
                return Ok(None);
            }
            Err(Failure::Refused { status: 404, .. }) => {
                let message = "The endpoint has been deleted.".to_owned();
                return Err(Failure::Refused { status: 404, reason: String::new(), message });
            }
            Err(error) => return Err(error),
        };
        if std::mem::take(&mut self.is_inactive) {
            note("The endpoint is active again.");
            self.failures = 0;
        } else if std::mem::take(&mut self.failures) > 0 {
            note("The service answers again.");
        }
        let expires = answer["previous_secret_expires_at"].clone();
        if let Some(before) = self.rotated.replace(expires.clone())
            && before != expires
            && !expires.is_null()
        {
            note(&format!(
                "The secret was rotated. Until {}, the old secret signs, too.",
                crate::terminal::cell(&expires)
            ));
        }
        Ok(Some(answer))
    }

    /// How long to wait before the next call: longer with each that failed, up to a bound, and never the same for all.
    fn pause(&self) -> Duration {
        let longest = PAUSE.saturating_mul(2_u32.saturating_pow(self.failures.min(8))).min(LONGEST_PAUSE);
        let mut random = [0; 1];
        let share = getrandom::fill(&mut random).map_or(1.0, |()| f64::from(random[0]) / 255.0);
        longest.mul_f64(0.5 + share / 2.0)
    }
}
