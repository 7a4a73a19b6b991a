//! A round of one service.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{
    job_event::job_event,
    receiver::Receiver,
    side::{ENDPOINTS, Side},
};

/// The callers that wait for each response.
const CALLERS: usize = 16;
/// The time between two events in the measurement of delays.
const PERIOD: Duration = Duration::from_millis(10);
/// The time between two events that fan out.
const PAUSE: Duration = Duration::from_millis(150);

/// The figures of a round, with their units.
pub(crate) const FIGURES: [(&str, &str); 9] = [
    ("CPU of 1,000 deliveries", "s"),
    ("the same, ten events per call", "s"),
    ("deliveries, 16 callers", "per s"),
    ("CPU of an event to 100 endpoints", "ms"),
    ("the same, wall time to the last", "ms"),
    ("p99, acceptance to arrival", "ms"),
    ("p99, start of the call to arrival", "ms"),
    ("median, start of the call to arrival", "ms"),
    ("memory", "MiB"),
];

/// The values of [`FIGURES`].
pub(crate) type Figures = [f64; FIGURES.len()];

impl Side {
    /// A round with this number of events to one endpoint.
    pub(crate) async fn round(&mut self, receiver: &Receiver, events: usize) -> Figures {
        let (single, rate) = self.burst(receiver, events, 1).await;
        let batches = if self.has_batches() { self.burst(receiver, events, 10).await.0 } else { single };
        let [accepted, started, median] = self.delays(receiver, events * 2 / 5).await;
        let (fan_out, wall) = self.fan_out(receiver, events / 50).await;
        [single, batches, rate, fan_out, wall, accepted, started, median, self.memory()]
    }

    /// Events of the next jobs.
    fn events(&mut self, organization: &str, count: usize) -> Vec<String> {
        let jobs = self.next..self.next + count;
        self.next = jobs.end;
        jobs.map(|job| job_event(organization, job).to_string()).collect()
    }

    /// The CPU time of a thousand deliveries to one endpoint, and the rate until the last one arrives.
    async fn burst(&mut self, receiver: &Receiver, events: usize, per_call: usize) -> (f64, f64) {
        let one = self.one.clone();
        let events = self.events(&one, events);
        let (before, started) = (self.cpu().await, Instant::now());
        let send = stream::iter(events.chunks(per_call));
        send.for_each_concurrent(CALLERS, |events| self.send(&one, events)).await;
        let arrivals = receiver.wait(events.len()).await;
        self.delivered += arrivals.len();
        let last = arrivals.iter().map(|(_, at)| *at).max().expect("an arrival");
        let cpu = self.cpu().await - before;
        let count = events.len() as f64;
        (cpu / count * 1e3, count / (last - started).as_secs_f64())
    }

    /// The delays of events at a moderate rate, in milliseconds: the 99th percentile of those from a response to the
    /// arrival, and the 99th and 50th of those from the start of the call.
    async fn delays(&mut self, receiver: &Receiver, events: usize) -> [f64; 3] {
        let (one, first) = (self.one.clone(), self.next);
        let events = self.events(&one, events);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let ticks = stream::unfold(ticks, |mut ticks| async {
            ticks.tick().await;
            Some(((), ticks))
        });
        let (this, one) = (&*self, &one);
        let calls = ticks.zip(stream::iter(&events)).map(|((), event)| async move {
            let started = Instant::now();
            this.send(one, std::slice::from_ref(event)).await;
            (started, Instant::now())
        });
        // The calls stay in order, and more of them are made at once than ever wait.
        let calls: Vec<_> = calls.buffered(1_000).collect().await;
        let arrivals = receiver.wait(events.len()).await;
        self.delivered += arrivals.len();
        let (mut accepted, mut started): (Vec<_>, Vec<_>) = arrivals
            .into_iter()
            .map(|(job, at)| {
                let (start, acceptance) = calls[job - first];
                // An event can arrive before the response of its call.
                (at.saturating_duration_since(acceptance), at.saturating_duration_since(start))
            })
            .unzip();
        accepted.sort();
        started.sort();
        let of = |delays: &[Duration], percent: usize| delays[delays.len() * percent / 100].as_secs_f64() * 1e3;
        [of(&accepted, 99), of(&started, 99), of(&started, 50)]
    }

    /// The CPU time and the median wall time of an event to all endpoints, in milliseconds.
    async fn fan_out(&mut self, receiver: &Receiver, events: usize) -> (f64, f64) {
        let hundred = self.hundred.clone();
        let events = self.events(&hundred, events);
        let before = self.cpu().await;
        let mut times = Vec::new();
        for event in &events {
            let started = Instant::now();
            self.send(&hundred, std::slice::from_ref(event)).await;
            let arrivals = receiver.wait(ENDPOINTS).await;
            self.delivered += ENDPOINTS;
            let last = arrivals.iter().map(|(_, at)| *at).max().expect("an arrival");
            times.push((last - started).as_secs_f64() * 1e3);
            sleep(PAUSE).await;
        }
        let cpu = self.cpu().await - before;
        times.sort_by(f64::total_cmp);
        (cpu / events.len() as f64 * 1e3, times[times.len() / 2])
    }
}
