//! Tests a webhook endpoint.

use std::sync::Arc;

use api::{
    Call as _,
    webhooks::{Test, Tested},
};
use common::{
    accounts::permissions::Scope,
    application::idempotency::{CallResponse, IdempotencyKey, RememberedCalls},
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Rejected, Route, Verified},
    id::EndpointId,
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        endpoints::Endpoints,
        event::{EventName, parse_event},
        log::DeliveryLog,
        queue::SharedQueue,
    },
};

const ROUTE: &str = Test::PATH;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        calls: RememberedCalls,
        endpoints: Endpoints,
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
        .scope(Scope::WebhooksWrite)
        .records(&[Action::WebhookTested])
        .summary("Sends a test event to a webhook endpoint, active or not.")
        .description(
            "The event `webhook.test` is delivered like any other event, but attempted only once. It has the nine \
             members of every event: `job_id` is `test`, and the members that describe a job are `null`. With `event`, \
             the receiver gets a sample of that event instead, with the same `job_id`. The delivery log lists every \
             test as `webhook.test`. Failed tests do not send email or count as failures. A test of a pull endpoint \
             waits until it is received. The limit is 10 tests per endpoint per minute.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound, DeclaredError::TooMany])
}

/// The endpoint to test.
pub struct Input {
    id: EndpointId,
    sample: EventName,
    key: Option<IdempotencyKey>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.about("The id of the endpoint to test, active or not.").text(Test::NAMES.id, EndpointId::parse);
        let sample = fields
            .about("The event whose sample to send. The default is `webhook.test`.")
            .optional_text(Test::NAMES.event, parse_event);
        let key = fields.idempotency_key();
        Ok(Self { id: id?, sample: sample?.unwrap_or(EventName::Test), key: key? })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, input: Input) -> Result<CallResponse<Tested>> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let test = Delivery::test(input.id, now);
    let once = app.calls.once(tenant, ROUTE, input.key, now);
    let begin = async {
        let output =
            Tested { success: true, message: "Test event will be sent".to_owned(), delivery_id: test.id.into() };
        app.endpoints
            .begin_test(&call.recorder, &app.log, tenant, &test, input.sample, once.marker(&output)?.as_ref(), now)
            .await?;
        app.queue.wake(tenant, &test, now).await;
        Ok(output)
    };
    once.answer(begin).await
}
