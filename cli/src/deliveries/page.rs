//! Deliveries as they are listed, page by page.

use serde_json::{Map, Value, json};

use crate::{
    api::Api,
    args::{List, Status},
    clock,
    failure::Failure,
    terminal::cell,
};

/// The most that a call lists.
pub(super) const PAGE: usize = 100;

/// The fields that choose what is listed.
pub(super) fn filter(list: &List) -> Map<String, Value> {
    let fields = [
        ("webhook_endpoint_id", list.endpoint.as_deref()),
        ("status", list.status.map(Status::name)),
        ("event", list.event.as_deref()),
        ("job_id", list.job.as_deref()),
        ("since", list.since.as_deref()),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect()
}

/// The newest deliveries, up to so many, and the cursor of what follows. A page may be empty while there is more.
pub(super) async fn listed(
    api: &Api,
    mut fields: Map<String, Value>,
    limit: usize,
) -> Result<(Vec<Value>, Option<Value>), Failure> {
    let mut deliveries = Vec::new();
    loop {
        fields.insert("limit".to_owned(), json!(limit.saturating_sub(deliveries.len()).clamp(1, PAGE)));
        let answer = api.call("deliveries/list", fields.clone().into()).await?;
        deliveries.extend(answer["deliveries"].as_array().cloned().unwrap_or_default());
        let cursor = Some(answer["next_cursor"].clone()).filter(|cursor| !cursor.is_null());
        match cursor {
            Some(cursor) if deliveries.len() < limit => drop(fields.insert("cursor".to_owned(), cursor)),
            cursor => return Ok((deliveries, cursor)),
        }
    }
}

/// The cells of a delivery.
pub(super) fn row(delivery: &Value) -> Vec<String> {
    let last = &delivery["last_attempt"];
    let attempt = match (&last["outcome"], &last["status_code"]) {
        (Value::Null, _) => String::new(),
        (outcome, Value::Null) => cell(outcome),
        (outcome, status) => format!("{} ({})", cell(outcome), cell(status)),
    };
    vec![
        clock::short(&cell(&delivery["created_at"])),
        cell(&delivery["status"]),
        cell(&delivery["event"]),
        cell(&delivery["job_id"]),
        attempt,
        cell(&delivery["delivery_id"]),
    ]
}
