//! Worlds with tables and queues that fail or lag.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{runtime::Handle, task::block_in_place};

use super::World;
use crate::{Call, CutOff, Pages, Proxy, proxy::Units};

/// A switch, which is off at first.
#[derive(Clone, Default)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// Turns the switch on.
    pub fn on(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Turns the switch off.
    pub fn off(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether the switch is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A call that comes between the reads and the write of another one.
#[derive(Clone, Default)]
pub struct Race(Arc<Mutex<Option<Rival>>>);

struct Rival {
    comes_before: fn(&Call) -> bool,
    act: BoxFuture<'static, ()>,
}

impl Race {
    /// Runs `act` just before the next call to the tables that `comes_before` selects.
    pub fn before(&self, comes_before: fn(&Call) -> bool, act: impl Future<Output = ()> + Send + 'static) {
        *self.0.lock().expect("no panic") = Some(Rival { comes_before, act: Box::pin(act) });
    }

    /// Runs `act` just before the next transaction.
    pub fn before_transaction(&self, act: impl Future<Output = ()> + Send + 'static) {
        self.before(|call| call.operation == "TransactWriteItems", act);
    }

    /// Whether no call is still waiting for another one.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.lock().expect("no panic").is_none()
    }

    fn interrupt(&self, call: &Call) {
        let rival = self.0.lock().expect("no panic").take_if(|rival| (rival.comes_before)(call));
        if let Some(Rival { act, .. }) = rival {
            block_in_place(|| Handle::current().block_on(act));
        }
    }
}

/// The response from a service that fails.
#[must_use]
pub fn failure() -> (u16, Value) {
    (500, json!({"__type": "InternalServerError"}))
}

impl World {
    async fn behind(proxy: Proxy, settings: &[(&str, &str)]) -> Self {
        let settings = [settings, &[("AWS_ENDPOINT_URL_DYNAMODB", proxy.address())]].concat();
        let world = Self::with(&settings).await;
        let proxies = vec![proxy.before(world.stack.dynamodb())];
        Self { proxies, ..world }
    }

    /// Starts the service with tables and queues to which each write is made twice, and whose second response is returned,
    /// as if each first response was lost.
    pub async fn repeating(settings: &[(&str, &str)]) -> Self {
        let (tables, queues) = (Proxy::repeating().await, Proxy::repeating().await);
        let addresses = [("AWS_ENDPOINT_URL_DYNAMODB", tables.address()), ("AWS_ENDPOINT_URL_SQS", queues.address())];
        let world = Self::with(&[settings, &addresses].concat()).await;
        let proxies = vec![tables.before(world.stack.dynamodb()), queues.before(world.stack.sqs())];
        Self { proxies, ..world }
    }

    /// Starts the service with these settings. `answer` gets every call to the tables, and returns a response, or
    /// `None` to forward the call.
    pub async fn answering(
        settings: &[(&str, &str)],
        answer: impl Fn(&Call) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        Self::behind(Proxy::answering(answer).await, settings).await
    }

    /// Like [`Self::answering`], but for calls to the queues.
    pub async fn queues_answering(
        settings: &[(&str, &str)],
        answer: impl Fn(&Call) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        let proxy = Proxy::answering(answer).await;
        let world = Self::with(&[settings, &[("AWS_ENDPOINT_URL_SQS", proxy.address())]].concat()).await;
        let proxies = vec![proxy.before(world.stack.sqs())];
        Self { proxies, ..world }
    }

    /// Starts the service, and lets the test make calls that race with others.
    pub async fn racing() -> (Arc<Self>, Race) {
        let race = Race::default();
        let other = race.clone();
        let answer = move |call: &Call| {
            other.interrupt(call);
            None
        };
        (Arc::new(Self::answering(&[], answer).await), race)
    }

    /// Starts the service. While the switch is on, calls to its tables fail if `fails` returns true.
    pub async fn failing(fails: impl Fn(&Call) -> bool + Send + Sync + 'static) -> (Self, Switch) {
        let switch = Switch::default();
        let fails_now = switch.clone();
        let answer = move |call: &Call| (fails_now.is_on() && fails(call)).then(failure);
        (Self::answering(&[], answer).await, switch)
    }

    /// Starts the service with tables that let the test make individual calls fail.
    pub async fn cut_off() -> (Self, Arc<CutOff>) {
        Self::cut_off_with(&[]).await
    }

    /// Like [`Self::cut_off`], with these settings.
    pub async fn cut_off_with(settings: &[(&str, &str)]) -> (Self, Arc<CutOff>) {
        let cut_off = Arc::default();
        (Self::behind(Proxy::cut_off(&cut_off).await, settings).await, cut_off)
    }

    /// Starts the service. The indexes of this table return the items that the test provides, which may be outdated.
    pub async fn lagging(table: &'static str) -> (Self, Arc<Mutex<Vec<Value>>>) {
        let index = Arc::<Mutex<Vec<Value>>>::default();
        let lagging = Arc::clone(&index);
        let answer = move |call: &Call| {
            let is_index = call.operation == "Query" && call["TableName"] == table && call["IndexName"].is_string();
            let items = lagging.lock().expect("no panic");
            is_index.then(|| (200, json!({"Items": *items, "Count": items.len(), "ScannedCount": items.len()})))
        };
        (Self::answering(&[], answer).await, index)
    }

    /// Starts the service, and measures the consumed capacity of its tables.
    pub async fn metered() -> Self {
        Self::metered_with(&[]).await
    }

    /// Like [`Self::metered`], with these settings.
    pub async fn metered_with(settings: &[(&str, &str)]) -> Self {
        Self::behind(Proxy::metering().await, settings).await
    }

    /// Starts the service with tables that divide the results of statements into `pages`.
    pub async fn paging(pages: Pages) -> Self {
        Self::behind(Proxy::paging(pages).await, &[]).await
    }

    /// The number of calls to the tables so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.proxies.first().expect("a world with a proxy").calls()
    }

    /// The capacity that the tables have consumed since this function was last called.
    #[must_use]
    pub fn units(&self) -> Units {
        self.proxies.first().expect("a metered world").units()
    }
}
