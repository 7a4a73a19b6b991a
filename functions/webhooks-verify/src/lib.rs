//! Finds out why a request that a receiver got does not verify.

use std::sync::Arc;

use api::{
    Call as _,
    verification::{Verification, Verify},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Rejected, Route, Verified},
    id::EndpointId,
    timestamp::Timestamp,
    webhooks::{
        endpoints::Endpoints,
        log::DeliveryLog,
        verification::{Computed, MAX_REQUEST_BYTES, ReceivedBody, ReceivedHeaders, ReceivedRequest, Verifying},
    },
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endpoints: Endpoints,
        log: DeliveryLog,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(Verify::PATH, Verified, Input::read, handle)
        .scope(Scope::WebhooksRead)
        .also_scope(Scope::DeliveriesRead, "because the result quotes the logged body")
        .up_to(MAX_REQUEST_BYTES)
        .summary("Finds out why a request that your receiver got does not verify.")
        .description(
            "The request is compared with what its signature covers, with the secrets of the endpoint and of the \
             organization's others, and with the delivery that the log has under its `webhook-id`. The result names the \
             cause and, in a changed body, the first byte that differs. It contains neither signatures nor secrets. \
             Nothing of the request is stored or logged.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

/// The endpoint, and the request as its receiver saw it.
pub struct Input {
    id: EndpointId,
    seen: ReceivedRequest,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The id of the endpoint that the request was sent to.")
            .text(Verify::NAMES.id, EndpointId::parse);
        let headers = fields
            .about(
                "The headers as the receiver saw them: lines of `name: value`, or the JSON that a program prints. \
                 Other headers are ignored.",
            )
            .text(Verify::NAMES.headers, ReceivedHeaders::parse);
        let body = fields
            .about("The base64 of the body as the receiver saw it, of up to 1,100,000 bytes.")
            .text(Verify::NAMES.body, ReceivedBody::parse);
        let computed = fields
            .about(
                "The signature that the receiver's own code computed, in any encoding. With it, mistakes in that code \
                 are found, too.",
            )
            .optional_text(Verify::NAMES.computed, Computed::parse);
        let received_at = fields
            .about("The time that the receiver's clock showed. With it, the timestamp is checked like a library does.")
            .optional_text(Verify::NAMES.received_at, Timestamp::parse);
        let seen = ReceivedRequest { headers: headers?, body: body?, computed: computed?, received_at: received_at? };
        Ok(Self { id: id?, seen })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller>, Input { id, seen }: Input) -> Result<Verification> {
    call.caller.check_scope(Scope::DeliveriesRead)?;
    let tenant = &call.caller.organization;
    Verifying { endpoints: &app.endpoints, log: &app.log, tenant, now: Timestamp::now() }.verify(id, &seen).await
}
