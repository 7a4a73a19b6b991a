//! Counts the deliveries of the caller's tenant.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Fault, Fields, Function, Rejected, Route, Tenant, Wire},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        endpoints::Endpoints,
        log::{
            Log,
            count::{Counts, Statistics},
            recovery::Recovery,
        },
    },
};
use schemars::JsonSchema;
use serde::Serialize;

/// The dependencies of the route.
pub struct App {
    endpoints: Endpoints,
    log: Log,
}

/// The time range that is counted by default.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App { endpoints: Endpoints::from_env(env, &aws)?, log: Log::from_env(env, &aws)? };
    Function::new(Wire::Envelope, env, &aws, app, [route()])
}

fn route() -> Route<App> {
    Route::post("/v1/deliveries/stats", Tenant, Input::read, handle)
        .summary("Counts the deliveries by status, hour and reason for failure, and shows the progress of recoveries.")
        .description("Each delivery counts in the hour in which it was created.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

/// The deliveries to count.
pub struct Input {
    endpoint: Option<EndpointId>,
    since: Option<Timestamp>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let endpoint = fields
            .about("Only deliveries to this endpoint. By default, deliveries to all endpoints and to callbacks.")
            .optional_text("webhook_endpoint_id", EndpointId::parse);
        let since = fields
            .about("Only deliveries that were created at this time or later. The default is 24 hours ago.")
            .optional_text("since", Timestamp::parse);
        Ok(Self { endpoint: endpoint?, since: since? })
    }
}

/// The counts of the deliveries, and the latest recoveries.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// The start of the period: deliveries that were created at this time or later are counted.
    since: Timestamp,
    /// Whether all deliveries of the period were counted. If there are too many, only the newest are counted.
    complete: bool,
    /// The number of deliveries by status.
    total: Counts,
    /// The number of deliveries by status for each hour in which they were created, oldest first. Hours without
    /// deliveries are omitted.
    hours: Vec<Hour>,
    /// The number of failed deliveries by the reason for the failure of their last attempt, most frequent first.
    failures: Vec<Reason>,
    /// The ten latest recoveries, newest first.
    recoveries: Vec<Recovery>,
}

/// The number of deliveries that were created in one hour.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "DeliveriesOfAnHour")]
struct Hour {
    /// The start of the hour, in UTC.
    hour: Timestamp,
    /// The number of deliveries that are waiting for an attempt.
    pending: u32,
    /// The number of deliveries that succeeded.
    delivered: u32,
    /// The number of deliveries that failed.
    failed: u32,
    /// The number of deliveries that are held.
    held: u32,
    /// The number of deliveries that ended.
    ended: u32,
}

/// The number of deliveries that failed for the same reason.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "FailureReason")]
struct Reason {
    /// The outcome of the last attempt, or `untaken` for a pull endpoint.
    #[schemars(extend("examples" = ["status_5xx"]))]
    reason: String,
    /// The number of deliveries that failed for this reason.
    count: u32,
}

async fn handle(app: Arc<App>, call: Call<TenantId>, input: Input) -> Result<Output> {
    let now = Timestamp::now();
    let since = input.since.unwrap_or_else(|| now.before(DAY));
    let shards = app.endpoints.shards(&call.caller, input.endpoint).await?;
    let counting = app.log.count(&call.caller, &shards, since, now);
    let (counted, recoveries) = tokio::try_join!(counting, app.log.recoveries(&call.caller, input.endpoint))?;
    let Statistics { total, hours, reasons, is_complete } = counted;
    let mut failures: Vec<_> = reasons.into_iter().map(|(reason, count)| Reason { reason, count }).collect();
    failures.sort_by_key(|failure| Reverse(failure.count));
    let hours = hours.into_iter().map(|(hour, Counts { pending, delivered, failed, held, ended })| Hour {
        hour,
        pending,
        delivered,
        failed,
        held,
        ended,
    });
    Ok(Output { since, complete: is_complete, total, hours: hours.collect(), failures, recoveries })
}
