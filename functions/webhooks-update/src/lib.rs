//! Changes a webhook endpoint.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use api::{Call as _, webhooks::Update};
use common::{
    accounts::permissions::Scope,
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Done, Fields, Function, Reason, Rejected, Route, Verified},
    id::EndpointId,
    timestamp::Timestamp,
    webhooks::{
        destination::{DestinationPolicy, EndpointUrl, Headers, SigningSecret},
        endpoints::{EndpointChange, Endpoints, rotation_overlap},
    },
};

/// The time for which a previous secret may stay in use, in seconds.
const OVERLAP: RangeInclusive<u32> = 0..=604_800;

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endpoints: Endpoints,
        destinations: DestinationPolicy = DestinationPolicy::from_env,
        rotation_overlap: Duration = rotation_overlap,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(Update::PATH, Verified, Input::read, handle)
        .scope(Scope::WebhooksWrite)
        .records(&[Action::WebhookUpdated])
        .summary("Changes the given fields of a webhook endpoint.")
        .description(
            "Omitted fields keep their values, so a call with `id` alone changes nothing. Enabling an endpoint does \
             not resend missed deliveries; `deliveries/recover` does. The `kind` cannot be changed.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::HeadersNeeded),
            DeclaredError::Conflict(Reason::PullEndpoint),
        ])
}

/// The endpoint to change, and the changes.
pub struct Input {
    id: EndpointId,
    change: EndpointChange,
}

impl Input {
    fn read(app: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields.about("The id of the endpoint to change.").text(Update::NAMES.id, EndpointId::parse);
        let url = fields
            .about(
                "The new URL that events are posted to. If the endpoint has headers, send `headers` in the same call: \
                 otherwise, the new URL would receive the secrets in the current headers.",
            )
            .optional_text(Update::NAMES.url, |text| EndpointUrl::parse_permitted(text, &app.destinations));
        let signing_secret = fields
            .about(
                "The new secret. For one day, or for `rotation_overlap_seconds`, events are also signed with the \
                 previous secret, so you have time to update your receiver.",
            )
            .optional_text(Update::NAMES.signing_secret, SigningSecret::parse);
        let overlap = fields
            .about(
                "The time for which events are also signed with the previous secret, in seconds, up to 7 days. `0` ends the \
                 previous secret now, for example because it has leaked. Without `signing_secret`, it shortens the \
                 time of the secret before the latest rotation.",
            )
            .optional_number(Update::NAMES.rotation_overlap_seconds, OVERLAP);
        let headers = fields
            .about("Headers that replace all the endpoint's headers. `null` or an empty object removes them.")
            .nullable_object(Update::NAMES.headers, Headers::parse);
        let active = fields
            .about(
                "`true` enables the endpoint and clears `failing_since`, `disabled_at` and `disabled_reason`. `false` \
                 disables it: the events of the next 7 days are held, and so are deliveries whose next attempt becomes due.",
            )
            .optional_bool_without_null(Update::NAMES.active);
        let options = fields.endpoint_options(false);
        let change = EndpointChange {
            url: url?,
            signing_secret: signing_secret?,
            overlap: overlap?.map(|seconds| Duration::from_secs(seconds.into())),
            headers: headers?,
            active: active?,
            options: options?,
            revision: None,
        };
        Ok(Self { id: id?, change })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, input: Input) -> Result<Done> {
    let (tenant, done) = (&call.caller.organization, "Webhook endpoint updated");
    let EndpointChange { signing_secret, url, .. } = &input.change;
    let mut message = signing_secret.as_ref().map_or_else(|| done.to_owned(), |secret| secret.remark(done));
    if let Some(url) = url {
        message = app.endpoints.remark(tenant, url, input.id, message).await?;
    }
    app.endpoints
        .update(&call.recorder, tenant, input.id, input.change, app.rotation_overlap, Timestamp::now())
        .await?;
    Ok(Done::new(&message))
}
