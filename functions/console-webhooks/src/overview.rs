//! The first page of the console: the endpoints, those with problems first.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    error::{Error, Result},
    http::{
        Call, Fault, People, Route, Typed, VerifiedPerson,
        page::{Form, Page, visible},
    },
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{error_meaning, error_name},
        endpoints::{EndpointView, Kind, LastError},
        log::{count::Bound, open::Backlog},
    },
};
use maud::{Markup, html};

use common::accounts::users::User;

use crate::{
    app::App,
    chart,
    deliveries::short,
    live::{self, LIVE},
    numbers::{Known, counted},
    states::State,
    times,
};

const FIELDS: [(&str, &str); 3] = [
    LIVE,
    ("page", "The page of the list to show. The default is the first."),
    ("deleted", "The id of an endpoint whose deletion is to be confirmed."),
];

/// The number of endpoints on a page. The log of each is read.
const SHOWN: usize = 10;
/// The number of newest deliveries that are read for all endpoints of a page together.
const READ: usize = 300;

pub(crate) fn show() -> Route<App, People> {
    Route::get("/console", VerifiedPerson, |_, fields| Ok(fields.typed(&FIELDS)), open)
        .summary("Shows the endpoints and their last 24 hours. Endpoints with problems come first.")
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
    let shown: Vec<_> = endpoints.drain((page - 1) * SHOWN..(page * SHOWN).min(all)).collect();
    let bound = Bound::Deliveries(READ / shown.len().max(1));
    let (rows, elsewhere) =
        tokio::try_join!(Known::read(&app, tenant, shown, bound, now), elsewhere(&app, tenant, endpoints, now))?;
    let recovering = recovering(&app, tenant, &rows).await?;
    let is_deleted = is_deleted(&app, tenant, link.get("deleted")).await?;
    let is_changing = !recovering.is_empty() || rows.iter().any(Known::is_pending);
    let is_live = live::is_wanted(&link);
    let [on, off] = ["&live=1", ""].map(|live| format!("/console?page={page}{live}"));
    let content = html! {
        @if is_deleted { div .notice.good role="status" { p { "Endpoint deleted." } } }
        @if all == 0 { (empty()) } @else {
            div .row.head {
                p {
                    (counted(all, "endpoint", "endpoints")) ", "
                    @match is_troubled {
                        0 => "none failing or disabled.",
                        number => strong { (number) " failing or disabled." },
                    }
                }
                (live::switch(is_live, is_changing, &on, &off))
                a .button href="/console/endpoints/new" { "Add endpoint" }
            }
            (on_other_pages(&elsewhere))
            @for row in &rows { (banner(row, recovering.contains(&row.endpoint.id))) }
            (table(&rows, now))
            (other_pages(page, pages))
        }
    };
    Ok(Page::new("Endpoints", content).live(is_live && is_changing).within(console))
}

/// The endpoints of other pages that are failing or disabled, or have failed deliveries, with the number of those.
async fn elsewhere(
    app: &App,
    tenant: &TenantId,
    others: Vec<EndpointView>,
    now: Timestamp,
) -> Result<Vec<(EndpointView, Backlog)>> {
    // An endpoint that has had no error and no other URL has no failed delivery. Reading the others costs a call for fifty.
    let may_have_failed = |endpoint: &EndpointView| {
        let is_new = endpoint.last_error.is_none() && endpoint.updated_at == endpoint.created_at;
        endpoint.kind == Kind::Pull || !is_new
    };
    let others: Vec<_> = others.into_iter().filter(may_have_failed).collect();
    let shards: Vec<_> = others.iter().map(EndpointView::shards).collect();
    let failed = app.log.failed(tenant, &shards, now).await?;
    let troubled = others.into_iter().zip(failed);
    Ok(troubled.filter(|(endpoint, failed)| urgency(endpoint) < 2 || failed.count > 0).collect())
}

/// The number of endpoints that are named in a notice.
const NAMED: usize = 5;

/// The notice about [`elsewhere`].
fn on_other_pages(elsewhere: &[(EndpointView, Backlog)]) -> Markup {
    html! {
        @if !elsewhere.is_empty() {
            div .notice.bad {
                p { strong { (counted(elsewhere.len(), "endpoint", "endpoints")) " on other pages" } ":" }
                ul {
                    @for (endpoint, failed) in elsewhere.iter().take(NAMED) {
                        li {
                            a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(endpoint.name())) } } ": "
                            @match (urgency(endpoint), failed.count) {
                                (0, 0) => "failing",
                                (1, 0) => "disabled",
                                (1, _) => { "disabled, " (missed(failed, &Backlog::default())) }
                                _ => (missed(failed, &Backlog::default())),
                            }
                        }
                    }
                    @if elsewhere.len() > NAMED { li { "and " (elsewhere.len() - NAMED) " more" } }
                }
            }
        }
    }
}

/// The endpoints whose missed deliveries are being resent. Without missed deliveries, none needs to be read.
async fn recovering(app: &App, tenant: &TenantId, rows: &[Known]) -> Result<BTreeSet<EndpointId>> {
    if rows.iter().all(|row| row.open.failed.count + row.held().count == 0) {
        return Ok(BTreeSet::new());
    }
    let recoveries = app.log.recoveries(tenant, None).await?;
    Ok(recoveries.into_iter().filter(|recovery| !recovery.done).map(|recovery| recovery.webhook_endpoint_id).collect())
}

/// Whether the link names an endpoint that was deleted. Anyone can make a link.
async fn is_deleted(app: &App, tenant: &TenantId, id: &str) -> Result<bool> {
    let Ok(id) = EndpointId::parse(id) else { return Ok(false) };
    let (existing, logged) = tokio::join!(app.endpoints.require(tenant, id), app.endpoints.shards(tenant, Some(id)));
    match (existing, logged) {
        (Err(Error::NotFound(_)), Ok(_)) => Ok(true),
        (Ok(()), _) | (_, Err(Error::NotFound(_))) => Ok(false),
        (Err(error), _) => Err(error),
    }
}

/// The order on the page: failing, disabled by the service, active, then disabled by a user.
fn urgency(endpoint: &EndpointView) -> u8 {
    match endpoint {
        EndpointView { active: true, failing_since: Some(_), .. } => 0,
        EndpointView { active: false, disabled: Some(_), .. } => 1,
        EndpointView { active: true, .. } => 2,
        EndpointView { active: false, .. } => 3,
    }
}

/// The problem of an endpoint, with the button that recovers its missed deliveries.
fn banner(row: &Known, is_recovering: bool) -> Markup {
    let (endpoint, failed, held) = (&row.endpoint, &row.open.failed, &row.held());
    let (id, name) = (endpoint.id, visible(endpoint.name()));
    let is_off = endpoint.disabled.is_some() && !endpoint.active;
    if endpoint.failing_since.is_none() && !is_off && (failed.count == 0 && (held.count == 0 || !endpoint.active)) {
        return html! {};
    }
    let oldest = oldest(failed, held);
    html! {
        div .notice.bad {
            p {
                strong { bdi { (name) } } ": "
                @if is_off { "disabled" } @else if failed.count + held.count == 0 { "failing" }
                @if is_off && failed.count + held.count > 0 { ", " }
                (missed(failed, held))
                @if let Some(oldest) = oldest { " since " (times::date(oldest)) }
                "."
                @if let Some(LastError { reason, status_code, detail, .. }) = &row.last_error() {
                    " Last error: " (error_name(reason, *status_code)) ". " (error_meaning(reason, detail.as_ref()))
                }
            }
            div .row {
                @if is_recovering { span { "A recovery is resending them." } } @else if let Some(oldest) = oldest {
                    (Form {
                        to: &format!("/console/endpoints/{id}"),
                        button: &resend_button(endpoint.active, failed, held),
                        hidden: &[("action", "recover"), ("since", &oldest.to_string()), ("activate", "yes")],
                        ..Form::default()
                    })
                }
                a href={ "/console/endpoints/" (id) } aria-label={ "View endpoint " (short(endpoint.name())) } { "View endpoint" }
            }
        }
    }
}

/// When the oldest of the missed deliveries was created.
pub(crate) fn oldest(failed: &Backlog, held: &Backlog) -> Option<Timestamp> {
    [failed.oldest_at(), held.oldest_at()].into_iter().flatten().min()
}

/// `12 failed and 3 held deliveries`. Empty if there are none.
pub(crate) fn missed(failed: &Backlog, held: &Backlog) -> String {
    let parts = [(failed, "failed"), (held, "held")].into_iter().filter(|(backlog, _)| backlog.count > 0);
    let parts: Vec<_> = parts.map(|(backlog, word)| format!("{} {word}", backlog.number())).collect();
    let last = if held.count > 0 { held } else { failed };
    match last.count {
        0 => String::new(),
        1 => format!("{} delivery", parts.join(" and ")),
        _ => format!("{} deliveries", parts.join(" and ")),
    }
}

/// The label of the button that recovers the missed deliveries: `Enable and resend 32 deliveries`.
pub(crate) fn resend_button(is_active: bool, failed: &Backlog, held: &Backlog) -> String {
    let kind = match (failed.count, held.count) {
        (_, 0) => "failed ",
        (0, _) => "held ",
        _ => "",
    };
    let deliveries = match (failed.count + held.count, failed.is_longer || held.is_longer) {
        (_, true) => format!("all {kind}deliveries"),
        (1, false) => format!("1 {kind}delivery"),
        (number, false) => format!("{number} {kind}deliveries"),
    };
    if is_active { format!("Resend {deliveries}") } else { format!("Enable and resend {deliveries}") }
}

fn table(rows: &[Known], now: Timestamp) -> Markup {
    html! {
        table .cards.rows.overview {
            thead {
                tr {
                    th scope="col" { "Endpoint" }
                    th scope="col" { "State" }
                    th scope="col" { "Events" }
                    th scope="col" { "Last 24 hours" }
                    th scope="col" { "Last error" }
                    th scope="col" { "Pending" }
                }
            }
            tbody { @for row in rows { (line(row, now)) } }
        }
    }
}

fn line(row: &Known, now: Timestamp) -> Markup {
    let Known { endpoint, open, counted, .. } = row;
    html! {
        tr {
            td {
                a .strong.clip href={ "/console/endpoints/" (endpoint.id) } title=(visible(endpoint.name())) {
                    bdi .mono { (short(endpoint.name())) }
                }
                @if let Some(description) = &endpoint.description {
                    " " bdi .soft.clip { (visible(description.as_str())) }
                }
            }
            td data-label="State" {
                (State::of(row).badge())
                @if is_rotating(endpoint, now) { " " span .soft.note { "two secrets" } }
                @if endpoint.kind == Kind::Pull { " " span .soft.note { "pull" } }
            }
            td data-label="Events" { (events(endpoint)) }
            td data-label="Last 24 hours" { (chart::day(counted, &short(endpoint.name()), now)) }
            td data-label="Last error" {
                (last_error(row, now))
            }
            td data-label="Pending" {
                @if let Some(oldest) = open.pending.oldest_at() {
                    a href={ "/console/deliveries?endpoint=" (endpoint.id) "&status=pending" }
                        aria-label={ (open.pending.number()) " pending to " (short(endpoint.name())) } {
                        (open.pending.number())
                    }
                    ", oldest " (times::ago(oldest, now))
                } @else { "None" }
            }
        }
    }
}

/// The latest error. Version 0.1.0 recorded none, so its absence proves nothing if there are failed deliveries.
fn last_error(row: &Known, now: Timestamp) -> Markup {
    html! {
        @match row.last_error() {
            Some(LastError { at, reason, status_code, .. }) => {
                (error_name(&reason, status_code)) ", " (times::ago(at, now))
            }
            None if row.endpoint.failing_since.is_some() || row.open.failed.count > 0 => "Not recorded",
            None => "None",
        }
    }
}

/// Whether the previous secret still signs deliveries.
pub(crate) fn is_rotating(endpoint: &EndpointView, now: Timestamp) -> bool {
    endpoint.previous_secret_expires_at.is_some_and(|end| now < end)
}

/// The events that an endpoint receives.
pub(crate) fn events(endpoint: &EndpointView) -> String {
    match &endpoint.events {
        Some(filter) => filter.names().collect::<Vec<_>>().join(", "),
        None => "All".to_owned(),
    }
}

fn empty() -> Markup {
    html! {
        p { "No endpoints yet. Add the URL of your server. It gets a signed request whenever a job ends." }
        p { a .button href="/console/endpoints/new" { "Add endpoint" } }
        p { "Or use the API with a key from " a href="/console/keys" { "API keys" } ":" }
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
