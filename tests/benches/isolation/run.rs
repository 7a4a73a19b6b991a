//! One run: a warm-up, a burst with the events of all tenants mixed, and a phase after it.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream};
use serde_json::json;
use tests::{callback, event};
use tokio::{
    process::Command,
    time::{sleep, sleep_until},
};

use crate::{
    receivers::{Receivers, SLOW},
    report::{Cost, Latencies, Outcome},
    scenario::{Mode, Past, Scenario},
    service::{Service, Tenant},
};

/// The number of batches in flight to the queue.
const SENDERS: usize = 8;
/// The number of events that the healthy tenant sends in the burst, and again after it.
const HEALTHY: usize = 100;
/// The number of events for the slow receiver in the burst.
const SLOW_EVENTS: usize = 20;
/// The maximum number of a tenant's deliveries that are counted, because counting is slow.
const COUNTED: usize = 20_000;
/// The time between two of a tenant's events after the burst.
const PACE: Duration = Duration::from_millis(50);
/// The time between the end of the burst and the phase after it.
const PAUSE: Duration = Duration::from_secs(3);
/// The minimum and the maximum duration of the observation after the last send.
const LOOK: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(1)];
/// The time limit for the warm-up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Passwords are hashed cheaply, and a tenant may have a hundred bad endpoints and a healthy one.
const VARIABLES: [(&str, &str); 3] =
    [("ARGON2_MEMORY_KIB", "64"), ("ARGON2_ITERATIONS", "1"), ("MAX_ENDPOINTS_PER_TENANT", "101")];

/// The paths of the healthy receivers. H is the healthy endpoint of the first bad tenant.
const B: &str = "/b";
const N: &str = "/n";
const H: &str = "/h";

/// A service, its tenants, and the events that they have sent.
struct Stage {
    service: Service,
    receivers: Receivers,
    calls_back: bool,
    known: Tenant,
    slow: Tenant,
    new: Tenant,
    bad: Vec<Tenant>,
    jobs: Cell<usize>,
    sent: RefCell<Vec<Sent>>,
}

/// An event, and the path of the healthy receiver that expects it.
struct Message {
    path: Option<&'static str>,
    job: String,
    body: String,
}

/// An event that a healthy receiver expects.
struct Sent {
    path: &'static str,
    job: String,
    at: Instant,
}

/// Performs a run.
pub(crate) async fn run(local: &Path, scenario: Scenario) -> Outcome {
    let (service, mut output) = Service::start(local, &VARIABLES, None).await;
    let stage = Stage::new(service, scenario).await;
    stage.prepare(scenario).await;
    let cpu = stage.service.cpu();
    let (untried, unlisted) = (Cell::new(0), Cell::new(None));
    tokio::select! {
        () = stage.play(scenario, &unlisted) => {}
        () = stage.watch(&untried) => {}
    }
    let cpu = stage.service.cpu() - cpu;
    stage.look(&untried).await;
    let interrupt = Command::new("kill").args(["-INT", &stage.service.id().to_string()]).status().await;
    assert!(interrupt.expect("kill runs").success());
    let work = output.next_line().await.expect("UTF-8").expect("a line");
    let work = serde_json::from_str(&work).expect("JSON");
    Outcome {
        burst: stage.latencies(B, "burst"),
        after: stage.latencies(B, "after"),
        slow: stage.latencies(SLOW, "burst"),
        new: stage.latencies(N, ""),
        unlisted: unlisted.get(),
        good: stage.latencies(H, "burst").and(stage.latencies(H, "after")),
        untried: untried.get(),
        cost: Cost::new(&stage.receivers.seen(), &work, cpu),
    }
}

impl Stage {
    /// Signs up all tenants and creates their healthy endpoints.
    async fn new(service: Service, scenario: Scenario) -> Self {
        let receivers = Receivers::start(scenario.mode).await;
        let [known, slow, new] =
            [service.tenant("known").await, service.tenant("slow").await, service.tenant("new").await];
        let mut bad = Vec::new();
        for number in 0..scenario.shape.tenants {
            bad.push(service.tenant(&format!("bad-{number}")).await);
        }
        for (tenant, path) in
            [(&known, B), (&slow, SLOW), (&new, N)].into_iter().chain(bad.first().map(|tenant| (tenant, H)))
        {
            service.endpoint(tenant, &receivers.good(path)).await;
        }
        let (calls_back, jobs, sent) = (scenario.mode.calls_back(), Cell::default(), RefCell::default());
        Self { service, receivers, calls_back, known, slow, new, bad, jobs, sent }
    }

    /// Makes the receivers of B and H known to the service, and gives the bad receivers their history.
    async fn prepare(&self, scenario: Scenario) {
        let known = (0..20).flat_map(|_| {
            [self.of(&self.known, B, "known"), self.of(&self.slow, SLOW, "known")].into_iter().chain(self.well("known"))
        });
        self.send(known.collect()).await;
        self.until(|| self.have_arrived()).await;
        // The bad endpoints are created after the events that make H known, because those events would otherwise make
        // the bad receivers known, too.
        for (tenant, owner) in self.bad.iter().enumerate() {
            for number in 0..scenario.shape.endpoints {
                self.service.endpoint(owner, &self.receivers.bad(tenant, number)).await;
            }
        }
        let events = (2 * self.bad.len()).max(40);
        self.receivers.be_bad(scenario.past != Past::Turns && scenario.mode != Mode::Absent);
        if scenario.past != Past::Cold {
            self.send((0..events).map(|number| self.bad(number % self.bad.len(), "past")).collect()).await;
        }
        match scenario.past {
            Past::Cold => {}
            Past::Warm => sleep(Duration::from_secs(20)).await,
            Past::Turns => {
                self.until(|| self.receivers.done() == events * scenario.shape.endpoints).await;
                self.receivers.be_bad(true);
            }
        }
    }

    /// The burst and the phase after it, until everything has arrived.
    async fn play(&self, scenario: Scenario, unlisted: &Cell<Option<usize>>) {
        let (events, mut burst) = (scenario.events(), Vec::new());
        for place in 0..HEALTHY {
            let bad = place * events / HEALTHY..(place + 1) * events / HEALTHY;
            burst.extend(bad.map(|number| self.bad(scenario.sender(number), "burst")));
            burst.push(self.of(&self.known, B, "burst"));
            burst.extend(self.well("burst").filter(|_| self.calls_back));
            burst.extend((place == HEALTHY / 2).then(|| self.of(&self.new, N, "burst")));
        }
        let slow =
            (0..SLOW_EVENTS).map(|number| (number * burst.len() / SLOW_EVENTS, self.of(&self.slow, SLOW, "burst")));
        for (place, message) in slow.collect::<Vec<_>>().into_iter().rev() {
            burst.insert(place, message);
        }
        self.send(burst).await;
        self.count(scenario, unlisted).await;
        let start = tokio::time::Instant::now() + PAUSE;
        let after = (0..HEALTHY).zip(0..).map(|(number, ticks)| async move {
            sleep_until(start + PACE * ticks).await;
            let bad = (!self.bad.is_empty()).then(|| self.bad(number % self.bad.len(), "after"));
            let messages = [self.of(&self.known, B, "after")].into_iter().chain(bad);
            self.send(messages.chain(self.well("after").filter(|_| self.calls_back)).collect()).await;
        });
        join_all(after).await;
        let ended = Instant::now();
        while ended.elapsed() < LOOK[0] || (ended.elapsed() < LOOK[1] && !self.have_arrived()) {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Counts the first bad tenant's deliveries in its log, once its events have been received from their queue.
    async fn count(&self, scenario: Scenario, unlisted: &Cell<Option<usize>>) {
        let Some(tenant) = self.bad.first() else { return };
        let events = (0..scenario.events()).filter(|number| scenario.sender(*number) == 0).count();
        let expected = if self.calls_back { events } else { events * (scenario.shape.endpoints + 1) };
        if expected > COUNTED {
            return;
        }
        while self.waiting_events().await > 0 {
            sleep(Duration::from_millis(100)).await;
        }
        // Not by `deliveries/stats`, which reads only the newest delivered ones.
        let (mut listed, mut fields) = (0, json!({"limit": 100}));
        loop {
            let page = self.service.rpc(tenant, "deliveries/list", fields.clone()).await;
            let jobs = page["deliveries"].as_array().expect("a list").iter().map(|delivery| &delivery["job_id"]);
            listed += jobs.filter(|job| job.as_str().is_some_and(|job| job.starts_with("burst"))).count();
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            fields["cursor"] = json!(cursor);
        }
        unlisted.set(Some(expected.saturating_sub(listed)));
    }

    /// The number of unhandled events.
    async fn waiting_events(&self) -> usize {
        use aws_sdk_sqs::types::QueueAttributeName::{
            ApproximateNumberOfMessages as Visible, ApproximateNumberOfMessagesNotVisible as Received,
        };
        let call = self.service.sqs.get_queue_attributes().queue_url(self.service.job_events());
        let answer = call.attribute_names(Visible).attribute_names(Received).send().await.expect("an answer");
        let counts = answer.attributes.expect("attributes").into_values();
        counts.map(|count| count.parse::<usize>().expect("a number")).sum()
    }

    /// Every second, counts B's deliveries without an attempt, and returns the maximum.
    async fn watch(&self, untried: &Cell<usize>) {
        loop {
            sleep(Duration::from_secs(1)).await;
            self.look(untried).await;
        }
    }

    async fn look(&self, untried: &Cell<usize>) {
        let fields = json!({"status": "pending", "limit": 100});
        let listed = self.service.rpc(&self.known, "deliveries/list", fields).await;
        let pending = listed["deliveries"].as_array().expect("a list").iter();
        untried.set(untried.get().max(pending.filter(|delivery| delivery["attempts"] == 0).count()));
    }

    fn job(&self, part: &str) -> (usize, String) {
        let number = self.jobs.replace(self.jobs.get() + 1);
        (number, format!("{part}-{number}"))
    }

    /// An event for a healthy endpoint.
    fn of(&self, tenant: &Tenant, path: &'static str, part: &str) -> Message {
        let (_, job) = self.job(part);
        Message { path: Some(path), body: event(&tenant.id, &job).to_string(), job }
    }

    /// An event for H alone, as long as its tenant has no other endpoints.
    fn well(&self, part: &str) -> impl Iterator<Item = Message> {
        self.bad.first().map(|tenant| self.of(tenant, H, part)).into_iter()
    }

    /// An event from one of the bad tenants, for all its endpoints or for a callback.
    fn bad(&self, tenant: usize, part: &str) -> Message {
        let id = &self.bad[tenant].id;
        let (callback_number, job) = self.job(part);
        if self.calls_back {
            let url = self.receivers.callback(callback_number);
            return Message { path: None, body: callback(id, &job, url).to_string(), job };
        }
        Message { path: (tenant == 0).then_some(H), body: event(id, &job).to_string(), job }
    }

    async fn send(&self, messages: Vec<Message>) {
        let calls = stream::iter(messages.chunks(10)).map(async |messages| {
            let bodies: Vec<_> = messages.iter().map(|message| message.body.clone()).collect();
            let at = Instant::now();
            let sent = messages.iter().filter_map(|Message { path, job, .. }| Some((*path.as_ref()?, job.clone())));
            self.sent.borrow_mut().extend(sent.map(|(path, job)| Sent { path, job, at }));
            self.service.send(&bodies).await;
        });
        calls.buffer_unordered(SENDERS).collect::<()>().await;
    }

    /// Whether all events that healthy receivers expect have arrived.
    fn have_arrived(&self) -> bool {
        self.sent.borrow().iter().all(|sent| self.receivers.arrival(sent.path, &sent.job).is_some())
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "the warm-up does not end");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The time from sending to arrival for each event to this path whose job id has this prefix.
    fn latencies(&self, path: &str, part: &str) -> Latencies {
        let sent = self.sent.borrow();
        let sent = sent.iter().filter(|sent| sent.path == path && sent.job.starts_with(part));
        Latencies::new(sent.map(|sent| Some(self.receivers.arrival(path, &sent.job)? - sent.at)))
    }
}
