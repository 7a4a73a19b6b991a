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
        endpoints::{EndpointView, Endpoints, LastError},
        log::{
            Log,
            count::{Bound, Counts, Statistics},
            open::Backlog,
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
/// The bound of the successes that are read and counted, in pages.
const PAGES: usize = 16;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App { endpoints: Endpoints::from_env(env, &aws)?, log: Log::from_env(env, &aws)? };
    Function::new(Wire::Envelope, env, &aws, app, [route()])
}

fn route() -> Route<App> {
    Route::post("/v1/deliveries/stats", Tenant, Input::read, handle)
        .summary("Counts the deliveries by status, hour and reason for failure, and shows the progress of recoveries.")
        .description(
            "Each delivery counts in the hour in which it was created. Pending, failed and held deliveries are counted \
             whatever number of others there is, up to 10,000 of each status and destination. Successes are counted \
             while they are read, newest first, up to a bound. `complete_since` shows how far. Failed tests are not \
             counted.",
        )
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
    /// The time from which on all deliveries were counted; absent if `complete` is true. Older successes are missing in
    /// the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    complete_since: Option<Timestamp>,
    /// The number of deliveries by status.
    total: Counts,
    /// The number of deliveries by status for each hour in which they were created, oldest first. Hours without
    /// deliveries are omitted.
    hours: Vec<Hour>,
    /// The number of failed deliveries by the reason for the failure of their last attempt, most frequent first. If
    /// `complete_since` is present, only of those that were created since then.
    failures: Vec<Reason>,
    /// The deliveries that are not delivered now, whenever they were created.
    open: Open,
    /// The latest failed attempt at an existing endpoint, accurate to a minute; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Latest")]
    last_error: Option<Latest>,
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

/// The deliveries that are not delivered, by status.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "OpenDeliveries")]
struct Open {
    /// The deliveries that are waiting for an attempt.
    pending: Waiting,
    /// The deliveries that failed permanently.
    failed: Waiting,
    /// The deliveries that are held.
    held: Waiting,
}

/// The deliveries with a status.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "DeliveriesOfAStatus")]
struct Waiting {
    /// The number of deliveries.
    count: usize,
    /// Whether there are more: a count ends at 10,000 for each part of the log.
    more: bool,
    /// When the oldest of them was created; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    oldest_at: Option<Timestamp>,
}

impl From<&Backlog> for Waiting {
    fn from(backlog: &Backlog) -> Self {
        Self { count: backlog.count, more: backlog.is_longer, oldest_at: backlog.oldest_at() }
    }
}

/// The latest failed attempt.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "LastError")]
struct Latest {
    /// When the attempt started.
    at: Timestamp,
    /// The reason for the failure.
    #[schemars(extend("examples" = ["status_5xx"]))]
    reason: String,
    /// The HTTP status of the response; absent if the receiver did not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    #[schemars(extend("examples" = [503]))]
    status_code: Option<u16>,
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
    let (tenant, now) = (&call.caller, Timestamp::now());
    let since = input.since.unwrap_or_else(|| now.before(DAY));
    let (shards, endpoints) =
        tokio::try_join!(app.endpoints.shards(tenant, input.endpoint), app.endpoints.list(tenant))?;
    let open = app.log.open(tenant, std::slice::from_ref(&shards), now).await?.pop().unwrap_or_default();
    let counting = app.log.count(tenant, &shards, &open, since, Bound::Pages(PAGES), now);
    let (counted, recoveries) = tokio::try_join!(counting, app.log.recoveries(tenant, input.endpoint))?;
    let Statistics { total, hours, reasons, complete_since, .. } = counted;
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
    Ok(Output {
        since,
        complete: complete_since.is_none(),
        complete_since,
        total,
        hours: hours.collect(),
        failures,
        open: Open { pending: (&open.pending).into(), failed: (&open.failed).into(), held: (&open.held).into() },
        last_error: last_error(endpoints, input.endpoint),
        recoveries,
    })
}

/// The latest error of the endpoint `only`, or of all.
fn last_error(endpoints: Vec<EndpointView>, only: Option<EndpointId>) -> Option<Latest> {
    let wanted = endpoints.into_iter().filter(|endpoint| only.is_none_or(|only| only == endpoint.id));
    let latest = wanted.filter_map(|endpoint| endpoint.last_error).max_by_key(|error| error.at);
    latest.map(|LastError { at, reason, status_code }| Latest { at, reason, status_code })
}
