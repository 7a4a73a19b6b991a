//! Recovers an endpoint's failed and held deliveries, or its pending ones.

use std::sync::Arc;

use api::{
    Call as _,
    deliveries::{Missed, Recover, Recovering},
};
use common::{
    accounts::permissions::Scope,
    application::idempotency::{Answer, Calls, IdempotencyKey},
    audit::Action,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Caller, Fault, Fields, Function, Reason, Rejected, Route, Verified, Wire},
    id::{EndpointId, RecoveryId},
    issue::{IssueCode, Problem, parse_name},
    timestamp::Timestamp,
    webhooks::{endpoints::Endpoints, log::Log},
};

const ROUTE: &str = Recover::PATH;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        calls: Calls,
        endpoints: Endpoints,
        log: Log,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(Wire::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(ROUTE, Verified, Input::read, handle)
        .scope(Scope::DeliveriesWrite)
        .records(&[Action::RecoveryStarted])
        .summary("Recovers the failed, held or pending deliveries of an endpoint in a time range, at a bounded rate.")
        .description(
            "The recovery runs in the background. If a recovery for the same endpoint and `status` with an overlapping \
             period has not started yet, the call joins it: the call returns the id of that recovery, which then covers \
             both periods. An organization can have at most 100 unfinished recoveries.",
        )
        .faults(&[
            Fault::EmailNotVerified,
            Fault::NotFound,
            Fault::Conflict(Reason::IdempotencyKeyReused),
            Fault::Conflict(Reason::RecoveryLimit),
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
                "The id of the endpoint whose deliveries to resend. If the endpoint is inactive, enable it first; \
                 otherwise, the deliveries are held again.",
            )
            .text(Recover::NAMES.webhook_endpoint_id, EndpointId::parse);
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
                 schedule. Deliveries that are due, being attempted, or pending at a pull endpoint are not changed.",
            )
            .optional_text(Recover::NAMES.status, parse_name);
        let key = fields.idempotency_key();
        if let (Ok(since), Ok(Some(until))) = (since, until)
            && until < since
        {
            let message = "Must not be before since".to_owned();
            return Err(fields.reject(Recover::NAMES.until, Problem { code: IssueCode::TooSmall, message }));
        }
        Ok(Self { endpoint: endpoint?, since: since?, until: until?, status: status?.unwrap_or_default(), key: key? })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller>, input: Input) -> Result<Answer<Recovering>> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let time = input.since..input.until.unwrap_or(now);
    let once = app.calls.once(tenant, ROUTE, input.key, now);
    let start = async {
        app.endpoints.require(tenant, input.endpoint).await?;
        let output = |id: RecoveryId| Recovering {
            success: true,
            message: "Deliveries will be recovered".to_owned(),
            recovery_id: id.into(),
        };
        let marker = |id| once.marker(&output(id));
        app.log.start_recovery(tenant, input.endpoint, time, input.status, marker, now).await.map(output)
    };
    once.answer(start).await
}
