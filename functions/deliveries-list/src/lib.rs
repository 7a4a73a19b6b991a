//! Lists the deliveries of the caller's tenant.

use std::sync::Arc;

use api::{
    Call as _,
    deliveries::{List, Listed},
};
use common::{
    accounts::permissions::Scope,
    config::{ConfigError, Env},
    error::Result,
    http::{BodyFormat, Call, DeclaredError, Fields, Function, Rejected, Route, Tenant},
    id::{EndpointId, TenantId},
    issue::parse_name,
    timestamp::Timestamp,
    webhooks::{
        delivery::{OUTCOMES, WebhookId, parse_job_id, parse_outcome},
        endpoints::Endpoints,
        event::parse_event,
        log::{
            DeliveryLog,
            search::{Cursor, Filter},
        },
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
    Route::post(List::PATH, Tenant, Input::read, handle)
        .scope(Scope::DeliveriesRead)
        .summary("Lists the deliveries, newest first.")
        .description("To read all pages, repeat the call with each `next_cursor` until a response contains none.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
}

/// The list's filters and page.
pub struct Input {
    endpoint: Option<EndpointId>,
    filter: Filter,
    limit: usize,
    cursor: Option<Cursor>,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let endpoint = fields
            .about(
                "Only deliveries to this endpoint, which may have been deleted. By default, deliveries to all \
                 endpoints, including the 100 that were deleted last, and to job callbacks.",
            )
            .optional_text(List::NAMES.webhook_endpoint_id, EndpointId::parse);
        let status = fields
            .about("Only deliveries with this status. By default, deliveries with any status.")
            .optional_text(List::NAMES.status, parse_name);
        let event = fields
            .about("Only deliveries of this event. By default, deliveries of all events.")
            .optional_text(List::NAMES.event, parse_event);
        let job_id = fields
            .about(
                "Only deliveries for the job with this id, as sent by its producer: at most 1,024 bytes. By default, \
                 deliveries for all jobs.",
            )
            .example("job_4821")
            .optional_text(List::NAMES.job_id, parse_job_id);
        let webhook_id = fields
            .about("Only the delivery with this `webhook-id`, as its receiver got it. By default, all deliveries.")
            .example("msg_0123456789abcdef0123456789abcdef")
            .optional_text(List::NAMES.webhook_id, WebhookId::parse);
        let outcome = fields
            .about(
                "Only deliveries whose last attempt had this outcome: `delivered`, or the reason for the failure, such \
                 as `status_5xx`. By default, deliveries with any outcome.",
            )
            .example("status_5xx")
            .choices(&OUTCOMES)
            .optional_text(List::NAMES.outcome, parse_outcome);
        let workflow = fields
            .about(
                "Only deliveries for jobs whose workflow has exactly this name. By default, deliveries with any \
                 workflow or none.",
            )
            .example("nightly-import")
            .optional_text(List::NAMES.workflow, |text| Ok(text.to_owned()));
        let since = fields
            .about("Only deliveries that were created at this time or later. By default, there is no lower limit.")
            .optional_text(List::NAMES.since, Timestamp::parse);
        let until = fields
            .about("Only deliveries that were created before this time. By default, there is no upper limit.")
            .optional_text(List::NAMES.until, Timestamp::parse);
        let limit = fields
            .about("The maximum number of deliveries to return. The default is 20.")
            .optional_number(List::NAMES.limit, 1..=100);
        let cursor = fields
            .about("The `next_cursor` from the previous page. Send the same filters as for that page.")
            .optional_text(List::NAMES.cursor, Cursor::parse);
        let (status, event, job_id, since, until) = (status?, event?, job_id?, since?, until?);
        let (webhook_id, outcome, workflow) = (webhook_id?, outcome?, workflow?);
        let filter = Filter { status, event, job_id, outcome, workflow, since, until, webhook_id };
        let limit = limit?.and_then(|limit| limit.try_into().ok()).unwrap_or(20);
        Ok(Self { endpoint: endpoint?, filter, limit, cursor: cursor? })
    }
}

async fn handle(app: Arc<App>, call: Call<TenantId>, input: Input) -> Result<Listed> {
    let Input { endpoint, filter, limit, cursor } = input;
    let shards = app.endpoints.shards(&call.caller, endpoint).await?;
    let now = Timestamp::now();
    let page = app.log.search(&call.caller, &shards, &filter, cursor.as_ref(), limit, now).await?;
    let deliveries = page.deliveries.into_iter().map(Into::into).collect();
    Ok(Listed { deliveries, next_cursor: page.next.map(Into::into) })
}
