//! Job events, as producers send them and as Lambda delivers them.

use serde_json::{Value, json};

/// A `job.completed` event for this tenant.
#[must_use]
pub fn event(tenant: &str, job: impl ToString) -> Value {
    json!({"event": "job.completed", "tenant_id": tenant, "job_id": job.to_string()})
}

/// A `job.completed` event for a job with a callback at `url`.
#[must_use]
pub fn callback(tenant: &str, job: impl ToString, url: impl Into<String>) -> Value {
    let mut event = event(tenant, job);
    event["callback_url"] = json!(url.into());
    event["callback_secret"] = json!("s");
    event
}

/// The event that Lambda passes to the function for these messages from the job-events queue.
#[must_use]
pub fn records<T: ToString>(bodies: impl IntoIterator<Item = T>) -> Value {
    let records = bodies.into_iter().enumerate().map(|(number, body)| {
        json!({
            "messageId": number.to_string(), "receiptHandle": "r", "body": body.to_string(), "attributes": {},
            "messageAttributes": {}, "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:job-events",
        })
    });
    json!({"Records": records.collect::<Vec<_>>()})
}
