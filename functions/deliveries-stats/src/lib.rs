//! Counts the deliveries of the caller's tenant.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use api::{
    Call as _,
    deliveries::{Count, Counted, Counts, FailureReason, Hour},
};
use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Fault, Fields, Function, Rejected, Route, Tenant, Wire},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        endpoints::Endpoints,
        log::{Log, count::Statistics},
    },
};

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
    Route::post(Count::PATH, Tenant, Input::read, handle)
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
            .optional_text(Count::NAMES.webhook_endpoint_id, EndpointId::parse);
        let since = fields
            .about("Only deliveries that were created at this time or later. The default is 24 hours ago.")
            .optional_text(Count::NAMES.since, Timestamp::parse);
        Ok(Self { endpoint: endpoint?, since: since? })
    }
}

async fn handle(app: Arc<App>, call: Call<TenantId>, input: Input) -> Result<Counted> {
    let now = Timestamp::now();
    let since = input.since.unwrap_or_else(|| now.before(DAY));
    let shards = app.endpoints.shards(&call.caller, input.endpoint).await?;
    let counting = app.log.count(&call.caller, &shards, since, now);
    let (counted, recoveries) = tokio::try_join!(counting, app.log.recoveries(&call.caller, input.endpoint))?;
    let Statistics { total, hours, reasons, is_complete } = counted;
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
        complete: is_complete,
        total,
        hours: hours.collect(),
        failures,
        recoveries: recoveries.into_iter().map(Into::into).collect(),
    })
}
