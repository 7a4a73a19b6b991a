//! Is all well? The endpoints, those first that need somebody.

use std::sync::Arc;

use common::{
    error::Result,
    http::{
        Call, DID, Fault, People, Route, Typed, VerifiedPerson,
        page::{Form, Page, visible},
    },
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::Status,
        endpoints::{EndpointView, Kind},
        log::glance::{Backlog, Glance},
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use maud::{Markup, html};

use common::accounts::users::User;

use crate::{
    app::App,
    chart,
    deliveries::short,
    states::{self, State},
    times,
};

const PAGE: (&str, &str) = ("page", "Which page of the endpoints is shown. The first by default.");

/// How many endpoints are shown on a page. Of each, the log is read.
const SHOWN: usize = 10;
/// How many of the newest deliveries are read for a page, to all its endpoints together.
const READ: usize = 300;

/// An endpoint, and what the log says of it.
struct Row {
    endpoint: EndpointView,
    glance: Glance,
    /// What it missed, where that is not nothing.
    failed: Backlog,
    held: Backlog,
    /// What waits for an attempt.
    pending: Backlog,
}

pub(crate) fn show() -> Route<App, People> {
    Route::get("/console", VerifiedPerson, |_, fields| Ok(fields.typed(&[PAGE, DID])), open)
        .summary("The endpoints, those first that need somebody, with their last day.")
        .faults(&[Fault::EmailNotVerified])
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let (mut endpoints, console) = tokio::try_join!(app.endpoints.list(tenant), app.console(tenant, "/console"))?;
    endpoints.sort_by_key(urgency);
    let pages = endpoints.len().div_ceil(SHOWN).max(1);
    let page = link.get("page").parse().unwrap_or(1).clamp(1, pages);
    let is_troubled = endpoints.iter().filter(|endpoint| urgency(endpoint) < 2).count();
    let all = endpoints.len();
    let shown: Vec<_> = endpoints.into_iter().skip((page - 1) * SHOWN).take(SHOWN).collect();
    let share = READ / shown.len().max(1);
    let rows = stream::iter(shown).map(|endpoint| row(&app, tenant, endpoint, share, now));
    let rows: Vec<Row> = rows.buffered(SHOWN).try_collect().await?;
    let content = html! {
        @if link.get("did") == "deleted" { div .notice.good role="status" { p { "The endpoint has been deleted." } } }
        @if all == 0 { (empty()) } @else {
            div .row {
                p {
                    (counted(all, "endpoint")) ". "
                    @match is_troubled {
                        0 => "None is failing or disabled.",
                        number => strong { (counted(number, "endpoint")) " failing or disabled." },
                    }
                }
                a .button href="/console/endpoints/new" { "Add an endpoint" }
            }
            @for row in &rows { (banner(row)) }
            (table(&rows, now))
            (other_pages(page, pages))
        }
    };
    Ok(Page::new("Endpoints", content).within(console))
}

/// Endpoints that need somebody come first; those that nobody wants to be active come last.
fn urgency(endpoint: &EndpointView) -> u8 {
    match endpoint {
        EndpointView { active: true, failing_since: Some(_), .. } => 0,
        EndpointView { active: false, disabled: Some(_), .. } => 1,
        EndpointView { active: true, .. } => 2,
        EndpointView { active: false, .. } => 3,
    }
}

/// What the log says of an endpoint: of its newest deliveries, up to `most`.
async fn row(app: &App, tenant: &TenantId, endpoint: EndpointView, most: usize, now: Timestamp) -> Result<Row> {
    let shards = endpoint.shards();
    let glance = app.log.glance(tenant, &shards, chart::since(now), most, now);
    // The log of an endpoint that is well need not be searched: what failed is among the newest, or was long ago.
    let backlog = async |status, is_wanted: bool| match is_wanted {
        true => app.log.backlog(tenant, &shards, status, now).await,
        false => Ok(Backlog::default()),
    };
    let glance = glance.await?;
    let total = glance.counted.total;
    let needs = urgency(&endpoint) < 2;
    let (failed, held, pending) = tokio::try_join!(
        backlog(Status::Failed, needs || total.failed > 0),
        // What a pull endpoint holds is not missed: it waits to be taken.
        backlog(Status::Held, !endpoint.active || total.held > 0 && endpoint.kind == Kind::Push),
        backlog(Status::Pending, needs || total.pending > 0),
    )?;
    Ok(Row { endpoint, glance, failed, held, pending })
}

/// What waits for a person, with the button that does it.
fn banner(row: &Row) -> Markup {
    let Row { endpoint, glance, failed, held, .. } = row;
    let (id, name) = (endpoint.id, visible(endpoint.name()));
    let is_off = endpoint.disabled.is_some() && !endpoint.active;
    if endpoint.failing_since.is_none() && !is_off && (failed.count == 0 && (held.count == 0 || !endpoint.active)) {
        return html! {};
    }
    let oldest = [failed.oldest, held.oldest].into_iter().flatten().min();
    let reason = glance.last_failure.as_ref().map(|(_, reason)| reason.as_str());
    html! {
        div .notice.bad {
            p {
                strong { bdi { (name) } } ": "
                @if is_off { "disabled" } @else if failed.count + held.count == 0 { "failing" }
                @if is_off && failed.count + held.count > 0 { ", " }
                (missed(failed, held))
                @if let Some(oldest) = oldest { " since " (times::date_and_time(oldest)) }
                @if let Some(reason) = reason { ", last " (reason) ": " (states::reason(reason)) }
                "."
            }
            div .row {
                @if let Some(oldest) = oldest {
                    (Form {
                        to: &format!("/console/endpoints/{id}"),
                        button: if endpoint.active { "Send them again" } else { "Make it active, and send them again" },
                        hidden: &[("action", "recover"), ("since", &oldest.to_string()), ("activate", "yes")],
                        ..Form::default()
                    })
                }
                a href={ "/console/endpoints/" (id) } { "Look at it" }
            }
        }
    }
}

/// `12 failed, 3 held`.
pub(crate) fn missed(failed: &Backlog, held: &Backlog) -> String {
    let number = |backlog: &Backlog, word: &str| match (backlog.count, backlog.is_complete) {
        (0, _) => None,
        (count, true) => Some(format!("{count} {word}")),
        (count, false) => Some(format!("more than {count} {word}")),
    };
    let parts = [number(failed, "failed"), number(held, "held")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn table(rows: &[Row], now: Timestamp) -> Markup {
    html! {
        table .cards {
            thead {
                tr {
                    th scope="col" { "Endpoint" }
                    th scope="col" { "State" }
                    th scope="col" { "Events" }
                    th scope="col" { "Last 24 hours" }
                    th scope="col" { "Last failure" }
                    th scope="col" { "Oldest pending" }
                }
            }
            tbody { @for row in rows { (line(row, now)) } }
        }
    }
}

fn line(row: &Row, now: Timestamp) -> Markup {
    let Row { endpoint, glance, pending, .. } = row;
    html! {
        tr {
            td {
                a href={ "/console/endpoints/" (endpoint.id) } { bdi .clip { (short(endpoint.name())) } }
                @if let Some(description) = &endpoint.description {
                    bdi .soft.clip { (visible(description.as_str())) }
                }
            }
            td data-label="State" {
                (State::of(endpoint, glance).badge())
                @if is_rotating(endpoint, now) { " " span .soft { "two secrets" } }
                @if endpoint.kind == Kind::Pull { " " span .soft { "pull" } }
            }
            td .whole data-label="Events" { (events(endpoint)) }
            td data-label="Last 24 hours" { (chart::day(&glance.counted, now)) }
            td data-label="Last failure" {
                @if let Some((at, reason)) = &glance.last_failure { (reason) br; (times::when(*at, now)) } @else { "none" }
            }
            td data-label="Oldest pending" {
                @if let Some(oldest) = pending.oldest { (times::when(oldest, now)) } @else { "none" }
            }
        }
    }
}

/// Whether the secret before the latest rotation still signs.
pub(crate) fn is_rotating(endpoint: &EndpointView, now: Timestamp) -> bool {
    endpoint.previous_secret_expires_at.is_some_and(|end| now < end)
}

/// The events that an endpoint wants.
pub(crate) fn events(endpoint: &EndpointView) -> String {
    match &endpoint.events {
        Some(filter) => filter.names().collect::<Vec<_>>().join(", "),
        None => "all".to_owned(),
    }
}

fn empty() -> Markup {
    html! {
        p { "There is no endpoint yet. Add the address of a server of yours: when a job ends, it gets a signed request." }
        p { a .button href="/console/endpoints/new" { "Add an endpoint" } }
        p { "Or by the API, with a key of " a href="/console/keys" { "API keys" } ":" }
        pre { "curl \"$API/v1/webhooks/create\" -H \"x-api-key: $KEY\" \\\n  -d '{\"json\": {\"url\": \"https://example.com/hook\"}}'" }
    }
}

fn other_pages(page: usize, pages: usize) -> Markup {
    html! {
        @if pages > 1 {
            nav .row aria-label="Pages" {
                span { "Page " (page) " of " (pages) }
                @if page > 1 { a href={ "/console?page=" (page - 1) } { "Previous" } }
                @if page < pages { a href={ "/console?page=" (page + 1) } { "Next" } }
            }
        }
    }
}

/// `1 endpoint`, `2 endpoints`.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
