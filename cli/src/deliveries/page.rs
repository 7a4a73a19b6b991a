//! Reads the list of deliveries page by page.

use serde_json::{Map, Value, json};

use crate::{
    api::Api,
    args::{List, Status},
    clock,
    failure::Failure,
    terminal::cell,
};

/// The largest page of the API.
pub(super) const PAGE: usize = 100;

/// The fields of `deliveries/list` for these options.
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

/// The newest deliveries, at most `limit`, and the cursor of the next page. A page may be empty although more follow.
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

/// A delivery as a row of the table.
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
