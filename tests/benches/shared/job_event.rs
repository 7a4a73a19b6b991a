//! Job events of a given size, whose results compress like typical data.

use serde_json::{Value, json};

/// A one-kilobyte job event.
pub(crate) fn job_event(tenant: &str, job: usize) -> Value {
    job_event_of(1024, tenant, job)
}

/// A job event of this size in bytes. The result consists of words, ids, numbers and times, so it compresses like
/// typical data.
pub(crate) fn job_event_of(bytes: usize, tenant: &str, job: usize) -> Value {
    const WORDS: [&str; 16] = [
        "invoice",
        "customer",
        "imported",
        "order",
        "pending",
        "address",
        "refund",
        "shipment",
        "quarter",
        "account",
        "updated",
        "balance",
        "supplier",
        "warehouse",
        "currency",
        "duplicate",
    ];
    let mut random = fastrand::Rng::with_seed(u64::try_from(job).expect("a small number"));
    let mut words = |number: usize| {
        let words: Vec<_> = (0..number).map(|_| WORDS[random.usize(..WORDS.len())]).collect();
        (words.join(" "), random.u64(..), random.u32(..1_000_000))
    };
    let mut event = json!({
        "event": "job.completed", "tenant_id": tenant, "job_id": format!("job-{job}"), "workflow": "import",
        "status": "completed", "result": {"note": "", "rows": []},
    });
    let mut left = bytes.saturating_sub(event.to_string().len());
    let mut rows = Vec::new();
    loop {
        let (text, id, amount) = words(3);
        let row = json!({
            "id": format!("{id:016x}"), "label": text, "amount": f64::from(amount) / 100.0,
            "at": format!("2026-11-{:02}T{:02}:{:02}:07.{:03}Z", id % 28 + 1, id % 24, id % 60, amount % 1000),
        });
        let Some(rest) = left.checked_sub(row.to_string().len() + 1) else { break };
        left = rest;
        rows.push(row);
    }
    event["result"]["rows"] = Value::Array(rows);
    event["result"]["note"] = words(left).0.chars().take(left).collect::<String>().into();
    event
}
