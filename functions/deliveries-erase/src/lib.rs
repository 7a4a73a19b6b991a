//! Erases the payloads of deliveries and the responses of receivers.

use std::sync::Arc;

use api::{
    Call as _,
    deliveries::{Erase, Erased},
};
use common::{
    accounts::permissions::Scope,
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, Caller, DeclaredError, Fields, Function, Reason, Rejected, Route, Verified},
    id::EndpointId,
    issue::Problem,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, parse_job_id},
        endpoints::Endpoints,
        erasure::Erasure,
        job_failures::JobFailures,
        log::{DeliveryLog, search::Cursor},
    },
};

common::from_env! {
    /// The route's dependencies.
    pub struct App {
        endpoints: Endpoints,
        failures: JobFailures,
        log: DeliveryLog,
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

fn route() -> Route<App> {
    Route::post(Erase::PATH, Verified, Input::read, handle)
        .scope(Scope::DeliveriesWrite)
        .records(&[Action::ErasureRequested])
        .summary("Erases the payload and responses of one delivery, of a job's deliveries, or of those of a period.")
        .description(
            "The delivery stays in the log, with `erased_at`, its status and its attempts. It can no longer be resent \
             or recovered. One that waits at a pull endpoint ends, unless a client has leased it. If any other of the \
             job's deliveries is pending, nothing is erased. If one is resent during the call, other deliveries may be \
             erased before the call is rejected. In a period, only delivered, failed and ended deliveries are erased, \
             at most 10,000 in a call; the others are left out. A call can safely be repeated. The deliveries of an \
             event to several endpoints can share a payload: it is removed from the table with the last of them, and \
             for a minute after it was stored, they count as pending. If the queue delivers a job event twice within a \
             minute of its arrival, the second copy can restore a payload that was erased in that minute. The response \
             to a repeated attempt that ends after the call can stay in the table until the delivery expires, but no \
             route returns it. A call by job can miss deliveries to an endpoint if a hundred others were deleted after \
             it: erase the period, too. The error, stack and deployment of a failed job are also removed from emails \
             that have not been sent yet; those emails still name the job.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::DeliveryPending),
        ])
}

/// The deliveries to erase.
pub enum Input {
    Delivery(DeliveryId),
    /// A job's deliveries, starting at the cursor.
    Job(String, Option<Cursor>),
    /// The delivered, failed and ended deliveries of a period to all destinations or to an endpoint, starting at the
    /// cursor.
    Period(Option<EndpointId>, Option<Timestamp>, Option<Timestamp>, Option<Cursor>),
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The id of the delivery to erase, as returned by `list`. Required without `job_id`, `since` and `until`.")
            .optional_text(Erase::NAMES.delivery_id, DeliveryId::parse);
        let job = fields
            .about(
                "The id of the job whose deliveries are erased, as sent by its producer: at most 1,024 bytes. If the \
                 job has no deliveries, the call succeeds.",
            )
            .example("job_4821")
            .optional_text(Erase::NAMES.job_id, parse_job_id);
        let endpoint = fields
            .about("The id of an endpoint: with `since` or `until`, only its deliveries are erased.")
            .optional_text(Erase::NAMES.webhook_endpoint_id, EndpointId::parse);
        let since = fields
            .about("Erases the delivered, failed and ended deliveries that were created at this time or later.")
            .optional_text(Erase::NAMES.since, Timestamp::parse);
        let until = fields
            .about(
                "Erases the delivered, failed and ended deliveries that were created before this time, which must not \
                 be before `since`.",
            )
            .optional_text(Erase::NAMES.until, Timestamp::parse);
        let cursor = fields
            .about(
                "The `next_cursor` from the previous call with the same fields. To erase all of a job's or a period's \
                 deliveries, repeat the call until the response has no `next_cursor`.",
            )
            .optional_text(Erase::NAMES.cursor, Cursor::parse);
        fields.either(&[
            &[Erase::NAMES.delivery_id],
            &[Erase::NAMES.job_id],
            &[Erase::NAMES.since, Erase::NAMES.until, Erase::NAMES.webhook_endpoint_id],
        ]);
        fields.at_least_one(&[Erase::NAMES.delivery_id, Erase::NAMES.job_id, Erase::NAMES.since, Erase::NAMES.until]);
        let (endpoint, since, until) = (endpoint?, since?, until?);
        fields.period(Erase::NAMES.until, since, until)?;
        let is_period = since.is_some() || until.is_some();
        Ok(match (id?, job?) {
            (Some(_), Some(_)) => {
                let problem = Problem::format("Must be absent if delivery_id is given");
                return Err(fields.reject(Erase::NAMES.job_id, problem));
            }
            (None, None) if is_period => Self::Period(endpoint, since, until, cursor?),
            (id @ Some(_), None) | (id @ None, Some(_)) if is_period || endpoint.is_some() => {
                let problem = Problem::format("Must be absent if since, until or webhook_endpoint_id is given");
                let given = if id.is_some() { Erase::NAMES.delivery_id } else { Erase::NAMES.job_id };
                return Err(fields.reject(given, problem));
            }
            (Some(id), None) => Self::Delivery(id),
            (None, Some(job)) => Self::Job(job, cursor?),
            (None, None) if endpoint.is_some() => return Err(fields.reject(Erase::NAMES.since, Problem::missing())),
            (None, None) => return Err(fields.reject(Erase::NAMES.delivery_id, Problem::missing())),
        })
    }
}

async fn handle(app: Arc<App>, call: Call<Caller, Recorder>, input: Input) -> Result<Erased> {
    let erasure =
        Erasure { endpoints: &app.endpoints, log: &app.log, tenant: &call.caller.organization, now: Timestamp::now() };
    let erased = match input {
        Input::Delivery(id) => erasure.of_one(&call.recorder, id, &app.failures).await?,
        Input::Job(job, cursor) => erasure.of_job(&call.recorder, job, cursor, &app.failures).await?,
        Input::Period(endpoint, since, until, cursor) => {
            erasure.of_period(&call.recorder, endpoint, since, until, cursor, &app.failures).await?
        }
    };
    let message = match erased.count {
        1 => "1 delivery erased".to_owned(),
        erased => format!("{erased} deliveries erased"),
    };
    Ok(Erased { success: true, message, erased: erased.count, next_cursor: erased.next.map(Into::into) })
}
