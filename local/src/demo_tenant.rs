//! A demo tenant: an organization with a history, so its pages and lists have content.
//!
//! Accounts, keys and endpoints are created through the API, with the clock set to earlier days (`common::runtime_sources`).
//! Deliveries are made by a separate instance of `webhooks-deliver`. [`past`] passes job events and due attempts to
//! that instance in chronological order, and [`catch`] intercepts its messages to SQS. Messages that are still pending
//! at the end are sent to SQS, or wait in the log for the next sweep.
//!
//! If the demo tenant's owner already exists, nothing is created. The endpoints keep their URLs, so later runs with
//! `.local/` must use the same `--inbox` port. If the process is killed while it creates the tenant, the tenant stays
//! incomplete. `GET /demo` signs in through the API's own route, redirects to `/console`, and rejects requests from
//! other sites. Deployed functions do not have this route.

mod api;
mod captured_messages;
mod endpoints;
mod jobs;
mod past;
mod people;
mod sign_in;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use axum::http::StatusCode;
use common::timestamp::Timestamp;
use serde_json::json;

pub(crate) use self::{api::Api, sign_in::sign_in};
use self::{
    api::{Credential, clock},
    endpoints::{BILLING, CRM, ORDERS, REPORTS, WAREHOUSE},
    past::{JOB_EVENTS, Past},
    people::People,
};
use crate::{
    functions::Function,
    inbox::{Inbox, Manner},
    outbox::Outbox,
    requests::RequestCounts,
};

/// The path that signs a browser in to the demo tenant.
pub(crate) const PATH: &str = "/demo";

/// The credentials of the demo tenant's owner. The account exists only on this machine.
#[derive(Debug, Clone)]
pub struct DemoTenant {
    /// The link that signs a browser in.
    pub link: String,
    /// The owner's email.
    pub email: &'static str,
    /// The owner's password.
    pub password: &'static str,
    /// Whether this run created the tenant.
    pub is_new: bool,
}

/// The parts of the stack that are needed to create the demo tenant.
pub(crate) struct Tools<'a> {
    pub(crate) api: &'a Api,
    pub(crate) mail: &'a Outbox,
    pub(crate) inbox: &'a Inbox,
    pub(crate) deliver: &'a Function,
    pub(crate) requests: &'a Arc<RequestCounts>,
    pub(crate) sqs: &'a aws_sdk_sqs::Client,
    pub(crate) queues: &'a BTreeMap<String, String>,
}

/// Creates the demo tenant, unless it already exists.
pub(crate) async fn make(tools: Tools<'_>) -> Result<DemoTenant> {
    let api = tools.api;
    let signed_in = api.sign_in(people::OWNER, people::PASSWORD).await?;
    let is_new = match signed_in.status() {
        StatusCode::OK => false,
        StatusCode::UNAUTHORIZED => true,
        other => bail!("the demo tenant's owner cannot sign in: {other}"),
    };
    let tenant = if is_new { Some(live(&tools).await?) } else { None };
    // Repeated in each run: the inbox is in memory only, even if the tables are in files.
    endpoints::ALL.iter().try_for_each(|endpoint| endpoint.configure(tools.inbox))?;
    tools.inbox.keep(true);
    if let Some(tenant) = tenant {
        for job in jobs::newest() {
            send(&tools, &tenant, JOB_EVENTS, &job.of(&tenant).to_string(), Duration::ZERO).await?;
        }
    }
    let link = format!("{}{PATH}", api.origin());
    Ok(DemoTenant { link, email: people::OWNER, password: people::PASSWORD, is_new })
}

/// Creates a tenant with a history of six days. Returns its id.
async fn live(tools: &Tools<'_>) -> Result<String> {
    let Tools { api, inbox, .. } = tools;
    let start = Timestamp::now();
    let ago = |minutes: u64| start.before(Duration::from_mins(minutes));
    const HOUR: u64 = 60;
    const DAY: u64 = 24 * HOUR;

    // The inbox does not show past webhooks.
    inbox.keep(false);
    let people = People { api, mail: tools.mail };
    let (owner, tenant) = clock(ago(6 * DAY)).within(people.found()).await?;
    let key = clock(ago(6 * DAY - HOUR)).within(people.issue_key(&owner, "Production")).await?;
    let key = Credential::Key(key);
    for (minute, endpoint) in (0..).zip(&endpoints::ALL) {
        let at = ago(5 * DAY - HOUR - minute);
        clock(at).within(endpoint.create(api, &key, inbox)).await?;
    }
    clock(ago(5 * DAY - 5 * HOUR)).within(people.invite_and_join(&owner)).await?;
    clock(ago(3 * DAY)).within(people.issue_key(&owner, "Staging")).await?;
    clock(ago(DAY)).within(people.invite(&owner, people::INVITED)).await?;

    let mut past = Past::new(tools.deliver, tools.requests)?;
    let days_ago = jobs::of_days_ago(ago);
    for (at, job) in days_ago.chain(jobs::of_the_last_day(ago)) {
        past.send(at, JOB_EVENTS, job.of(&tenant).to_string());
    }
    inbox.answer(CRM.path, Manner::Fail);
    past.until(ago(DAY + HOUR)).await?;
    clock(ago(DAY + HOUR)).within(CRM.update(api, &key, json!({"events": ["job.failed"]}))).await?;
    past.until(ago(15 * HOUR)).await?;
    // An outage that lasts an hour.
    inbox.answer(ORDERS.path, Manner::Fail);
    past.until(ago(14 * HOUR + 10)).await?;
    inbox.answer(ORDERS.path, Manner::Take);
    past.until(ago(9 * HOUR)).await?;
    inbox.answer(BILLING.path, Manner::Gone);
    past.until(ago(6 * HOUR)).await?;
    clock(ago(6 * HOUR)).within(REPORTS.update(api, &key, json!({"active": false}))).await?;
    past.until(ago(HOUR)).await?;
    // This use of the key appears in the key list.
    clock(ago(HOUR)).within(endpoints::list(api, &key)).await?;
    past.until(start).await?;
    for (at, queue, body) in past.left() {
        send(tools, &tenant, &queue, &body, at.since(Timestamp::now())).await?;
    }
    let secret = endpoints::NEW_WAREHOUSE_SECRET;
    WAREHOUSE.update(api, &key, json!({"signing_secret": secret})).await?;
    Ok(tenant)
}

async fn send(tools: &Tools<'_>, tenant: &str, queue: &str, body: &str, delay: Duration) -> Result<()> {
    let url = tools.queues.get(queue).with_context(|| format!("there is no queue {queue}"))?;
    let message = tools.sqs.send_message().queue_url(url).message_group_id(tenant).message_body(body);
    message.delay_seconds(i32::try_from(delay.as_secs())?).send().await.context("cannot send a message")?;
    Ok(())
}
