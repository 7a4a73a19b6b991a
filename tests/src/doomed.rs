//! Processes that die at one of their calls, and a loop that makes them die at each.

use std::{
    collections::HashMap,
    ops::Range,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use common::config::Env;
use futures::{StreamExt, stream};
use lambda_runtime::Context;
use local::{Handler, Worker};

use crate::{CutOff, Proxy, World};

/// A separate process, some of whose calls fail. If all calls from some point on fail, it looks dead from outside.
pub struct Doomed<P> {
    /// The process.
    pub process: P,
    cut_off: Arc<CutOff>,
    _proxies: Vec<Proxy>,
}

impl Doomed<Worker> {
    /// A worker whose calls with these numbers fail; the first of them may take effect.
    pub async fn worker(world: &World, settings: &[(&str, &str)], fails: Range<u64>, takes_effect: bool) -> Self {
        let behind = [world.stack.dynamodb(), world.stack.sqs()].map(str::to_owned);
        Self::started(behind, fails, takes_effect, |[dynamodb, sqs]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Worker::new(&dynamodb, &sqs, &settings.collect()).expect("a worker")
        })
        .await
    }
}

impl Doomed<Handler> {
    /// A function whose calls with these numbers fail; the first of them may take effect.
    pub async fn function(world: &World, name: &str, fails: Range<u64>, takes_effect: bool) -> Self {
        let services = ["DYNAMODB", "SQS", "SES"].map(|service| format!("AWS_ENDPOINT_URL_{service}"));
        let settings = world.stack.environment(name).expect("a function").clone();
        let behind = services.clone().map(|service| settings[&service].clone());
        Self::started(behind, fails, takes_effect, |addresses| {
            handler(name, settings, services.into_iter().zip(addresses))
        })
        .await
    }
}

impl<P> Doomed<P> {
    /// Starts a process that finds proxies at these addresses instead of the services.
    async fn started<const N: usize>(
        behind: [String; N],
        fails: Range<u64>,
        takes_effect: bool,
        start: impl FnOnce([String; N]) -> P,
    ) -> Self {
        let cut_off = Arc::<CutOff>::default();
        cut_off.fail(fails, takes_effect);
        let mut proxies = Vec::new();
        for behind in &behind {
            proxies.push(Proxy::cut_off(&cut_off).await.before(behind));
        }
        let mut addresses = proxies.iter().map(|proxy| proxy.address().to_owned());
        let process = start(behind.map(|_| addresses.next().expect("a proxy")));
        Self { process, cut_off, _proxies: proxies }
    }

    /// Whether a call has failed.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.cut_off.is_reached()
    }
}

fn handler(name: &str, mut settings: HashMap<String, String>, with: impl Iterator<Item = (String, String)>) -> Handler {
    settings.extend(with);
    Handler::start(name, &Env::new(move |name| settings.get(name).cloned())).expect("settings")
}

/// The context of an invocation with this many seconds left.
#[must_use]
pub fn context(seconds: u64) -> Context {
    let mut context = Context::default();
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") + Duration::from_secs(seconds);
    context.deadline = u64::try_from(deadline.as_millis()).expect("it fits");
    context
}

/// The number of concurrent processes.
const AT_ONCE: usize = 12;
/// This many processes in a row must finish before their fault, so that no call is missed if the number of calls
/// varies.
const BEYOND: usize = 3;
/// More calls than any of these processes makes.
const MOST: usize = 200;

/// Makes a process die at the first of these calls, another at the second, and so on, until they finish with fewer
/// calls. `life` returns whether its process has died, and the result.
pub async fn at_each_call<T, F: Future<Output = (bool, T)>>(
    calls: impl IntoIterator<Item = u64>,
    life: impl FnMut(u64) -> F,
) -> Vec<(bool, T)> {
    let mut lives = pin!(stream::iter(calls).map(life).buffered(AT_ONCE));
    let (mut lived, mut survived) = (Vec::new(), 0);
    while survived < BEYOND {
        let (has_died, end) = lives.next().await.expect("there are more calls");
        survived = if has_died { 0 } else { survived + 1 };
        lived.push((has_died, end));
        assert!(lived.len() < MOST, "its work has no end");
    }
    lived
}
