//! What is seen from outside: one log line for each attempt and for whatever ends a delivery, and metrics.
//! Never a URL, which may hold a credential, a body or a secret.

use std::time::Duration;

use common::{
    error::Error,
    id::TenantId,
    metrics::{self, Metric},
};

use crate::{
    Undone,
    delivery::Delivery,
    schedule::{Failure, Outcome},
};

fn counted(name: &'static str) -> Metric {
    Metric { name, unit: "Count", value: 1.0 }
}

fn milliseconds(name: &'static str, value: f64) -> Metric {
    Metric { name, unit: "Milliseconds", value }
}

/// An attempt that took `duration` and ended `now`.
pub(crate) fn attempt(delivery: &Delivery, outcome: Outcome, duration: Duration, now: jiff::Timestamp) {
    let (result, status) = match outcome {
        Outcome::Delivered(status) => ("delivered", status),
        Outcome::Failed(Failure::Status(status, wait)) => (Failure::Status(status, wait).reason(), status),
        Outcome::Failed(failure) => (failure.reason(), 0),
    };
    let duration_ms = duration.as_secs_f64() * 1e3;
    tracing::info!(
        tenant = %delivery.tenant,
        endpoint = delivery.destination_name(),
        webhook_id = delivery.webhook_id,
        event = delivery.event.as_str(),
        attempt = delivery.attempts,
        outcome = result,
        status,
        duration_ms,
        "attempt"
    );
    let mut values = vec![counted("Attempts"), milliseconds("AttemptLatency", duration_ms)];
    match outcome {
        Outcome::Delivered(_) => {
            values.push(counted("Delivered"));
            let age = delivery.event_at.map(|time| now.as_millisecond().saturating_sub(time).max(0));
            #[expect(clippy::cast_precision_loss, reason = "an age in milliseconds is far below 2^52")]
            values.extend(age.map(|age| milliseconds("AgeAtDelivery", age as f64)));
            metrics::emit(&values, &[]);
        }
        Outcome::Failed(failure) => {
            values.push(counted("Failed"));
            metrics::emit(&values, &[("Reason", failure.reason())]);
        }
    }
}

/// A delivery that went to the dead-letter queue.
pub(crate) fn dead(delivery: &Delivery, failure: Failure) {
    tracing::warn!(
        tenant = %delivery.tenant,
        endpoint = delivery.destination_name(),
        webhook_id = delivery.webhook_id,
        attempts = delivery.attempts,
        reason = failure.reason(),
        "delivery dead"
    );
    metrics::emit(&[counted("Dead")], &[("Reason", failure.reason())]);
}

/// A delivery whose endpoint was deleted or made inactive meanwhile.
pub(crate) fn ended(delivery: &Delivery) {
    tracing::info!(
        tenant = %delivery.tenant,
        endpoint = delivery.destination_name(),
        webhook_id = delivery.webhook_id,
        attempts = delivery.attempts,
        "delivery ended: the endpoint is gone or inactive"
    );
}

/// A tenant whose endpoints could not be read.
pub(crate) fn unread(tenant: &TenantId, error: &Error) {
    tracing::error!(%tenant, ?error, "the endpoints could not be read");
}

/// A record that stays in its queue.
pub(crate) fn undone(message_id: &str, undone: &Undone) {
    match undone {
        Undone::Malformed(malformed) => {
            tracing::error!(message_id, problem = %malformed, "the message is malformed");
            metrics::count("Malformed");
        }
        Undone::Failed(Error::Internal(cause)) => tracing::error!(message_id, cause, "the record was not handled"),
        Undone::Failed(error) => tracing::warn!(message_id, ?error, "the record was not handled"),
    }
}
