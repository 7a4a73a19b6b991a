//! The results of tools: JSON, short enough for a model's context.

use api::{Timestamp, deliveries::Delivery};
use rmcp::model::{ContentBlock, IntoContents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::Error};
use serde_json::{Value, json};
use text::Untrusted;

use crate::{args::since, failure::Failure};

/// The maximum number of characters of a payload, and of a failure.
const PAYLOAD: usize = 4000;
const FAILURE: usize = 2000;

/// A result, without terminal control characters, because some programs print it.
pub(super) struct ToolResult(String);

impl ToolResult {
    pub(super) fn json(value: &impl Serialize) -> Result<Self, Failure> {
        let json = serde_json::to_string(value).map_err(std::io::Error::from)?;
        Ok(Self(Untrusted::new(&json).terminal_json().into_owned()))
    }

    pub(super) fn text(lines: &[String]) -> Self {
        Self(lines.join("\n"))
    }
}

impl IntoContents for ToolResult {
    fn into_contents(self) -> Vec<ContentBlock> {
        vec![ContentBlock::text(self.0)]
    }
}

/// A failed call is a result as well, so the model can correct its arguments.
impl IntoContents for Failure {
    fn into_contents(self) -> Vec<ContentBlock> {
        let hint = self.remedy().map_or_else(String::new, |hint| format!(" {hint}"));
        vec![ContentBlock::text(format!("{self}{hint}").chars().take(FAILURE).collect::<String>())]
    }
}

/// A point in time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(super) struct Since(#[schemars(with = "String")] pub(super) Timestamp);

impl<'de> Deserialize<'de> for Since {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        since(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

/// A delivery in a list: without the response and the details of the last attempt.
pub(super) fn brief(delivery: &Delivery) -> Value {
    let Delivery { delivery_id, webhook_endpoint_id, event, job_id, workflow, status, attempts, created_at, .. } =
        delivery;
    let last = delivery.last_attempt.as_ref();
    json!({
        "delivery_id": delivery_id,
        "endpoint": webhook_endpoint_id.as_ref().map_or("callback", |id| id.as_str()),
        "event": event,
        "job_id": job_id,
        "workflow": workflow,
        "status": status,
        "attempts": attempts,
        "created_at": created_at,
        "next_attempt_at": delivery.next_attempt_at,
        "last_outcome": last.map(|last| &last.outcome),
        "last_status_code": last.and_then(|last| last.status_code),
    })
}

/// The beginning of a payload, and its length in characters.
pub(super) fn payload(payload: &str) -> Value {
    let (text, length) = (payload.chars().take(PAYLOAD).collect::<String>(), payload.chars().count());
    json!({ "text": text, "is_whole": length <= PAYLOAD, "characters": length })
}
