//! Recovers failed and held deliveries, or pending ones, of an endpoint or of all.

use std::sync::Arc;

use api::{
    Call as _,
    deliveries::{Missed, Recover, Recovering},
};
use common::{
    accounts::permissions::Scope,
    application::idempotency::{CallResponse, IdempotencyKey, RememberedCalls},
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Reason, Rejected, Route, Verified},
    id::{EndpointId, RecoveryId},
    issue::parse_name,
    timestamp::Timestamp,
    webhooks::{
        delivery::{OUTCOMES, parse_outcome},
        endpoints::Endpoints,
        log::{DeliveryLog, recovery::Selection},
        queue::RecoveryQueue,
    },
};

const ROUTE: &str = Recover::PATH;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        calls: RememberedCalls,
        endpoints: Endpoints,
        log: DeliveryLog,
        queue: RecoveryQueue,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(ROUTE, Verified, Input::read, handle)
        .scope(Scope::DeliveriesWrite)
        .records(&[Action::RecoveryStarted])
        .summary("Recovers the failed, held or pending deliveries of a time range, at a bounded rate.")
        .description(
            "The recovery runs in the background and begins at once, regardless of other recoveries: its first 100 \
             deliveries are sent within seconds, and the rest at 100 per second for all recoveries of the organization \
             together. If a recovery with an overlapping period and otherwise the same fields has not started yet, the \
             call joins it: the call returns the id of that recovery, which then covers both periods. An organization \
             can have at most 100 unfinished recoveries.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::RecoveryLimit),
        ])
}

/// The deliveries to recover. Without an end, their period ends now.
pub struct Input {
    endpoint: Option<EndpointId>,
    since: Timestamp,
    until: Option<Timestamp>,
    status: Missed,
    outcome: Option<String>,
    workflow: Option<String>,
    key: Option<IdempotencyKey>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let endpoint = fields
            .about(
                "The id of the endpoint whose deliveries to resend. If the endpoint is inactive, enable it first; \
                 otherwise, the deliveries are held again. By default, the deliveries of all active endpoints and of \
                 job callbacks are resent.",
            )
            .optional_text(Recover::NAMES.webhook_endpoint_id, EndpointId::parse);
        let since = fields
            .about("Only deliveries that were created at this time or later.")
            .text(Recover::NAMES.since, Timestamp::parse);
        let until = fields
            .about(
                "Only deliveries that were created before this time, which must not be before `since`. The default is \
                 now.",
            )
            .optional_text(Recover::NAMES.until, Timestamp::parse);
        let status = fields
            .about(
                "The status of the deliveries to resend: `failed`, `held`, `both` of these (the default), or `pending`. \
                 With `pending`, deliveries whose next attempt is not due yet are sent now, with a full new retry \
                 schedule. Deliveries that are due, being attempted, or waiting at an active pull endpoint are not changed.",
            )
            .optional_text(Recover::NAMES.status, parse_name);
        let outcome = fields
            .about(
                "Only deliveries whose last attempt had this outcome, such as `status_5xx`. By default, deliveries with \
                 any outcome.",
            )
            .example("status_5xx")
            .choices(&OUTCOMES)
            .optional_text(Recover::NAMES.outcome, parse_outcome);
        let workflow = fields
            .about(
                "Only deliveries for jobs whose workflow has exactly this name. By default, deliveries with any \
                 workflow or none.",
            )
            .example("nightly-import")
            .optional_text(Recover::NAMES.workflow, |text| Ok(text.to_owned()));
        let key = fields.idempotency_key();
        fields.period(Recover::NAMES.until, since.ok(), until.ok().flatten())?;
        let (endpoint, since, until, status) = (endpoint?, since?, until?, status?.unwrap_or_default());
        Ok(Self { endpoint, since, until, status, outcome: outcome?, workflow: workflow?, key: key? })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, input: Input) -> Result<CallResponse<Recovering>> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let Input { endpoint, since, until, status, outcome, workflow, key } = input;
    let selection = Selection { endpoint, time: since..until.unwrap_or(now), status, outcome, workflow };
    let once = app.calls.once(tenant, ROUTE, key, now);
    let start = async {
        if let Some(id) = endpoint {
            app.endpoints.require(tenant, id).await?;
        }
        let output = |id: RecoveryId| Recovering {
            success: true,
            message: "Deliveries will be recovered".to_owned(),
            recovery_id: id.into(),
        };
        let marker = |id| once.marker(&output(id));
        let id = app.log.start_recovery(&call.recorder, tenant, &selection, marker, now).await?;
        app.queue.begin(tenant, id, now).await;
        Ok(output(id))
    };
    once.answer(start).await
}
