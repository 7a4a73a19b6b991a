//! Receives the deliveries that are waiting at a pull endpoint.

use std::{sync::Arc, time::Duration};

use api::{
    Call as _,
    deliveries::{LeasedDelivery, Receive, Received},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    http::{BodyFormat, Call, DeclaredError, Fields, Function, Reason, Rejected, Route, Tenant},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        endpoints::{Endpoint, Endpoints},
        log::{DeliveryLog, pull::ReceivedDelivery},
        post::Content,
    },
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endpoints: Endpoints,
        log: DeliveryLog,
        lease_time: Duration = lease_time,
    }
}

/// The number of deliveries that a call receives by default.
const DEFAULT_LIMIT: usize = 10;
/// The time until the next poll: while events are arriving, and otherwise. A poll that finds nothing costs two reads,
/// in addition to the reads that authenticate the caller.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
const IDLE_PAUSE: Duration = Duration::from_secs(3);
/// The time after a delivery is received during which more events are expected.
const BUSY_TIME: Duration = Duration::from_mins(10);
/// The maximum size of the deliveries in a response. A Lambda response is limited to 6,291,556 bytes, and contains the
/// API's response as JSON inside a JSON string. The largest delivery fits: a 1 MiB body of quotes becomes 4 MiB.
const MAX_RESPONSE_BYTES: usize = 5_500_000;
/// The size of a delivery without its body and header values.
const FRAME_BYTES: usize = 2_000;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn lease_time(env: &Env) -> Result<Duration, ConfigError> {
    env.number("LEASE_TIME", 1..=3600).map(Duration::from_secs)
}

fn route() -> Route<App> {
    Route::post(Receive::PATH, Tenant, Input::read, handle)
        .scope(Scope::DeliveriesWrite)
        .summary("Receives the longest-waiting deliveries from a pull endpoint, and leases each for 60 seconds.")
        .description(
            "Post each delivery to your receiver, then settle it. While the lease lasts, no other caller gets the \
             delivery, so several programs can receive from one endpoint. A delivery can be received more than once, \
             always with the same `webhook-id`.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::EndpointInactive),
            DeclaredError::Conflict(Reason::NotAPullEndpoint),
        ])
}

/// The endpoint, and the number of deliveries to receive.
pub struct Input {
    endpoint: EndpointId,
    limit: usize,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let endpoint = fields
            .about("The id of the pull endpoint to receive deliveries from.")
            .text(Receive::NAMES.webhook_endpoint_id, EndpointId::parse);
        let limit = fields
            .about(
                "The maximum number of deliveries to receive. The default is 10. Responses are limited to 5.5 MB, so \
                 fewer may be returned.",
            )
            .optional_number(Receive::NAMES.limit, 1..=100);
        let limit = limit?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT);
        Ok(Self { endpoint: endpoint?, limit })
    }
}

fn leased(endpoint: &Endpoint, received: ReceivedDelivery, now: Timestamp) -> Result<LeasedDelivery> {
    let ReceivedDelivery { delivery, lease, ends, payload } = received;
    let (form, headers) = (endpoint.payload_form(), Some(&endpoint.headers));
    let content = Content::of(&delivery, &payload, form, endpoint.keys(), headers);
    let headers = content.headers(now).map_err(Error::internal("building the headers for a delivery"))?;
    let texts = headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    Ok(LeasedDelivery {
        delivery_id: delivery.id.into(),
        event: content.event.into(),
        attempt: delivery.attempts.saturating_add(1),
        job_id: delivery.job_id,
        lease: lease.into(),
        lease_expires_at: ends.into(),
        headers: texts.collect(),
        body: String::from_utf8_lossy(content.body.0).into_owned(),
    })
}

async fn handle(app: Arc<App>, call: Call<TenantId>, input: Input) -> Result<Received> {
    let (tenant, now) = (&call.caller, Timestamp::now());
    let endpoint = app.endpoints.pulled(tenant, input.endpoint).await?;
    let note = async |has_taken: bool| {
        let noted = app.endpoints.note_pulled(tenant, &endpoint, has_taken, now).await;
        noted.unwrap_or_else(|error| common::log!("receive.unnoted", %tenant, ?error));
    };
    if !endpoint.is_active() {
        // The call counts: `fanfare listen` deletes endpoints that no program has asked for three days.
        note(false).await;
        return Err(Error::Conflict(Conflict::EndpointInactive));
    }
    let (own, mut room, mut is_full) = (headers_size(&endpoint), MAX_RESPONSE_BYTES, false);
    let has_room = |received: &ReceivedDelivery| {
        let needed = FRAME_BYTES
            + own
            + size(received.payload.body.in_form(endpoint.payload_form()).0)
            + 4 * size(received.delivery.job_id.as_bytes());
        room.checked_sub(needed).map(|left| room = left).is_some() || {
            is_full = true;
            false
        }
    };
    let received = app.log.take(tenant, &endpoint.shards(), input.limit, app.lease_time, has_room, now).await?;
    let deliveries: Vec<_> =
        received.into_iter().map(|received| leased(&endpoint, received, now)).collect::<Result<_>>()?;
    // The deliveries are already leased, so the call returns them even if this write failed.
    note(!deliveries.is_empty()).await;
    let is_busy = !deliveries.is_empty() || endpoint.pulled.taken_at.is_some_and(|at| now.since(at) < BUSY_TIME);
    let pause = match is_full || deliveries.len() >= input.limit {
        true => Duration::ZERO,
        false if is_busy => BUSY_PAUSE,
        false => IDLE_PAUSE,
    };
    let previous = endpoint.previous_secret.as_ref().map(|previous| previous.expires_at);
    Ok(Received {
        deliveries,
        poll_after_ms: u32::try_from(pause.as_millis()).unwrap_or(u32::MAX),
        previous_secret_expires_at: previous.filter(|at| now < *at).map(Into::into),
    })
}

fn headers_size(endpoint: &Endpoint) -> usize {
    endpoint.headers.reveal().map(|(name, value)| FRAME_BYTES / 100 + name.len() + size(value.as_bytes())).sum()
}

/// Returns the size of a string in a response, where a quote or backslash becomes four bytes.
fn size(text: &[u8]) -> usize {
    text.iter().map(|byte| if matches!(byte, b'"' | b'\\') { 4 } else { 1 }).sum()
}
