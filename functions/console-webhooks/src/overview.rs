//! The console's first page: the endpoints, those with problems first. With many of them, a search and the states
//! select some.

mod banner;
mod failed_deliveries;
mod failed_tests;
mod other_pages;
mod selection;
mod stored_state;
mod table;

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use common::{
    accounts::users::User,
    base_url::BaseUrl,
    error::{Error, Result},
    http::{Call, DeclaredError, FormValues, People, Route, VerifiedPerson, page::Page},
    id::{EndpointId, TenantId},
    presentation::docs::{CLIENT, RECEIVERS},
    timestamp::Timestamp,
    webhooks::log::{counts::Statistics, recovery::Recovery},
};
use maud::{Markup, Render, html};

use self::{
    failed_tests::failed_tests,
    other_pages::{elsewhere, erred_at, urgency},
    selection::Selection,
    stored_state::Stored,
};
use crate::{
    app::App,
    chart, deliveries,
    live_updates::{self, LIVE},
    numbers::{EndpointNumbers, counted},
};

const FIELDS: [(&str, &str); 2] = [LIVE, ("deleted", "The id of a deleted endpoint, to confirm its deletion.")];

/// The number of endpoints on a page. A statement counts the successes of about as many, and the undelivered deliveries
/// of about 12.
const PAGE_SIZE: usize = 50;
/// An organization with more endpoints than this has a search and the states.
const MAX_UNFILTERED: usize = 10;
/// The maximum number of banners, so that the table stays visible.
const MAX_BANNERS: usize = 3;

pub(crate) fn show() -> Route<App, People> {
    Route::get(
        "/console",
        VerifiedPerson,
        |_, fields| Ok(fields.typed(&[&selection::FIELDS[..], &FIELDS].concat())),
        get_page,
    )
    .summary("Shows the endpoints, with their deliveries in the last 24 hours. Endpoints with problems come first.")
    .errors(&[DeclaredError::EmailNotVerified])
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let (mut endpoints, console) = tokio::try_join!(app.endpoints.list(tenant), app.console(tenant, "/console"))?;
    // Of the endpoints with the same urgency, those that are retrying and those with recent errors come first.
    endpoints.sort_by_key(|endpoint| {
        let is_retrying = endpoint.health.streak.is_some();
        (urgency(endpoint, now), Reverse(is_retrying), Reverse(erred_at(endpoint, now)))
    });
    let all = endpoints.len();
    let mut troubles = Troubles::default();
    endpoints.iter().for_each(|endpoint| troubles.add(Stored::of(endpoint, now), urgency(endpoint, now)));
    let mut selection = Selection::of(&link);
    let found = selection.apply(&mut endpoints, now);
    let (shown, pages) = selection.take(&mut endpoints, PAGE_SIZE);
    let (rows, elsewhere) = tokio::try_join!(
        EndpointNumbers::read(&app, tenant, shown, Some(chart::since(now)), now),
        elsewhere(&app, tenant, endpoints, now)
    )?;
    let (banners, more) = {
        let mut all: Vec<_> = rows.iter().filter(|row| banner::is_needed(row)).collect();
        let more = all.len().saturating_sub(MAX_BANNERS);
        all.truncate(MAX_BANNERS);
        (all, more)
    };
    let (unfinished, failed_tests) =
        tokio::try_join!(unfinished(&app, tenant, &rows), failed_tests(&app, tenant, &rows, now))?;
    let recovering: BTreeSet<_> = unfinished.iter().filter_map(|recovery| recovery.selection.endpoint).collect();
    let is_deleted = is_deleted(&app, tenant, link.get("deleted")).await?;
    let is_changing = !unfinished.is_empty() || rows.iter().any(EndpointNumbers::is_pending);
    let is_live = live_updates::is_wanted(&link);
    let [on, off] = [true, false].map(|is_live| selection.address(is_live));
    let actions = html! {
        (live_updates::switch(is_live, is_changing, &on, &off))
        @if all > 0 { a .button href="/console/endpoints/new" { "Add endpoint" } }
    };
    let content = html! {
        @if is_deleted { div .notice.good role="status" { p { "Endpoint deleted." } } }
        @if all == 0 { (empty(&call.base, tenant)) } @else {
            p {
                (counted(all, "endpoint", "endpoints")) ", "
                (troubles) "."
                (totals(&rows, all))
            }
            (deliveries::finder())
            @if all > MAX_UNFILTERED || selection.is_filtered() { (selection::form(selection, &found)) }
            (other_pages::notice(&elsewhere, selection, now))
            // A search shows a part of the endpoints, but this is about all of them.
            @if !selection.is_filtered() { (failed_deliveries::notice(&rows, &elsewhere, &unfinished)) }
            @for row in banners { (banner::banner(&app, row, recovering.contains(&row.endpoint.id), now)) }
            @if more > 0 { p { (counted(more, "more endpoint in the table needs", "more endpoints in the table need")) " attention." } }
            @if rows.is_empty() { (selection::nothing(selection)) } @else { (table::table(&rows, &failed_tests, now)) }
            (selection::other_pages(selection, pages))
        }
    };
    Ok(Page::new("Endpoints", content).actions(actions).live(is_live && is_changing).within(console))
}

/// The numbers of endpoints with problems, across all pages.
#[derive(Default)]
struct Troubles {
    failing: usize,
    retrying: usize,
    disabled_by_us: usize,
    disabled_by_team: usize,
}

impl Troubles {
    fn add(&mut self, state: Stored, urgency: u8) {
        match (state, urgency) {
            (_, 0) => self.failing += 1,
            (Stored::Retrying, _) => self.retrying += 1,
            (_, 1) => self.disabled_by_us += 1,
            (_, 3) => self.disabled_by_team += 1,
            _ => {}
        }
    }
}

impl Render for Troubles {
    fn render(&self) -> Markup {
        let all = [
            (self.failing, "failing"),
            (self.retrying, "retrying"),
            (self.disabled_by_us, "disabled by us"),
            (self.disabled_by_team, "disabled by your team"),
        ];
        let words: Vec<_> =
            all.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        html! { @if words.is_empty() { "none failing or disabled" } @else { strong { (words.join(", ")) } } }
    }
}

/// The numbers of the endpoints in the table: `Of the events of 24 hours, tests excluded: 200 delivered, 40 failed`.
/// There are `all` endpoints in total.
fn totals(rows: &[EndpointNumbers], all: usize) -> Markup {
    let mut sum = Statistics::default();
    for EndpointNumbers { counted, .. } in rows {
        sum.total += counted.total;
        sum.complete_since = sum.complete_since.max(counted.complete_since);
        sum.open_since = sum.open_since.max(counted.open_since);
    }
    html! {
        @if !rows.is_empty() {
            " Of the events of 24 hours, tests excluded"
            @if rows.len() < all { ", to those in the table" }
            ": "
            @match chart::is_empty(&sum) { true => "no deliveries", false => (chart::numbers(&sum, "held")) }
            "."
        }
    }
}

/// Returns the unfinished recoveries. If no deliveries are missed, reads nothing.
async fn unfinished(app: &App, tenant: &TenantId, rows: &[EndpointNumbers]) -> Result<Vec<Recovery>> {
    if rows.iter().all(|row| row.open.failed.count + row.held().count == 0) {
        return Ok(Vec::new());
    }
    let recoveries = app.log.recoveries(tenant, None).await?;
    Ok(recoveries.into_iter().filter(|recovery| !recovery.done).collect())
}

/// Whether the endpoint in the link was deleted. The link alone does not prove this, because anyone can create one.
async fn is_deleted(app: &App, tenant: &TenantId, id: &str) -> Result<bool> {
    let Ok(id) = EndpointId::parse(id) else { return Ok(false) };
    let (existing, logged) = tokio::join!(app.endpoints.require(tenant, id), app.endpoints.shards(tenant, Some(id)));
    match (existing, logged) {
        (Err(Error::NotFound(_)), Ok(_)) => Ok(true),
        (Ok(()), _) | (_, Err(Error::NotFound(_))) => Ok(false),
        (Err(error), _) => Err(error),
    }
}

/// The first three steps of an organization without endpoints.
fn empty(base: &BaseUrl, tenant: &TenantId) -> Markup {
    html! {
        p { "No endpoints yet. An endpoint is the URL of your server, which gets a signed request whenever a job ends." }
        ol {
            li {
                p { strong { "Add an endpoint." } }
                p { a .button href="/console/endpoints/new" { "Add endpoint" } }
                p {
                    "No server that can be reached? The " a href=(CLIENT) { "client" }
                    " forwards events to a program on your computer:"
                }
                pre { "fanfare --api " (base) " login\nfanfare listen --to 3000/hook" }
            }
            li {
                p { strong { "Verify the signature." } }
                p {
                    "The next page shows the secret, and a complete receiver for your framework, which is also in the "
                    a href=(RECEIVERS) { "documentation" } "."
                }
            }
            li {
                p { strong { "See it arrive." } }
                p {
                    "Press “Send test event” on the endpoint's page. The service that runs your jobs sends the real events, with "
                    "your organization's ID. With access to its queue, you can send one, too:"
                 }
                pre { "fanfare send --tenant " (tenant) " --job job-1 --result '{\"answer\": 42}'" }
            }
        }
        p { "Or add an endpoint through the API, with an " a href="/console/keys" { "API key" } ":" }
        pre {
            "curl " (base) "/v1/webhooks/create -H \"x-api-key: $KEY\" \\\n"
            "  -d '{\"json\": {\"url\": \"https://example.com/hook\"}}'"
        }
    }
}
