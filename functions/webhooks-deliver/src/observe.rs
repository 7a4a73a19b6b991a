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
    id::{EndpointId, TenantId},
    telemetry::metrics::{self, Metric},
    timestamp::Timestamp,
    webhooks::{
        delivery::{AttemptResult, Detail, Failure, Outcome, Queue},
        event::{EventName, TraceParent},
    },
};

use crate::{
    outgoing::{Due, Ended},
    record::Undone,
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
    delivered: u32,
    /// The numbers of attempts in the queues for slow and for hanging receivers.
    slow: u32,
    hanging: u32,
    cut: u32,
    failed: BTreeMap<&'static str, u32>,
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
    pub(crate) fn attempt(&self, due: &Due, outcome: Outcome, detail: Option<&Detail>, took: Duration, queue: Queue) {
        let Due { tenant, delivery, payload, .. } = due;
        let (result, status) = match outcome {
            Outcome::Delivered(status) => ("delivered", status),
            Outcome::Failed(Failure::Status(status, wait)) => (Failure::Status(status, wait).reason(), status),
            Outcome::Failed(failure) => (failure.reason(), 0),
        };
        // If the receiver answered, the detail may contain a URL: the target of a redirect.
        let detail = detail.filter(|_| status == 0).map(Detail::as_str);
        let duration_ms = milliseconds_of(took);
        common::log!(
            "attempt.completed",
            tenant = tenant.as_str(),
            delivery_id = %delivery.id,
            event = delivery.event.as_str(),
            attempt = delivery.attempts + 1,
            outcome = result,
            status,
            detail,
            duration_ms,
            traceparent = payload.trace.as_ref().map(TraceParent::as_str),
        );
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.latencies.push(duration_ms);
        counts.slow += u32::from(queue == Queue::Slow);
        counts.hanging += u32::from(queue == Queue::Hanging);
        if delivery.event != EventName::Test {
            counts.usage_of(tenant).attempts += 1;
        }
        match outcome {
            Outcome::Delivered(_) => {
                counts.delivered += 1;
                counts.ages.push(milliseconds_of(Timestamp::now().since(delivery.created_at)));
            }
            Outcome::Failed(failure) => *counts.failed.entry(failure.reason()).or_default() += 1,
        }
    }

    /// Logs and counts an attempt that was cut off. The receiver may have handled the request, and gets it again with
    /// more time.
    pub(crate) fn cut(&self, Due { tenant, delivery, .. }: &Due) {
        common::log!(
            "attempt.cut_off",
            tenant = tenant.as_str(),
            delivery_id = %delivery.id,
            event = delivery.event.as_str(),
            attempt = delivery.attempts + 1,
        );
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cut += 1;
    }

    /// Counts an event with its new deliveries. The event of a redelivered record was counted before.
    pub(crate) fn event(&self, tenant: &TenantId, is_new: bool, deliveries: usize) {
        if !is_new && deliveries == 0 {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = counts.usage_of(tenant);
        usage.events += u32::from(is_new);
        usage.deliveries += u32::try_from(deliveries).unwrap_or(u32::MAX);
    }

    pub(crate) fn emit(self) {
        let counts = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Counts { latencies, ages, delivered, slow, hanging, cut, failed, usage } = counts;
        for (tenant, Usage { events, deliveries, attempts }) in usage {
            common::log!("usage.recorded", %tenant, events, deliveries, attempts);
        }
        if cut > 0 {
            metrics::emit(&[counted("CutOff", cut.into())], &[]);
        }
        for (queue, number) in [(Queue::Slow, slow), (Queue::Hanging, hanging)] {
            if number > 0 {
                metrics::emit(&[counted("Attempts", number.into())], &[("Standing", queue.as_str())]);
            }
        }
        if latencies.is_empty() {
            return;
        }
        // The samples for slow and hanging receivers are also part of the total. A sample of zero is omitted to save
        // its cost.
        #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^52 attempts")]
        let others = latencies.len() as f64 - f64::from(slow) - f64::from(hanging);
        let others = (others > 0.0).then_some(others).into_iter().collect();
        let attempts = Metric { name: "Attempts", unit: "Count", values: others };
        let delivered = counted("Delivered", delivered.into());
        metrics::emit(
            &[attempts, milliseconds("AttemptLatency", latencies), delivered, milliseconds("AgeAtDelivery", ages)],
            &[],
        );
        for (reason, number) in failed {
            metrics::emit(&[counted("Failed", number.into())], &[("Reason", reason)]);
        }
    }
}

impl Counts {
    fn usage_of(&mut self, tenant: &TenantId) -> &mut Usage {
        self.usage.entry(tenant.clone()).or_default()
    }
}

fn counted(name: &'static str, number: f64) -> Metric {
    Metric { name, unit: "Count", values: vec![number] }
}

/// Converts a duration to milliseconds, rounded to microseconds.
fn milliseconds_of(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn milliseconds(name: &'static str, values: Vec<f64>) -> Metric {
    Metric { name, unit: "Milliseconds", values }
}

/// Logs that an endpoint's item could not be updated with its receiver's health.
pub(crate) fn not_noted(tenant: &TenantId, endpoint: EndpointId, error: &Error) {
    common::log!("endpoint.health_unnoted", %tenant, %endpoint, ?error);
}

/// Counts postponed attempts by the queue of their messages.
pub(crate) fn postponed<'a>(ended: impl Iterator<Item = &'a Ended>) {
    let postponed = ended.filter(|ended| matches!(ended.result, AttemptResult::Postponed(_)));
    let mut counts = BTreeMap::<Queue, u32>::new();
    for ended in postponed {
        *counts.entry(ended.queue).or_default() += 1;
    }
    for (queue, number) in counts {
        metrics::emit(&[counted("Postponed", number.into())], &[("Standing", queue.as_str())]);
    }
}

/// Logs a record that stays in its queue, and counts it if it is malformed.
pub(crate) fn undone(message_id: &str, undone: &Undone) {
    match undone {
        Undone::Malformed(malformed) => {
            common::log!("message.malformed", message_id, problem = %malformed);
            metrics::count("Malformed");
        }
        Undone::Failed(Error::Internal(cause)) => common::log!("record.failed", message_id, cause),
        Undone::Failed(error) => common::log!("record.postponed", message_id, ?error),
        Undone::Panicked(panic) => {
            common::log!("record.panicked", message_id, panic = message(panic.as_ref()));
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref().map(String::as_str)).unwrap_or("no text")
}
