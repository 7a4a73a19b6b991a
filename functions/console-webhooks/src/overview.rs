//! The first page of the console: the endpoints, those with problems first.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    error::{Error, Result},
    http::{
        Call, Fault, People, Route, Typed, VerifiedPerson,
        page::{Form, Page, visible},
    },
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{MAX_AGE, error_meaning, error_name},
        endpoints::{EndpointView, Kind, LastError},
        log::{
            count::{Bound, Counts, Statistics},
            open::Backlog,
        },
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

/// The number of endpoints on a page. A request reads the log of each.
const SHOWN: usize = 10;
/// The maximum number of newest deliveries that are read, for all endpoints of a page together.
const READ: usize = 300;

pub(crate) fn show() -> Route<App, People> {
    Route::get("/console", VerifiedPerson, |_, fields| Ok(fields.typed(&FIELDS)), open)
        .summary("Shows the endpoints and their last 24 hours. Endpoints with problems come first.")
        .faults(&[Fault::EmailNotVerified])
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let (mut endpoints, console) = tokio::try_join!(app.endpoints.list(tenant), app.console(tenant, "/console"))?;
    // Among the endpoints without a problem in their items, those with recent errors come first, because all their
    // attempts may fail.
    endpoints.sort_by_key(|endpoint| (urgency(endpoint), Reverse(erred_at(endpoint, now))));
    let pages = endpoints.len().div_ceil(SHOWN).max(1);
    let page = link.get("page").parse().unwrap_or(1).clamp(1, pages);
    let all = endpoints.len();
    let shown: Vec<_> = endpoints.drain((page - 1) * SHOWN..(page * SHOWN).min(all)).collect();
    let is_troubled = endpoints.iter().filter(|endpoint| urgency(endpoint) < 2).count();
    let (mut rows, elsewhere) = tokio::try_join!(
        Known::read(&app, tenant, shown, Bound::Deliveries(READ), now),
        elsewhere(&app, tenant, endpoints, now)
    )?;
    rows.sort_by_key(|row| State::of(row).urgency());
    let is_troubled = is_troubled
        + rows.iter().filter(|row| State::of(row).urgency() < 2).count()
        + elsewhere.iter().filter(|other| other.is_erring).count();
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
            (totals(&rows, pages))
            (on_other_pages(&elsewhere))
            @for row in &rows { (banner(&app, row, recovering.contains(&row.endpoint.id), now)) }
            (table(&rows, now))
            (other_pages(page, pages))
        }
    };
    Ok(Page::new("Endpoints", content).live(is_live && is_changing).within(console))
}

/// The totals of all endpoints on the page.
fn totals(rows: &[Known], pages: usize) -> Markup {
    let mut sum = Statistics::default();
    for Known { counted, .. } in rows {
        sum.total += counted.total;
        sum.complete_since = sum.complete_since.max(counted.complete_since);
        sum.open_since = sum.open_since.max(counted.open_since);
    }
    html! {
        p {
            @if pages > 1 { "To the endpoints on this page" } @else { "To all endpoints" }
            " in 24 hours: "
            @match sum.total == Counts::default() { true => "no deliveries", false => (chart::numbers(&sum)) }
            ". "
            span .soft { "Tests are not counted." }
        }
    }
}

/// An endpoint on another page of the list.
struct Elsewhere {
    endpoint: EndpointView,
    failed: Backlog,
    /// Whether all attempts fail, but no delivery has failed permanently since the endpoint last worked.
    is_erring: bool,
}

/// Finds the endpoints on other pages that are failing or disabled, or have failed deliveries.
async fn elsewhere(app: &App, tenant: &TenantId, others: Vec<EndpointView>, now: Timestamp) -> Result<Vec<Elsewhere>> {
    // An endpoint without an error since its creation has no failed deliveries. For the others, one call reads fifty
    // endpoints.
    let may_have_failed = |endpoint: &EndpointView| {
        let is_new = endpoint.last_error.is_none() && endpoint.updated_at == endpoint.created_at;
        endpoint.kind == Kind::Pull || !is_new
    };
    let others = others.into_iter().filter(may_have_failed);
    let may_err = |endpoint: &EndpointView| urgency(endpoint) == 2 && erred_at(endpoint, now).is_some();
    let (mut suspects, mut others): (Vec<_>, Vec<_>) = others.partition(may_err);
    others.extend(suspects.split_off(SUSPECTS.min(suspects.len())));
    let [suspected, shards] =
        [&suspects, &others].map(|endpoints| endpoints.iter().map(EndpointView::shards).collect::<Vec<_>>());
    let read = async {
        let open = app.log.open(tenant, &suspected, now).await?;
        Known::uncounted(app, tenant, suspects, &open, now).await
    };
    let (suspects, failed) = tokio::try_join!(read, app.log.failed(tenant, &shards, now))?;
    let others = others.into_iter().zip(failed);
    let others = others.map(|(endpoint, failed)| Elsewhere { endpoint, failed, is_erring: false });
    let suspects = suspects.into_iter().map(|known| {
        let is_erring = matches!(State::of(&known), State::Erring(_));
        Elsewhere { failed: known.open.failed, endpoint: known.endpoint, is_erring }
    });
    let is_troubled = |other: &Elsewhere| urgency(&other.endpoint) < 2 || other.failed.count > 0 || other.is_erring;
    Ok(others.chain(suspects).filter(is_troubled).collect())
}

/// The maximum number of endpoints with recent errors on other pages that are checked, which reads their deliveries.
const SUSPECTS: usize = 30;
/// The time for which an error counts as recent: the maximum time for which a delivery is retried.
const RECENT: Duration = MAX_AGE;

/// Returns the time of the endpoint's last error, if it is recent.
fn erred_at(endpoint: &EndpointView, now: Timestamp) -> Option<Timestamp> {
    let at = endpoint.last_error.as_ref().map(|error| error.at);
    at.filter(|at| now.since(*at) < RECENT)
}

/// The maximum number of endpoints that a notice names.
const NAMED: usize = 5;

/// The notice about [`elsewhere`].
fn on_other_pages(elsewhere: &[Elsewhere]) -> Markup {
    html! {
        @if !elsewhere.is_empty() {
            div .notice.bad {
                p { strong { (counted(elsewhere.len(), "endpoint", "endpoints")) " on other pages" } ":" }
                ul {
                    @for Elsewhere { endpoint, failed, is_erring } in elsewhere.iter().take(NAMED) {
                        li {
                            a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(endpoint.name())) } } ": "
                            @match (urgency(endpoint), failed.count) {
                                _ if *is_erring => "all attempts fail",
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

/// Returns the endpoints whose missed deliveries are being resent. If no deliveries are missed, reads nothing.
async fn recovering(app: &App, tenant: &TenantId, rows: &[Known]) -> Result<BTreeSet<EndpointId>> {
    if rows.iter().all(|row| row.open.failed.count + row.held().count == 0) {
        return Ok(BTreeSet::new());
    }
    let recoveries = app.log.recoveries(tenant, None).await?;
    Ok(recoveries.into_iter().filter(|recovery| !recovery.done).map(|recovery| recovery.webhook_endpoint_id).collect())
}

/// Whether the endpoint in the link was deleted. The link alone is no proof, because anyone can make one.
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
fn banner(app: &App, row: &Known, is_recovering: bool, now: Timestamp) -> Markup {
    let (endpoint, failed, held) = (&row.endpoint, &row.open.failed, &row.held());
    let (id, name) = (endpoint.id, visible(endpoint.name()));
    let (state, is_missed) = (State::of(row), failed.count + held.count > 0);
    if state.urgency() >= 2 && !is_missed {
        return html! {};
    }
    let is_bad = state.urgency() < 2 || failed.count > 0;
    let oldest = oldest(failed, held);
    html! {
        div .notice.bad[is_bad] {
            p {
                strong { bdi { (name) } }
                @if let Some(description) = &endpoint.description { " " bdi .soft { (visible(description.as_str())) } }
                ": "
                @match state {
                    State::Disabled(_) => "disabled",
                    State::Inactive => "disabled by your team",
                    State::Erring(since) => {
                        "all attempts fail since " (times::date(since)) "; "
                        (counted(row.open.pending.number(), "delivery waits", "deliveries wait"))
                    }
                    State::Failing(_) if !is_missed => "failing",
                    _ => "",
                }
                @if is_missed {
                    @if !endpoint.active || matches!(state, State::Erring(_)) { ", " }
                    (missed(failed, held))
                    @if let Some(oldest) = oldest { " since " (times::date(oldest)) }
                }
                "."
                @if !endpoint.active { (kept(app, endpoint, now)) }
                @if is_bad && let Some(LastError { reason, status_code, detail, .. }) = &row.last_error() {
                    " Last error: " (error_name(reason, *status_code)) ". " (error_meaning(reason, detail.as_ref()))
                }
            }
            div .row {
                @if is_recovering { span { "They are being resent." } } @else if let Some(oldest) = oldest {
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

/// The time until which events for an inactive endpoint are kept.
pub(crate) fn kept(app: &App, endpoint: &EndpointView, now: Timestamp) -> Markup {
    let inactive_since = endpoint.inactive_since.or(endpoint.disabled.map(|(at, _)| at));
    html! {
        @match inactive_since.map(|at| app.hold_for.end(at)) {
            Some(Some(end)) if end > now => {
                " Events are kept for another " (times::lasting("until", end, now)) "; later ones are lost."
            }
            Some(Some(end)) => { " Events since " (times::date(end)) " are lost." }
            Some(None) => " Events are lost until you enable it.",
            None => "",
        }
    }
}

/// When the oldest of the missed deliveries was created.
pub(crate) fn oldest(failed: &Backlog, held: &Backlog) -> Option<Timestamp> {
    [failed.oldest_at(), held.oldest_at()].into_iter().flatten().min()
}

/// Formats the missed deliveries: `12 failed and 3 held deliveries`. Empty if there are none.
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

/// The label of the button that sends pending deliveries now: `Retry 24 pending deliveries now`.
pub(crate) fn retry_button(pending: &Backlog) -> String {
    match (pending.count, pending.is_longer) {
        (_, true) => "Retry all pending deliveries now".to_owned(),
        (1, false) => "Retry 1 pending delivery now".to_owned(),
        (number, false) => format!("Retry {number} pending deliveries now"),
    }
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

/// The latest error. Version 0.1.0 did not record errors, so an endpoint with failed deliveries may have none.
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

/// Whether the endpoint's previous secret is still in use.
pub(crate) fn is_rotating(endpoint: &EndpointView, now: Timestamp) -> bool {
    endpoint.previous_secret_expires_at.is_some_and(|end| now < end)
}

/// Names the events that an endpoint gets.
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
