//! Counts the deliveries of the caller's tenant.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use api::{
    Call as _,
    deliveries::{Count, Counted, Counts, FailureReason, Hour, LastError, OpenDeliveries, OpenOfAStatus},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Fields, Function, Rejected, Route, Tenant},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        endpoints::{EndpointView, Endpoints},
        log::{
            DeliveryLog,
            counts::Statistics,
            undelivered::{Backlog, STATUSES, UndeliveredQuery},
        },
    },
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endpoints: Endpoints,
        log: DeliveryLog,
    }
}

/// The time range that is counted by default.
const DEFAULT_RANGE: Duration = Duration::from_hours(24);
/// The maximum number of newest deliveries to read: those that no total contains yet.
const MAX_READ: usize = 20_000;
/// The maximum number of failed deliveries whose reasons are counted.
const MAX_REASONS: usize = 1000;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(Count::PATH, Tenant, Input::read, handle)
        .scope(Scope::DeliveriesRead)
        .summary("Counts the deliveries by status, hour and reason for failure, and shows the progress of recoveries.")
        .description(
            "Each delivery is counted in the hour in which it was created. The counts are exact. Only if there are more \
             than 10,000 undelivered deliveries per status and destination, or 20,000 new ones in a few minutes, older \
             ones are not counted; `complete_since` shows how far back the counts are complete. In a large log, the \
             period begins at a full hour: `since` in the response is its start. Tests are not counted.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

/// The deliveries to count.
pub struct Input {
    endpoint: Option<EndpointId>,
    since: Option<Timestamp>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let endpoint = fields
            .about(
                "Only deliveries to this endpoint. By default, deliveries to all endpoints, including the 100 that were \
                 deleted last, and to callbacks.",
            )
            .optional_text(Count::NAMES.webhook_endpoint_id, EndpointId::parse);
        let since = fields
            .about("Only deliveries that were created at this time or later. The default is 24 hours ago.")
            .optional_text(Count::NAMES.since, Timestamp::parse);
        Ok(Self { endpoint: endpoint?, since: since? })
    }
}

async fn handle(app: Arc<App>, call: Call<TenantId>, input: Input) -> Result<Counted> {
    let (tenant, now) = (&call.caller, Timestamp::now());
    let since = input.since.unwrap_or_else(|| now.before(DEFAULT_RANGE));
    let (shards, endpoints) =
        tokio::try_join!(app.endpoints.shards(tenant, input.endpoint), app.endpoints.list(tenant))?;
    // The period may begin at the start of this hour.
    let query = UndeliveredQuery { shards: &shards, statuses: &STATUSES };
    let open = app.log.open(tenant, &[query], Some(since.hour()), now).await?;
    let destinations = [shards];
    let counting = app.log.count(tenant, &destinations, &open, since, MAX_READ, now);
    let (mut counted, recoveries) = tokio::try_join!(counting, app.log.recoveries(tenant, input.endpoint))?;
    let open = open.into_iter().next().unwrap_or_default();
    let Statistics { since: start, total, hours, complete_since, .. } = counted.pop().unwrap_or_default();
    let since = start.unwrap_or(since);
    let failed = open.failed.newest.iter().filter(|id| id.created_at() >= since).take(MAX_REASONS).copied();
    let reasons = app.log.reasons(tenant, &failed.collect::<Vec<_>>()).await?;
    let mut failures: Vec<_> = reasons.into_iter().map(|(reason, count)| FailureReason { reason, count }).collect();
    failures.sort_by_key(|failure| Reverse(failure.count));
    let hours = hours.into_iter().map(|(hour, Counts { pending, delivered, failed, held, ended })| Hour {
        hour: hour.into(),
        pending,
        delivered,
        failed,
        held,
        ended,
    });
    Ok(Counted {
        since: since.into(),
        complete: complete_since.is_none(),
        complete_since: complete_since.map(Into::into),
        total,
        hours: hours.collect(),
        failures,
        open: OpenDeliveries {
            pending: backlog(&open.pending),
            failed: backlog(&open.failed),
            held: backlog(&open.held),
        },
        last_error: last_error(endpoints, input.endpoint),
        recoveries: recoveries.into_iter().map(Into::into).collect(),
    })
}

fn backlog(backlog: &Backlog) -> OpenOfAStatus {
    let oldest_at = backlog.oldest_at().map(Into::into);
    OpenOfAStatus { count: backlog.count, more: backlog.is_longer, oldest_at }
}

/// Returns the latest error of the endpoint `only`, or of all endpoints.
fn last_error(endpoints: Vec<EndpointView>, only: Option<EndpointId>) -> Option<LastError> {
    let wanted = endpoints.into_iter().filter(|endpoint| only.is_none_or(|only| only == endpoint.id));
    let latest = wanted.filter_map(|endpoint| endpoint.last_error).max_by_key(|error| error.at)?;
    Some(LastError { at: latest.at.into(), reason: latest.reason, status_code: latest.status_code })
}
