//! Logs and metrics of attempts and records. Log lines never contain bodies, secrets or URLs; a URL may contain a
//! credential.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use common::{
    error::Error,
    id::TenantId,
    lock::lock,
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Detail, Outcome},
        endpoints::Gate,
        event::{EventName, TraceParent},
    },
};

use crate::{
    due_deliveries::{DueDelivery, EndedAttempt},
    record::RecordError,
};

/// The results of a batch's attempts. Each attempt is logged immediately, but metrics are emitted once per batch,
/// because one document per attempt costs more than signing its request. If a process dies, the metrics of its batch
/// are lost.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    latencies: Vec<f64>,
    ages: Vec<f64>,
    /// The number of attempts made at once.
    at_once: usize,
    /// By metric, dimension and value: the other attempts, and the failed ones.
    by_dimension: BTreeMap<(&'static str, &'static str, &'static str), usize>,
    usage: HashMap<TenantId, Usage>,
}

/// An organization's use of the service, not counting tests of endpoints.
#[derive(Clone, Copy, Default)]
struct Usage {
    events: u32,
    deliveries: u32,
    attempts: u32,
}

impl Tally {
    /// Logs and counts an attempt that has just ended.
    pub(crate) fn attempt(&self, due: &DueDelivery, made: &Attempt, outcome: Outcome, took: Duration) {
        let DueDelivery { tenant, delivery, payload, .. } = due;
        // If the receiver answered, the detail may contain a URL: the target of a redirect.
        let detail = made.detail.as_ref().filter(|_| made.status_code.is_none()).map(Detail::as_str);
        let duration_ms = milliseconds(took);
        common::log!(
            "attempt.completed",
            tenant = tenant.as_str(),
            delivery_id = %delivery.id,
            event = delivery.event.as_str(),
            attempt = delivery.attempts + 1,
            outcome = &*made.outcome,
            status = made.status_code.unwrap_or_default(),
            detail,
            duration_ms,
            traceparent = payload.trace.as_ref().map(TraceParent::as_str),
        );
        let mut counts = lock(&self.0);
        counts.latencies.push(duration_ms);
        match standing(due.gate) {
            None => counts.at_once += 1,
            Some(standing) => counts.add("Attempts", "Standing", standing),
        }
        if delivery.event != EventName::Test {
            counts.usage_of(tenant).attempts += 1;
        }
        match outcome {
            Outcome::Delivered(_) => counts.ages.push(milliseconds(Timestamp::now().since(delivery.created_at))),
            Outcome::Failed(failure) => counts.add("Failed", "Reason", failure.reason()),
        }
    }

    /// Counts an event that has new deliveries. The event of a redelivered record was counted before.
    pub(crate) fn event(&self, tenant: &TenantId, is_new: bool, deliveries: usize) {
        if deliveries == 0 {
            return;
        }
        let mut counts = lock(&self.0);
        let usage = counts.usage_of(tenant);
        usage.events += u32::from(is_new);
        usage.deliveries += u32::try_from(deliveries).unwrap_or(u32::MAX);
    }

    pub(crate) fn emit(self) {
        let counts = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Counts { latencies, ages, at_once, by_dimension, usage } = counts;
        for (tenant, Usage { events, deliveries, attempts }) in usage {
            common::log!("usage.recorded", %tenant, events, deliveries, attempts);
        }
        // The samples with a dimension are also part of the total. A sample of zero is omitted to save its cost.
        for ((name, dimension, value), number) in by_dimension {
            metrics::emit(&[Metric::count(name, number)], &[(dimension, value)]);
        }
        if !latencies.is_empty() {
            let mut all = vec![
                Metric::count("Delivered", ages.len()),
                Metric { name: "AttemptLatency", unit: "Milliseconds", values: latencies },
                Metric { name: "AgeAtDelivery", unit: "Milliseconds", values: ages },
            ];
            all.extend((at_once > 0).then(|| Metric::count("Attempts", at_once)));
            metrics::emit(&all, &[]);
        }
    }
}

impl Counts {
    fn add(&mut self, metric: &'static str, dimension: &'static str, value: &'static str) {
        *self.by_dimension.entry((metric, dimension, value)).or_default() += 1;
    }

    fn usage_of(&mut self, tenant: &TenantId) -> &mut Usage {
        self.usage.entry(tenant.clone()).or_default()
    }
}

/// Converts a duration to milliseconds, rounded to microseconds.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Counts parked attempts by their receivers' standing.
pub(crate) fn parked<'a>(ended: impl Iterator<Item = &'a EndedAttempt>) {
    let mut counts = BTreeMap::<_, usize>::new();
    for ended in ended.filter(|ended| matches!(ended.result, AttemptResult::Parked)) {
        *counts.entry(standing(ended.due.gate).unwrap_or("quick")).or_default() += 1;
    }
    for (standing, number) in counts {
        metrics::emit(&[Metric::count("Parked", number)], &[("Standing", standing)]);
    }
}

/// The standing of a receiver whose gate is not open.
fn standing(gate: Gate) -> Option<&'static str> {
    match gate {
        Gate::Quick { .. } => None,
        Gate::New => Some("new"),
        Gate::Late { .. } => Some("late"),
        Gate::Silent { .. } => Some("silent"),
    }
}

/// Logs a record that stays in its queue, and counts it if it is malformed.
pub(crate) fn failed_record(message_id: &str, error: &RecordError) {
    match error {
        RecordError::Malformed(malformed) => {
            common::log!("message.malformed", message_id, problem = %malformed);
            metrics::count("Malformed");
        }
        RecordError::Failed(Error::Internal(cause)) => common::log!("record.failed", message_id, cause),
        RecordError::Failed(error) => common::log!("record.postponed", message_id, ?error),
        RecordError::Panicked(panic) => common::log!("record.panicked", message_id, panic = message(panic.as_ref())),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref().map(String::as_str)).unwrap_or("no text")
}
