//! Creates a webhook endpoint.

use std::sync::Arc;

use api::{
    Call as _,
    webhooks::{Create, Created},
};
use common::{
    accounts::permissions::Scope,
    application::idempotency::{CallResponse, IdempotencyKey, RememberedCalls},
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Reason, Rejected, Route, Verified},
    id::EndpointId,
    issue::{Problem, parse_name},
    timestamp::Timestamp,
    webhooks::{
        destination::{DestinationPolicy, EndpointUrl, Headers, SigningSecret},
        endpoints::{DeliveryMethod, Endpoints, Kind, NewEndpoint, Options, max_endpoints},
    },
};

const ROUTE: &str = Create::PATH;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        calls: RememberedCalls,
        endpoints: Endpoints,
        destinations: DestinationPolicy = DestinationPolicy::from_env,
        limit: u32 = max_endpoints,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(ROUTE, Verified, Input::read, handle)
        .scope(Scope::WebhooksWrite)
        .records(&[Action::WebhookCreated])
        .summary("Creates a webhook endpoint.")
        .description(
            "An organization can have 100 endpoints, unless the deployment sets another limit. A receiver that takes \
             more than a second to respond gets its events later.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::Conflict(Reason::EndpointLimit)])
}

/// The endpoint to store.
pub struct Input {
    method: DeliveryMethod,
    /// `None` generates a secret.
    signing_secret: Option<SigningSecret>,
    headers: Headers,
    active: bool,
    options: Options,
    key: Option<IdempotencyKey>,
}

impl Input {
    fn read(app: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let kind = fields
            .about(
                "How events reach you: `push` (the default) posts each event to `url`; `pull` keeps it until your \
                 program receives it with `deliveries/receive`. The kind cannot be changed later.",
            )
            .optional_text(Create::NAMES.kind, parse_name::<Kind>);
        let url = fields
            .about("The URL that events are posted to. Required for push endpoints, and rejected for pull endpoints.")
            .optional_text(Create::NAMES.url, |text| EndpointUrl::parse_permitted(text, &app.destinations));
        let method = match (kind, url) {
            (Err(rejected), _) | (_, Err(rejected)) => Err(rejected),
            (Ok(None | Some(Kind::Push)), Ok(Some(url))) => Ok(DeliveryMethod::Push(url)),
            (Ok(None | Some(Kind::Push)), Ok(None)) => Err(fields.reject(Create::NAMES.url, Problem::missing())),
            (Ok(Some(Kind::Pull)), Ok(None)) => Ok(DeliveryMethod::Pull),
            (Ok(Some(Kind::Pull)), Ok(Some(_))) => {
                Err(fields.reject(Create::NAMES.url, Problem::format("Must be absent: a pull endpoint has no url")))
            }
        };
        fields.cases(
            Create::NAMES.kind,
            &[("push", "PushEndpoint", &[Create::NAMES.url]), ("pull", "PullEndpoint", &[])],
        );
        let signing_secret = fields
            .about("Your own secret for signing events. By default, the service generates a secret and returns it.")
            .optional_text(Create::NAMES.signing_secret, SigningSecret::parse);
        let headers = fields
            .about(
                "Headers to send with each attempt, such as an `authorization` header that your receiver requires. By \
                 default, or with `null`, no headers are added. The signatures do not cover the headers. Of \
                 all responses, only those of `deliveries/receive` contain their values, for the client of a pull \
                 endpoint; log lines and emails never do.",
            )
            .nullable_object(Create::NAMES.headers, Headers::parse);
        let active = fields
            .about(
                "Whether events are delivered. The default is `true`. An inactive endpoint collects events for 7 days, \
                 as `held` deliveries.",
            )
            .optional_bool_without_null(Create::NAMES.active);
        let options = fields.endpoint_options(true);
        let key = fields.idempotency_key();
        Ok(Self {
            method: method?,
            signing_secret: signing_secret?,
            headers: headers?.into_option().unwrap_or_default(),
            active: active?.unwrap_or(true),
            options: options?.into_options(),
            key: key?,
        })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, input: Input) -> Result<CallResponse<Created>> {
    let (signing_secret, is_generated) = match input.signing_secret {
        Some(secret) => (secret, false),
        None => (SigningSecret::generate(), true),
    };
    let endpoint = NewEndpoint {
        id: EndpointId::generate(),
        method: input.method,
        signing_secret,
        headers: input.headers,
        active: input.active,
        options: input.options,
        created_at: Timestamp::now(),
    };
    let tenant = &call.caller.organization;
    let once = app.calls.once(tenant, ROUTE, input.key, endpoint.created_at);
    let create = async {
        let mut message = endpoint.signing_secret.remark("Webhook endpoint created");
        if let Some(url) = endpoint.method.url() {
            message = app.endpoints.remark(tenant, url, endpoint.id, message).await?;
        }
        let output = Created {
            success: true,
            webhook_endpoint_id: endpoint.id.into(),
            message,
            signing_secret: is_generated.then(|| endpoint.signing_secret.reveal().into()),
        };
        let marker = once.marker(&output)?;
        app.endpoints.create(&call.recorder, tenant, &endpoint, app.limit, marker.as_ref()).await?;
        Ok(output)
    };
    once.answer(create).await
}
