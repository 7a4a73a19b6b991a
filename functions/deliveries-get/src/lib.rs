//! Shows a delivery, with its payload and all its attempts.

use std::sync::Arc;

use common::{
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{Call, Fault, Fields, Function, Rejected, Route, Tenant, Wire},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, DeliveryId},
        log::Log,
    },
};
use schemars::JsonSchema;
use serde::Serialize;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    Function::new(Wire::Envelope, env, &aws, Log::from_env(env, &aws)?, [route()])
}

fn route() -> Route<Log> {
    Route::post("/v1/deliveries/get", Tenant, Input::read, handle)
        .summary("Returns a delivery with its payload and all its attempts.")
        .description("The payload is always kept until the delivery has succeeded.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

/// The delivery to show.
pub struct Input {
    id: DeliveryId,
}

impl Input {
    fn read(_: &Log, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.about("The id of the delivery, as returned by `list`.").text("delivery_id", DeliveryId::parse);
        Ok(Self { id: id? })
    }
}

/// A delivery with its payload and its attempts.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// The delivery.
    delivery: Delivery,
    /// The body of the request, byte for byte as it was or will be sent; absent if it was not kept. After a successful
    /// delivery, a payload of more than 8 KiB after compression is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    #[schemars(extend("examples" = [r#"{"event":"job.completed","job_id":"job_4821"}"#]))]
    payload: Option<String>,
    /// All attempts, oldest first. If there are very many, only the newest 201 are returned.
    attempts: Vec<Attempt>,
}

async fn handle(log: Arc<Log>, call: Call<TenantId>, input: Input) -> Result<Output> {
    let (delivery, payload) = log.visible(&call.caller, &input.id, Timestamp::now()).await?;
    let mut attempts = log.earlier_attempts(&call.caller, &delivery).await?;
    // A delivery that failed without an attempt has a last attempt anyway, with the reason.
    attempts.extend(delivery.last_attempt.clone().filter(|_| delivery.attempts > 0));
    let payload = payload.map(|payload| String::from_utf8(payload.body.into())).transpose();
    Ok(Output { delivery, payload: payload.map_err(Error::internal("reading a payload"))?, attempts })
}
