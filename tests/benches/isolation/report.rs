//! A run's result, as a table row, and whether it is within the bounds.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

use crate::{receivers::Endpoint, scenario::Scenario};

/// The result of a run.
pub(crate) struct Outcome {
    /// The delays of B's events during the burst.
    pub(crate) burst: Latencies,
    /// The delays of B's events after the burst.
    pub(crate) after: Latencies,
    /// The delays of S's events during the burst.
    pub(crate) slow: Latencies,
    /// The number of the first bad tenant's deliveries that were not in its log, if they were counted.
    pub(crate) unlisted: Option<usize>,
    /// The delay of N's only event.
    pub(crate) new: Latencies,
    /// The delays of H's events.
    pub(crate) good: Latencies,
    /// The maximum number of B's deliveries that were pending without an attempt.
    pub(crate) untried: usize,
    /// The cost of the bad tenants.
    pub(crate) cost: Cost,
}

/// The delays in seconds from sending to arrival, in ascending order; infinite for events that have not arrived.
pub(crate) struct Latencies(Vec<f64>);

/// The cost of a run. Requests and invocations are counted from the service's start, and CPU time from the burst.
pub(crate) struct Cost {
    posts: usize,
    done: usize,
    repeats: usize,
    sqs: u64,
    dynamodb: u64,
    invocations: u64,
    cpu: f64,
}

impl Latencies {
    pub(crate) fn new(latencies: impl Iterator<Item = Option<Duration>>) -> Self {
        let seconds = latencies.map(|latency| latency.map_or(f64::INFINITY, |latency| latency.as_secs_f64()));
        Self(seconds.collect()).sorted()
    }

    /// The union of two sets of delays.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self.sorted()
    }

    fn sorted(mut self) -> Self {
        self.0.sort_by(f64::total_cmp);
        self
    }

    /// The result is zero if there are no delays.
    fn percentile(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }

    fn missing(&self) -> usize {
        self.0.iter().filter(|seconds| seconds.is_infinite()).count()
    }

    fn cell(&self, percent: usize) -> String {
        match self.percentile(percent) {
            _ if self.0.is_empty() => "-".to_owned(),
            never if never.is_infinite() => "never".to_owned(),
            seconds => format!("{seconds:.2}"),
        }
    }
}

impl Cost {
    /// Computes the cost from the bad receivers' counts, the service's final report, and its CPU seconds.
    pub(crate) fn new(bad: &HashMap<String, Endpoint>, work: &Value, cpu: f64) -> Self {
        let number = |pointer: &str| work.pointer(pointer).and_then(Value::as_u64).expect("a number");
        let sum = |count: fn(&Endpoint) -> usize| bad.values().map(count).sum();
        Self {
            posts: sum(|endpoint| endpoint.requests),
            done: sum(|endpoint| endpoint.done.len()),
            repeats: sum(|endpoint| endpoint.requests - endpoint.ids.len()),
            sqs: number("/requests/sqs"),
            dynamodb: number("/requests/dynamodb"),
            invocations: number("/invocations/webhooks-deliver"),
            cpu,
        }
    }
}

/// The table header.
pub(crate) const HEAD: &str = "\
| run | B in the burst: p50 | p99 | missing | B afterwards: p50 | p99 | missing | S: p50 | p99 | N | H: p99 | missing | untried | unlisted \
| POSTs | done | repeats | SQS | DynamoDB | invocations | CPU s | verdict |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|";

impl Outcome {
    /// Describes the bounds that the run exceeds. `absent` and `good` are its controls.
    pub(crate) fn broken(&self, scenario: Scenario, absent: &Self, good: &Self) -> Vec<&'static str> {
        let control = if scenario.mode.only_waits() { absent } else { good };
        let p99 = |latencies: &Latencies| latencies.percentile(99);
        let bounds = [
            ("burst", p99(&self.burst) <= p99(&control.burst) + 1.0),
            ("afterwards", p99(&self.after) <= p99(&control.after) + 0.5),
            ("missing", self.missing() == 0),
            (
                "S",
                self.slow.percentile(50) <= absent.slow.percentile(50) + 2.0
                    && p99(&self.slow) <= p99(&absent.slow) + 4.0,
            ),
            ("unlisted", self.unlisted.is_none_or(|unlisted| unlisted == 0)),
            ("N", p99(&self.new) <= 3.0),
            ("H", p99(&self.good) <= p99(&good.good) + 2.0),
            ("untried", self.untried == 0),
            // In this case, the other bounds are meaningless, because the machine may have been busy with other work.
            ("control", [absent, good].iter().all(|control| control.missing() == 0)),
        ];
        bounds.into_iter().filter(|(_, holds)| !holds).map(|(name, _)| name).collect()
    }

    /// The number of B's events that did not arrive.
    fn missing(&self) -> usize {
        self.burst.missing() + self.after.missing()
    }

    /// A row of the table.
    pub(crate) fn row(&self, scenario: Scenario, verdict: &str) -> String {
        let Self { burst, after, slow, unlisted, new, good, untried, cost } = self;
        let all = |latencies: &Latencies| [latencies.cell(50), latencies.cell(99), latencies.missing().to_string()];
        let [_, good_p99, good_missing] = all(good);
        let cells = [scenario.to_string()].into_iter().chain(all(burst)).chain(all(after));
        let unlisted = unlisted.map_or_else(|| "-".to_owned(), |unlisted| unlisted.to_string());
        let cells = cells.chain([slow.cell(50), slow.cell(99)]);
        let cells = cells.chain([new.cell(99), good_p99, good_missing, untried.to_string(), unlisted]);
        let counts = [cost.posts, cost.done, cost.repeats].map(|count| count.to_string());
        let calls = [cost.sqs, cost.dynamodb, cost.invocations].map(|count| count.to_string());
        let cells = cells.chain(counts).chain(calls).chain([format!("{:.1}", cost.cpu), verdict.to_owned()]);
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    }
}
