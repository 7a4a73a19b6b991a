//! The tools that change something.

use api::{
    deliveries::{Missed, Recover, Resend},
    webhooks::{EventName, Test, Update},
};
use rmcp::{handler::server::wrapper::Parameters, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Server,
    answer::{Since, ToolResult},
    reads::OfDelivery,
};
use crate::{failure::Failure, ids};

/// The deliveries to resend.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Recovered {
    /// Only deliveries created since this time: an age such as 2h or 3d, or a time in RFC 3339.
    since: Since,
    /// Only deliveries created before this time. The default is now.
    until: Option<Since>,
    /// Only deliveries to this endpoint: its id, or its unique beginning. By default, to all active endpoints and to
    /// the callbacks of jobs.
    endpoint: Option<String>,
    /// The status of the deliveries to resend. The default is `both`: failed and held ones.
    status: Option<Missed>,
    /// Only deliveries whose last attempt had this outcome, such as `status_5xx`.
    outcome: Option<String>,
    /// Only deliveries of jobs of this workflow, by its exact name.
    workflow: Option<String>,
}

/// The endpoint to test.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tested {
    /// The id of the endpoint, or its unique beginning.
    endpoint: String,
    /// The event of which to send a sample. The default is `webhook.test`.
    event: Option<EventName>,
}

/// The endpoint to enable or disable.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Switched {
    /// The id of the endpoint, or its unique beginning.
    endpoint: String,
    /// `true` enables the endpoint. `false` disables it: its deliveries are held until it is enabled and they are
    /// recovered.
    active: bool,
}

#[tool_router(router = writes, vis = "pub(super)")]
impl Server {
    /// Sends a delivery again, with the same payload and `webhook-id`. `explain_delivery` shows the result a few seconds
    /// later.
    #[tool(annotations(title = "Resend a delivery", destructive_hint = false))]
    async fn resend_delivery(&self, Parameters(which): Parameters<OfDelivery>) -> Result<ToolResult, Failure> {
        ToolResult::json(&self.api.call(&Resend::new(ids::delivery(&self.api, &which.delivery).await?)).await?)
    }

    /// Resends all deliveries of a period that failed or were held, for instance after an outage of the receiver. Test the
    /// endpoint first. `delivery_stats` shows the progress.
    #[tool(annotations(title = "Recover deliveries", destructive_hint = false))]
    async fn recover_deliveries(&self, Parameters(which): Parameters<Recovered>) -> Result<ToolResult, Failure> {
        let Recovered { since: Since(since), until, endpoint, status, outcome, workflow } = which;
        let webhook_endpoint_id = ids::optional_endpoint(&self.api, endpoint.as_deref()).await?;
        let until = until.map(|Since(until)| until);
        let recover = Recover { webhook_endpoint_id, until, status, outcome, workflow, ..Recover::new(since) };
        ToolResult::json(&self.api.call(&recover).await?)
    }

    /// Sends a test event, or a sample of another event, to an endpoint. `explain_delivery` shows the result a few seconds
    /// later.
    #[tool(annotations(title = "Test an endpoint", destructive_hint = false))]
    async fn test_endpoint(
        &self,
        Parameters(Tested { endpoint, event }): Parameters<Tested>,
    ) -> Result<ToolResult, Failure> {
        let id = ids::endpoint(&self.api, &endpoint).await?;
        ToolResult::json(&self.api.call(&Test { event, ..Test::new(id) }).await?)
    }

    /// Enables or disables an endpoint. Enabling does not resend held deliveries; `recover_deliveries` does.
    #[tool(annotations(title = "Enable or disable an endpoint", idempotent_hint = true))]
    async fn set_endpoint_active(&self, Parameters(which): Parameters<Switched>) -> Result<ToolResult, Failure> {
        let id = ids::endpoint(&self.api, &which.endpoint).await?;
        ToolResult::json(&self.api.call(&Update { active: Some(which.active), ..Update::new(id) }).await?)
    }
}
