//! The tools that change nothing.

use api::{
    Cursor,
    audit::{Action, List as ListChanges},
    deliveries::{Count, Get, List as ListDeliveries, Status},
    verification::Verify,
    webhooks::{Endpoint, EventName, List as ListEndpoints},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::{handler::server::wrapper::Parameters, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Number, json};

use super::{
    Server,
    answer::{Since, ToolResult, brief, payload},
    explanation::explained,
};
use crate::{args::EndpointQuery, audit, endpoints, failure::Failure, identity::identity, ids};

/// The maximum number of endpoints, deliveries, attempts and changes in a result.
const ENDPOINTS: usize = 50;
const DELIVERIES: usize = 50;
const ATTEMPTS: usize = 10;
const CHANGES: usize = 50;
/// The default number of deliveries and changes in a result.
const DEFAULT_PAGE_SIZE: usize = 20;

/// An endpoint.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfEndpoint {
    /// The id of the endpoint, or its unique beginning.
    endpoint: String,
}

/// A delivery.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfDelivery {
    /// The id of the delivery, its `webhook-id`, or the beginning of the hash in either.
    pub(super) delivery: String,
}

/// The deliveries to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sorted {
    /// Only deliveries to this endpoint: its id, or its unique beginning.
    endpoint: Option<String>,
    /// Only deliveries with this status. `failed`: no more attempts follow. `pending`: an attempt is due or scheduled.
    /// `held`: the endpoint is inactive, or it is a pull endpoint, and no client has received the delivery.
    status: Option<Status>,
    /// Only deliveries of this event.
    event: Option<EventName>,
    /// Only deliveries of the job with this id, at any age.
    job: Option<String>,
    /// Only deliveries of jobs of this workflow, by its exact name.
    workflow: Option<String>,
    /// Only deliveries whose last attempt had this outcome: `status_5xx`, `status_4xx`, `timeout`, `connect`, `dns`,
    /// `tls`, `redirect`, `gone`, `protocol`, `blocked`, `unanswered`, `untaken`, `status_other` or `delivered`.
    outcome: Option<String>,
    /// Only deliveries created since this time: an age such as 15m, 2h or 3d, or a time in RFC 3339.
    since: Option<Since>,
    /// Only deliveries created before this time.
    until: Option<Since>,
    /// The maximum number of deliveries, from 1 to 50. The default is 20.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous result, to continue it with the same filters.
    cursor: Option<Cursor>,
}

/// The deliveries to count.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Counted {
    /// Only deliveries to this endpoint: its id, or its unique beginning.
    endpoint: Option<String>,
    /// Only deliveries created since this time: an age such as 2h or 3d, or a time in RFC 3339. The default is one day
    /// ago.
    since: Option<Since>,
}

/// The changes to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Changes {
    /// Only this kind of change.
    action: Option<Action>,
    /// Only changes of the object with this id, such as an endpoint's.
    target: Option<String>,
    /// Only changes since this time: an age such as 2h or 3d, or a time in RFC 3339.
    since: Option<Since>,
    /// The maximum number of changes, from 1 to 50. The default is 20.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous result, to continue it with the same filters.
    cursor: Option<Cursor>,
}

/// A request as a receiver saw it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The endpoint that the request was sent to: its id, or its unique beginning. By default, the only endpoint.
    endpoint: Option<String>,
    /// The headers as the receiver saw them: lines of `name: value`, or the JSON that a program prints.
    headers: String,
    /// The body as the receiver saw it, byte for byte. Do not format it.
    body: String,
    /// The signature that the receiver's own code computed. With it, mistakes in that code are found, too.
    computed: Option<String>,
    /// The time that the receiver's clock showed: an age such as 10m, or a time in RFC 3339.
    received_at: Option<Since>,
}

/// Reads a whole number, which may be written as `5.0`: models and their frameworks do that, and it is an integer in JSON
/// Schema.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let written = number.to_string();
    let digits = written.strip_suffix(".0").unwrap_or(&written);
    digits.parse().map(Some).map_err(|_not_whole| D::Error::custom(format!("{written} is not a whole number")))
}

#[tool_router(router = reads, vis = "pub(super)")]
impl Server {
    /// Shows the organization, the user and the service that the other tools use.
    #[tool(annotations(title = "Show the organization", read_only_hint = true))]
    async fn whoami(&self) -> Result<ToolResult, Failure> {
        ToolResult::json(&identity(&self.api).await?)
    }

    /// Lists the webhook endpoints, up to 50: URL, events, and whether each is enabled, failing or disabled. An endpoint
    /// with `failing_since` accepts nothing. `active: false` means disabled: its deliveries are held.
    #[tool(annotations(title = "List endpoints", read_only_hint = true))]
    async fn list_endpoints(&self, Parameters(sought): Parameters<EndpointQuery>) -> Result<ToolResult, Failure> {
        let mut found = self.api.call(&ListEndpoints::new()).await?.webhook_endpoints;
        let all = found.len();
        found.retain(|endpoint| endpoints::is_meant(endpoint, &sought));
        let matching = found.len();
        // Failing and disabled ones first.
        found.sort_by_key(|endpoint| (endpoint.active && endpoint.failing_since.is_none(), !endpoint.active));
        found.truncate(ENDPOINTS);
        ToolResult::json(&json!({ "endpoints": found, "matching": matching, "all": all }))
    }

    /// Shows the settings and the state of one endpoint. Secrets and the values of headers are never shown.
    #[tool(annotations(title = "Show an endpoint", read_only_hint = true))]
    async fn get_endpoint(&self, Parameters(which): Parameters<OfEndpoint>) -> Result<ToolResult, Failure> {
        ToolResult::json(&ids::whole_endpoint(&self.api, &which.endpoint).await?)
    }

    /// Lists deliveries, newest first. Use it to find the deliveries of a job, or those that failed.
    #[tool(annotations(title = "List deliveries", read_only_hint = true))]
    async fn list_deliveries(&self, Parameters(sorted): Parameters<Sorted>) -> Result<ToolResult, Failure> {
        let Sorted { endpoint, status, event, job, workflow, outcome, since, until, limit, cursor } = sorted;
        let call = ListDeliveries {
            webhook_endpoint_id: ids::optional_endpoint(&self.api, endpoint.as_deref()).await?,
            status,
            event: event.map(|event| event.to_string()),
            job_id: job,
            workflow,
            outcome,
            since: since.map(|Since(since)| since),
            until: until.map(|Since(until)| until),
            cursor,
            ..ListDeliveries::new()
        };
        let found =
            crate::deliveries::listed(&self.api, call, limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, DELIVERIES)).await?;
        let deliveries: Vec<_> = found.deliveries.iter().map(brief).collect();
        ToolResult::json(&json!({ "deliveries": deliveries, "next_cursor": found.next_cursor }))
    }

    /// Shows a delivery with the beginning of its payload and its ten latest attempts, each with the receiver's response.
    #[tool(annotations(title = "Show a delivery", read_only_hint = true))]
    async fn get_delivery(&self, Parameters(which): Parameters<OfDelivery>) -> Result<ToolResult, Failure> {
        let found = self.api.call(&Get::new(ids::delivery(&self.api, &which.delivery).await?)).await?;
        let newest = found.attempts.get(found.attempts.len().saturating_sub(ATTEMPTS)..).unwrap_or_default();
        let payload = found.payload.as_deref().map(payload);
        ToolResult::json(&json!({ "delivery": brief(&found.delivery), "payload": payload, "latest_attempts": newest }))
    }

    /// Explains in words why a delivery failed, is pending or is held, when its next attempt is due, and what can be done.
    #[tool(annotations(title = "Explain a delivery", read_only_hint = true))]
    async fn explain_delivery(&self, Parameters(which): Parameters<OfDelivery>) -> Result<ToolResult, Failure> {
        let found = self.api.call(&Get::new(ids::delivery(&self.api, &which.delivery).await?)).await?;
        let endpoint = match &found.delivery.webhook_endpoint_id {
            Some(id) => self.endpoint(id.as_str()).await?,
            None => None,
        };
        Ok(ToolResult::text(&explained(&found, endpoint.as_ref())))
    }

    /// Finds out why a signature does not match: compares a request as the receiver saw it with the one that was sent.
    /// Names the cause, such as a body that was parsed and written again, and the first byte that differs.
    #[tool(annotations(title = "Verify a request", read_only_hint = true))]
    async fn verify_request(&self, Parameters(request): Parameters<Request>) -> Result<ToolResult, Failure> {
        let Request { endpoint, headers, body, computed, received_at } = request;
        let id = ids::endpoint_or_only(&self.api, endpoint.as_deref()).await?;
        let received_at = received_at.map(|Since(time)| time);
        let call = Verify { computed, received_at, ..Verify::new(id, headers, STANDARD.encode(body)) };
        ToolResult::json(&self.api.call(&call).await?)
    }

    /// Counts deliveries by status, and failures by reason, and shows the latest error and the progress of recoveries.
    /// `open` counts all deliveries that are pending, failed or held now, regardless of their age.
    #[tool(annotations(title = "Count deliveries", read_only_hint = true))]
    async fn delivery_stats(&self, Parameters(counted): Parameters<Counted>) -> Result<ToolResult, Failure> {
        let webhook_endpoint_id = ids::optional_endpoint(&self.api, counted.endpoint.as_deref()).await?;
        let call = Count { webhook_endpoint_id, since: counted.since.map(|Since(since)| since) };
        ToolResult::json(&self.api.call(&call).await?)
    }

    /// Lists the changes in the organization, newest first: who changed an endpoint, a key, a member or a setting, from
    /// what to what, and when. Only owners and organization keys may read them.
    #[tool(annotations(title = "List changes", read_only_hint = true))]
    async fn list_changes(&self, Parameters(which): Parameters<Changes>) -> Result<ToolResult, Failure> {
        let Changes { action, target, since, limit, cursor } = which;
        let limit = limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, CHANGES);
        let since = since.map(|Since(since)| since);
        let call = ListChanges { action, target, since, cursor, ..ListChanges::new() };
        ToolResult::json(&audit::listed(&self.api, call, limit).await?)
    }
}

impl Server {
    /// Finds an endpoint, unless it was deleted or the key may not read endpoints.
    async fn endpoint(&self, id: &str) -> Result<Option<Endpoint>, Failure> {
        match ids::whole_endpoint(&self.api, id).await {
            Ok(endpoint) => Ok(Some(endpoint)),
            Err(failure) if failure.is_not_found() || failure.is_forbidden() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
