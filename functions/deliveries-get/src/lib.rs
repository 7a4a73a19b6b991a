//! Returns a delivery with its payload and all its attempts.

use std::sync::Arc;

use api::{
    Call as _,
    deliveries::{Found, Get, SignedAt, SignedRequest},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Rejected, Route, Verified},
    issue::parse_name,
    timestamp::Timestamp,
    webhooks::{delivery::DeliveryId, endpoints::Endpoints, log::DeliveryLog, request::RequestSource},
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

/// A signed request needs the scope of a resend: its holder can make the receiver accept the delivery again.
fn route() -> Route<App> {
    Route::post(Get::PATH, Verified, Input::read, handle)
        .scope(Scope::DeliveriesRead)
        .also_scope(Scope::DeliveriesWrite, "to send `request`")
        .summary("Returns a delivery with its payload and all its attempts.")
        .description("Payloads are kept at least until the delivery succeeds.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

/// The delivery to show, and the time of the request to build, if any.
pub struct Input {
    id: DeliveryId,
    request: Option<SignedAt>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The id of the delivery, as returned by `list`.")
            .text(Get::NAMES.delivery_id, DeliveryId::parse);
        let request = fields
            .about(
                "Adds the headers of the request to the receiver, to post it to a program of yours: signed `now`, or \
                 with the time of the `latest_attempt`, which receivers that check it accept for five minutes. The call \
                 changes nothing in the log. By default, there is no `request` in the response.",
            )
            .optional_text(Get::NAMES.request, parse_name);
        Ok(Self { id: id?, request: request? })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller>, Input { id, request }: Input) -> Result<Found> {
    if request.is_some() {
        call.caller.check_scope(Scope::DeliveriesWrite)?;
    }
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let (delivery, payload) = app.log.visible(tenant, &id, now).await?;
    let mut attempts = app.log.earlier_attempts(tenant, &delivery).await?;
    // Even a delivery that failed without an attempt has a `last_attempt`, which contains the reason.
    attempts.extend(delivery.last_attempt.clone().filter(|_| delivery.attempts > 0));
    let at = request.and_then(|request| match request {
        SignedAt::Now => Some(now),
        SignedAt::LatestAttempt => attempts.last().map(|attempt| attempt.at),
    });
    let endpoint = match (at, id.destination.endpoint()) {
        (Some(_), Some(endpoint)) => app.endpoints.find(tenant, endpoint).await?,
        _ => None,
    };
    let requests = payload.as_ref().and_then(|payload| RequestSource::of(&delivery, payload, endpoint.as_ref()));
    let signed = at.zip(requests).map(|(at, requests)| Ok((signed(&requests, at)?, requests.body())));
    let (request, body) = signed.transpose()?.unzip();
    let body = body.or(payload.as_ref().map(|payload| &*payload.body)).map(|body| String::from_utf8(body.to_vec()));
    Ok(Found {
        payload: body.transpose().map_err(Error::internal("reading a payload"))?,
        request,
        attempts: attempts.into_iter().map(Into::into).collect(),
        delivery: delivery.into(),
    })
}

fn signed(requests: &RequestSource<'_>, at: Timestamp) -> Result<SignedRequest> {
    let all = requests.headers(at).map_err(Error::internal("building the headers of a request"))?;
    let (secret, shown): (Vec<_>, Vec<_>) = all.iter().partition(|(_, value)| value.is_sensitive());
    let shown = shown.into_iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    Ok(SignedRequest {
        headers: shown.collect(),
        secret_headers: secret.into_iter().map(|(name, _)| name.to_string()).collect(),
    })
}
