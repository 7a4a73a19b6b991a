//! Processes that die at one of their calls, and a loop that makes processes die at each call in turn.

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

/// A separate process whose calls can be made to fail. If every call fails after some point, the process appears to be
/// dead.
pub struct Doomed<P> {
    pub process: P,
    cut_off: Arc<CutOff>,
    _proxies: Vec<Proxy>,
}

impl Doomed<Worker> {
    /// Starts a worker whose calls with these numbers fail. The first failing call may take effect.
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
    /// Starts a function whose calls with these numbers fail. The first failing call may take effect.
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
    /// Starts a process that calls proxies at these addresses instead of the services.
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

    /// Whether a call has already failed.
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
/// The number of consecutive processes that must finish without reaching their fault. One is not enough, because the
/// number of calls varies.
const BEYOND: usize = 3;
/// An upper bound for the number of a process's calls.
const MOST: usize = 200;
/// Unless the run [is thorough](crate::is_thorough), one call in this many is tested. A test of all calls takes 10 to
/// 30 seconds of CPU time.
const STRIDE: usize = 6;

/// The results of processes that died at different calls.
pub struct Lives<T> {
    /// Whether each process reached the call at which it was supposed to die, and the result of its test.
    pub all: Vec<(bool, T)>,
    stride: usize,
}

impl<T> Lives<T> {
    /// The approximate number of calls at which a process can die.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.stride * self.all.iter().filter(|(has_died, _)| *has_died).count()
    }

    /// Whether each call was tested.
    #[must_use]
    pub fn are_complete(&self) -> bool {
        self.stride == 1
    }
}

/// Makes a process die at the first of these calls, another one at a later call, and so on, until processes finish with
/// fewer calls. `life` returns whether its process died, and the result. A thorough run omits no call.
pub async fn at_each_call<T, F: Future<Output = (bool, T)>>(
    calls: impl IntoIterator<Item = u64>,
    life: impl FnMut(u64) -> F,
) -> Lives<T> {
    let (stride, beyond) = if crate::is_thorough() { (1, BEYOND) } else { (STRIDE, 1) };
    let calls = calls.into_iter().step_by(stride);
    let mut lives = pin!(stream::iter(calls).map(life).buffered(if stride == 1 { AT_ONCE } else { 4 }));
    let (mut all, mut survived) = (Vec::new(), 0);
    while survived < beyond {
        let (has_died, end) = lives.next().await.expect("there are more calls");
        survived = if has_died { 0 } else { survived + 1 };
        all.push((has_died, end));
        assert!(all.len() < MOST, "a process makes too many calls");
    }
    Lives { all, stride }
}
