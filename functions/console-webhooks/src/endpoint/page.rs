//! An endpoint's page.

use std::time::Duration;

use common::{
    accounts::users::User,
    error::{Conflict, Error, Result},
    http::{
        Call, FormValues, Reply,
        page::{Page, alert, visible},
    },
    id::EndpointId,
    presentation::{docs::RECEIVING, times},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, Status},
        destination::EndpointUrl,
        endpoints::{EndpointView, Kind, LastError},
        log::search::Filter,
    },
};
use maud::{Markup, html};

use super::{
    explanations::{More, explanations},
    forms::{self, RejectedForm},
    header::{actions, header},
    missed_deliveries,
};
use crate::{
    app::App,
    chart,
    deliveries::{self, Of, short},
    diagnosis, live_updates,
    numbers::{EndpointNumbers, held_name},
    settings::{self, events},
};

/// The number of latest deliveries to show.
const SHOWN_DELIVERIES: usize = 10;
const MAX_COUNTED: usize = 1000;
/// The number of pending and of failed deliveries whose attempts are counted for a failing endpoint.
const MAX_READ: usize = 100;
/// The time after a change in which a link may show the confirmation.
const CONFIRMATION_TIME: Duration = Duration::from_mins(1);

const NOT_FOUND: Error = Error::NotFound("Endpoint not found");

/// Returns the id in the path.
pub(super) fn id(typed: &FormValues) -> Result<EndpointId> {
    EndpointId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

pub(super) async fn page<R>(
    app: &App,
    call: &Call<User, R>,
    id: EndpointId,
    link: &FormValues,
    refused: Option<RejectedForm<'_>>,
) -> Result<Page> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let (endpoint, console) = tokio::try_join!(app.endpoints.view(tenant, id), app.console(tenant, "/console"))?;
    let (shards, newest) = (endpoint.shards(), Filter::default());
    let kind = endpoint.kind;
    let waiting = async {
        match kind {
            Kind::Push => Ok(None),
            Kind::Pull => app.log.waiting(tenant, &shards, now).await.map(Some),
        }
    };
    let failing_since = endpoint.health.failing_since(now);
    let undelivered = async |status, limit| {
        let filter = Filter { status: Some(status), ..Filter::default() };
        app.log.search(tenant, &shards, &filter, None, limit, now).await.map(|page| page.deliveries)
    };
    let pending = async {
        match failing_since {
            Some(_) => undelivered(Status::Pending, MAX_READ).await,
            None => Ok(Vec::new()),
        }
    };
    let url = endpoint.url.as_deref().and_then(|url| EndpointUrl::parse(url).ok());
    let has_same_url = async {
        match &url {
            Some(url) => app.endpoints.has_other_at(tenant, url, id).await,
            None => Ok(false),
        }
    };
    let (numbers, details, waiting, recoveries, page, failed, pending, has_same_url) = tokio::try_join!(
        EndpointNumbers::read(app, tenant, vec![endpoint], None, now),
        app.log.details(tenant, &shards, chart::since(now), MAX_COUNTED, now),
        waiting,
        app.log.recoveries(tenant, Some(id)),
        app.log.search(tenant, &shards, &newest, None, SHOWN_DELIVERIES, now),
        undelivered(Status::Failed, if failing_since.is_some() { MAX_READ } else { 1 }),
        pending,
        has_same_url,
    )?;
    let mut numbers = numbers.into_iter().next().ok_or(NOT_FOUND)?;
    numbers.details = details;
    let attempts = failed.iter().chain(&pending).flat_map(Delivery::attempts_so_far);
    let has_failed = |attempt: &&Attempt| attempt.outcome != "delivered" && failing_since <= Some(attempt.at);
    let attempts = attempts.filter(has_failed).count();
    let erring = numbers.oldest_pending.iter().chain(&failed).chain(&page.deliveries);
    let erring = erring.filter(|delivery| LastError::of(delivery).is_some());
    let erring = erring.max_by_key(|delivery| delivery.last_attempt.as_ref().map(|last| last.at)).cloned();
    // The last error in the item may be up to a minute older than the latest one, or newer if its delivery has since
    // succeeded.
    let latest = erring.as_ref().and_then(LastError::of);
    let stored = numbers.last_error();
    let is_latest = latest.as_ref().map(|error| error.at) >= stored.as_ref().map(|error| error.at);
    let erring = erring.filter(|_| is_latest);
    numbers.endpoint.last_error = if is_latest { latest } else { stored };
    let numbers = &numbers;
    let notices = page.deliveries.iter().any(|delivery| EndpointId::parse(&delivery.job_id).is_ok());
    let named = if notices { app.endpoints.list(tenant).await? } else { Vec::new() };
    let named = if named.is_empty() { std::slice::from_ref(&numbers.endpoint) } else { &named };
    let (more, newest) = (More { waiting, erring, attempts, has_same_url }, recoveries.first());
    let is_changing = numbers.is_pending() || newest.is_some_and(|newest| !newest.done);
    let is_live = refused.is_none() && live_updates::is_wanted(link);
    let did = if refused.is_none() { done(app, link.get("did"), &numbers.endpoint, now) } else { None };
    let content = html! {
        @if let Some(done) = did { div .notice.good role="status" { p { (done) } } }
        @if let Some(RejectedForm { error, .. }) = &refused {
            @match error {
                Error::Invalid(_) => (forms::stale(error)),
                Error::Conflict(Conflict::HeadersNeeded) => div .notice.bad role="alert" {
                    p {
                        "You changed the URL, and the headers are secret. Enter the headers again, or choose “Remove all headers”. "
                        a href="#edit" { "Go to the form" }
                    }
                },
                error => (alert(error)),
            }
        }
        @if let Some(newest) = newest.filter(|newest| !newest.done) { (missed_deliveries::recovery(numbers, newest, now)) }
        (header(numbers, &more, now))
        (explanations(app, &call.base, numbers, &more, now))
        @if let Some(newest) = newest.filter(|newest| newest.done) { (missed_deliveries::recovery(numbers, newest, now)) }
        @if numbers.open.failed.count + numbers.held().count > 0 && newest.is_none_or(|newest| newest.done) {
            (missed_deliveries::again(numbers, now))
        }
        @if newest.is_none_or(|newest| newest.done) { (missed_deliveries::retry(numbers, now)) }
        section {
            h2 { "Last 24 hours" }
            (chart::large(&numbers.counted, &numbers.details, id, held_name(&numbers.endpoint), now))
            (chart::by_hour(&numbers.counted, id, held_name(&numbers.endpoint).label))
        }
        section {
            h2 { "Latest deliveries" }
            (deliveries::table(&page.deliveries, named, Of::OneEndpoint, "No deliveries yet. They appear here when a job ends, or when you send a test event.", now))
            p .row {
                a href={ "/console/deliveries?endpoint=" (id) } { "View all deliveries" }
                a href=(diagnosis::path(id)) { "Why does a signature not match?" }
                a href=(RECEIVING) { "Receiving webhooks" }
            }
        }
        section {
            h2 { "Settings" }
            (facts(&numbers.endpoint, now))
            @if call.caller.check_owner().is_ok() {
                p { a href={ "/console/audit?target=" (id) } { "View changes" } }
            }
        }
        (forms::all(app, numbers, refused.as_ref(), now))
    };
    let error = refused.map(|refused| refused.error);
    let title = short(&numbers.endpoint.name());
    let actions = html! { (live_updates::switch(is_live, is_changing, "?live=1", "?")) (actions(numbers)) };
    Ok(Page::new(title, content).actions(actions).refused(error).live(is_live && is_changing).within(console))
}

/// The notice about a finished action. It is shown only right after a change, because anyone can create such a link.
fn done(app: &App, did: &str, endpoint: &EndpointView, now: Timestamp) -> Option<&'static str> {
    match did {
        "unchanged" => Some("Nothing has changed."),
        _ if now.since(endpoint.updated_at) > CONFIRMATION_TIME => None,
        "activated" if endpoint.active => Some("Endpoint enabled. It gets new events."),
        "deactivated" if !endpoint.active => Some(match app.hold_for.end(now) {
            Some(_) => "Endpoint disabled. New events are held.",
            None => "Endpoint disabled. New events are lost.",
        }),
        "saved" => Some("Changes saved."),
        _ => None,
    }
}

fn facts(endpoint: &EndpointView, now: Timestamp) -> Markup {
    html! {
        dl {
            @if let Some(url) = &endpoint.url {
                dt { "URL" }
                dd .mono.whole { bdi .lines { (visible(url)) } }
            }
            dt { "ID" }
            dd .mono.whole { (endpoint.id) }
            dt { "Events" }
            dd { (events(endpoint)) }
            @for (name, value) in settings::shown(endpoint) {
                dt { (name) }
                dd { bdi .lines { (visible(&value)) } }
            }
            @if !endpoint.header_names.is_empty() {
                dt { "Headers" }
                dd .mono { (endpoint.header_names.join(", ")) }
            }
            dt { "Created" }
            dd { (times::when(endpoint.created_at, now)) }
        }
    }
}

/// The redirect after a form was submitted.
pub(super) fn after(id: EndpointId, did: &str) -> Reply {
    Reply::redirect(format!("/console/endpoints/{id}?did={did}"))
}
