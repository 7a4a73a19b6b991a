//! Returns a delivery with its payload and all its attempts.

use std::sync::Arc;

use api::{
    Call as _,
    deliveries::{Found, Get},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{Call, Fault, Fields, Function, Rejected, Route, Tenant, Wire},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{delivery::DeliveryId, log::Log},
};

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(Wire::Envelope, env, [route()])
}

fn route() -> Route<Log> {
    Route::post(Get::PATH, Tenant, Input::read, handle)
        .scope(Scope::DeliveriesRead)
        .summary("Returns a delivery with its payload and all its attempts.")
        .description("Payloads are kept at least until the delivery succeeds.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

/// The delivery to show.
pub struct Input {
    id: DeliveryId,
}

impl Input {
    fn read(_: &Log, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The id of the delivery, as returned by `list`.")
            .text(Get::NAMES.delivery_id, DeliveryId::parse);
        Ok(Self { id: id? })
    }
}

async fn handle(log: Arc<Log>, call: Call<TenantId>, input: Input) -> Result<Found> {
    let (delivery, payload) = log.visible(&call.caller, &input.id, Timestamp::now()).await?;
    let mut attempts = log.earlier_attempts(&call.caller, &delivery).await?;
    // Even a delivery that failed without an attempt has a `last_attempt`, which contains the reason.
    attempts.extend(delivery.last_attempt.clone().filter(|_| delivery.attempts > 0));
    let payload = payload.map(|payload| String::from_utf8(payload.body.to_vec())).transpose();
    Ok(Found {
        delivery: delivery.into(),
        payload: payload.map_err(Error::internal("reading a payload"))?,
        attempts: attempts.into_iter().map(Into::into).collect(),
    })
}
