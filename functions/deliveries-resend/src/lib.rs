//! Resends a delivery.

use std::sync::Arc;

use api::{Call as _, deliveries::Resend};
use common::{
    accounts::permissions::Scope,
    application::idempotency::{CallResponse, IdempotencyKey, RememberedCalls},
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Done, Fields, Function, Reason, Rejected, Route, Verified},
    timestamp::Timestamp,
    webhooks::{delivery::DeliveryId, log::DeliveryLog, queue::SharedQueue},
};

const ROUTE: &str = Resend::PATH;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        calls: RememberedCalls,
        log: DeliveryLog,
        queue: SharedQueue,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(ROUTE, Verified, Input::read, handle)
        .scope(Scope::DeliveriesWrite)
        .records(&[Action::DeliveryResent])
        .summary("Resends a delivery in any status, with a full new retry schedule.")
        .description(
            "The delivery becomes `pending` and due immediately, with the same `webhook-id`. A delivery that is \
             already `pending` does not get a second schedule, and a test gets only one attempt. If the delivery is \
             leased, the lease ends. If the endpoint is inactive, the delivery is held.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::PayloadNotKept),
        ])
}

/// The delivery to resend.
pub struct Input {
    id: DeliveryId,
    key: Option<IdempotencyKey>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The id of the delivery to resend, as returned by `list`.")
            .text(Resend::NAMES.delivery_id, DeliveryId::parse);
        let key = fields.idempotency_key();
        Ok(Self { id: id?, key: key? })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, input: Input) -> Result<CallResponse<Done>> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let once = app.calls.once(tenant, ROUTE, input.key, now);
    let resend = async {
        let done = Done::new("Delivery will be resent");
        let marker = once.marker(&done)?;
        let delivery = app.log.resend(&call.recorder, tenant, &input.id, marker.as_ref(), now).await?;
        app.queue.wake(tenant, &delivery, now).await;
        Ok(done)
    };
    once.answer(resend).await
}
