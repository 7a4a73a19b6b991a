//! Recovers the failed and held deliveries of an endpoint.

use std::sync::Arc;

use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{
        Call, Fault, Fields, Function, Rejected, Route, Tenant, Wire,
        once::{Answer, Calls, IdempotencyKey},
    },
    id::{EndpointId, RecoveryId, TenantId},
    issue::{IssueCode, Problem},
    timestamp::Timestamp,
    webhooks::{
        endpoints::Endpoints,
        log::{Log, recovery::Missed},
    },
};
use schemars::JsonSchema;
use serde::Serialize;

const ROUTE: &str = "/v1/deliveries/recover";

/// The dependencies of the route.
pub struct App {
    calls: Calls,
    endpoints: Endpoints,
    log: Log,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        calls: Calls::from_env(env, &aws)?,
        endpoints: Endpoints::from_env(env, &aws)?,
        log: Log::from_env(env, &aws)?,
    };
    Function::new(Wire::Envelope, env, &aws, app, [route()])
}

fn route() -> Route<App> {
    Route::post(ROUTE, Tenant, Input::read, handle)
        .summary("Recovers all failed and held deliveries of an endpoint in a time range, at a bounded rate.")
        .description(
            "The recovery runs in the background. A call whose period \
             overlaps that of a recovery of the same endpoint and `status` that has not begun joins it: it gets the \
             same id, and the recovery covers both periods. An organization may have 100 unfinished recoveries.",
        )
        .faults(&[
            Fault::EmailNotVerified,
            Fault::NotFound,
            Fault::Conflict("idempotency_key_reused"),
            Fault::Conflict("recovery_limit"),
        ])
}

/// The endpoint, and the time range in which its missed deliveries were created.
pub struct Input {
    endpoint: EndpointId,
    since: Timestamp,
    until: Option<Timestamp>,
    status: Missed,
    key: Option<IdempotencyKey>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let endpoint = fields
            .about(
                "The endpoint whose deliveries to resend. Enable it first if it is inactive: otherwise they are \
                 held again.",
            )
            .text("webhook_endpoint_id", EndpointId::parse);
        let since =
            fields.about("Only deliveries that were created at this time or later.").text("since", Timestamp::parse);
        let until = fields
            .about("Only deliveries that were created before this time. Now by default; not before `since`.")
            .optional_text("until", Timestamp::parse);
        let status = fields
            .about("The deliveries to resend: `failed`, `held` or `both` (the default).")
            .optional_text("status", Missed::parse);
        let key = fields.idempotency_key();
        if let (Ok(since), Ok(Some(until))) = (since, until)
            && until < since
        {
            let message = "Must not be before since".to_owned();
            return Err(fields.reject("until", Problem { code: IssueCode::TooSmall, message }));
        }
        Ok(Self { endpoint: endpoint?, since: since?, until: until?, status: status?.unwrap_or_default(), key: key? })
    }
}

/// The recovery: a new one, or one that was waiting.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always `true`: a refusal is an error.
    success: bool,
    /// The result, for people.
    #[schemars(extend("examples" = ["Deliveries will be sent again"]))]
    message: &'static str,
    /// The id of the recovery. `stats` shows how far it is.
    recovery_id: RecoveryId,
}

async fn handle(app: Arc<App>, call: Call<TenantId>, input: Input) -> Result<Answer<Output>> {
    let (tenant, now) = (&call.caller, Timestamp::now());
    let time = input.since..input.until.unwrap_or(now);
    let once = app.calls.once(tenant, ROUTE, input.key, now);
    let start = async {
        app.endpoints.require(tenant, input.endpoint).await?;
        let output = |recovery_id| Output { success: true, message: "Deliveries will be recovered", recovery_id };
        let marker = |id| once.marker(&output(id));
        app.log.start_recovery(tenant, input.endpoint, time, input.status, marker, now).await.map(output)
    };
    once.answer(start).await
}
