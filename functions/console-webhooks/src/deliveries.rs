//! The page that lists an organization's deliveries. The filters are in the address, so people can share the page as a
//! link.

mod endpoint_filter;
mod filters;
mod query;
mod resend;
mod table;

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::Action,
    error::{Error, Result},
    http::{
        Call, DeclaredError, FormValues, People, Reply, Route, VerifiedPerson,
        page::{Page, alert},
    },
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, Status},
        endpoints::EndpointView,
        event::EventName,
        log::{
            search::DeliveryPage,
            undelivered::{STATUSES, UndeliveredQuery},
        },
    },
};
use maud::{Markup, html};

pub(crate) use self::filters::finder;
pub(crate) use self::table::{Of, clipped, deleted, destination, hover, none, one_line, short, subject, table, titled};
use self::{
    endpoint_filter::{ENDPOINT, Meant},
    query::{CURSOR, DeliveryQuery, FILTERS, IDS, LIMIT, NEWER, PATH, REST, address, is_filtered, remembered, wanted},
};
use crate::{app::App, live_updates};

pub(crate) fn show() -> Route<App, People> {
    let read = |_: &App, fields: &mut common::http::Fields| Ok(fields.typed(&[&FILTERS[..], &REST].concat()));
    Route::get(PATH, VerifiedPerson, read, get_page)
        .summary("Shows the deliveries, newest first, with filters. Opening the page changes nothing.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
        .redirects()
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&resend::FIELDS)), resend::resend)
        .records(&[Action::DeliveryResent])
        .summary("Resends several deliveries, each as `deliveries/resend` does, and shows them.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::NotFound])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Reply> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    // Links in emails and links from version 0.1.0 carry the job in a separate field.
    let link = link.or("q", "job_id");
    if !link.get(IDS).is_empty() {
        return Ok(resend::chosen(&app, tenant, &link, now).await?.into());
    }
    if let Ok(id) = DeliveryId::parse(link.get("q").trim())
        && !app.log.known(tenant, &[id]).await?.is_empty()
    {
        return Ok(Reply::redirect(format!("{PATH}/{id}")));
    }
    let (endpoints, console) = tokio::try_join!(app.endpoints.list(tenant), app.console(tenant, PATH))?;
    let meant = endpoint_filter::meant(&link, &endpoints);
    if let Ok(Some(Meant::One(id))) = meant {
        let to = address(&link, &[(ENDPOINT, &id.to_string())]);
        return Ok(Reply::redirect(to));
    }
    let page = match meant {
        Ok(Some(Meant::Several(found))) => {
            let form = filters::form(&link, &endpoints, None);
            Page::new("Deliveries", html! { (form) (endpoint_filter::choice(&link, &found)) })
        }
        meant => list(&app, tenant, &link, &endpoints, meant.err(), now).await?,
    };
    Ok(page.within(console).into())
}

/// The page with the deliveries that match, or with the form if the link is not valid. `error` is the issue with its
/// endpoint.
async fn list(
    app: &App,
    tenant: &TenantId,
    link: &FormValues,
    endpoints: &[EndpointView],
    error: Option<Error>,
    now: Timestamp,
) -> Result<Page> {
    let (wanted, error) = match error.map_or_else(|| wanted(link, now), Err) {
        Ok(wanted) => (Some(wanted), None),
        Err(error) => (None, Some(error)),
    };
    let found = match &wanted {
        Some(DeliveryQuery { endpoint, filter, cursor }) => {
            let shards = app.endpoints.shards(tenant, *endpoint).await?;
            let open = async {
                // The index can count deliveries only by status and time. For other filters, the deliveries would have
                // to be read.
                if filter.is_beyond_the_index() {
                    return Ok(None);
                }
                let query = UndeliveredQuery { shards: &shards, statuses: &STATUSES };
                let open = app.log.open_in(tenant, &[query], filter, now).await?;
                Ok(open.into_iter().next())
            };
            let search = app.log.search(tenant, &shards, filter, cursor.as_ref(), LIMIT, now);
            Some(tokio::try_join!(search, open)?)
        }
        None => None,
    };
    let is_live = live_updates::is_wanted(link);
    let is_pending = |found: &DeliveryPage| found.deliveries.iter().any(|delivery| delivery.status == Status::Pending);
    let is_changing = found.as_ref().is_some_and(|(found, _)| is_pending(found));
    let open = found.as_ref().and_then(|(_, open)| open.as_ref());
    let content = html! {
        @if let Some(error) = error.as_ref().filter(|error| !matches!(error, Error::Invalid(_))) { (alert(error)) }
        (filters::form(link, endpoints, error.as_ref()))
        (filters::tabs(link, open))
        @if let Some((found, _)) = &found {
            div .row {
                (resend::these(&found.deliveries, endpoints, link.get("status")))
                (resend::all(link, wanted.as_ref(), found, endpoints, now))
            }
            (deliveries(link, found, endpoints, now))
        }
    };
    let switch = live_updates::switch(is_live, is_changing, &address(link, &[("live", "1")]), &address(link, &[]));
    Ok(Page::new("Deliveries", content).actions(switch).refused(error).live(is_live && is_changing))
}

fn deliveries(link: &FormValues, found: &DeliveryPage, endpoints: &[EndpointView], now: Timestamp) -> Markup {
    let nothing = match (&found.next, is_filtered(link)) {
        (Some(_), _) => "No deliveries found so far. Older ones may match.",
        (None, true) if !link.get("q").is_empty() => {
            "No deliveries match these filters. An ID is found only as a whole, and upper and lower case count."
        }
        (None, true) => "No deliveries match these filters.",
        (None, false) => {
            "No deliveries yet. They appear here when a job ends, or when you send a test event to an endpoint."
        }
    };
    let cursor = link.get(CURSOR);
    let newer: Vec<_> = link.get(NEWER).split(' ').collect();
    let (last, before) = newer.split_last().map_or(("", [].as_slice()), |(last, before)| (*last, before));
    html! {
        (table(&found.deliveries, endpoints, Of::AllEndpoints, nothing, now))
        @if found.deliveries.is_empty() && found.next.is_none() { (unsubscribed(endpoints)) }
        nav .row aria-label="Pages" {
            @if !cursor.is_empty() {
                a href=(address(link, &[])) { "Newest deliveries" }
                a href=(address(link, &[(CURSOR, last), (NEWER, &before.join(" "))])) { "Newer" }
            }
            @if let Some(next) = &found.next {
                @let newer = remembered(&newer, cursor);
                a href=(address(link, &[(CURSOR, next.as_str()), (NEWER, &newer)])) {
                    @if found.deliveries.is_empty() { "Search older deliveries" } @else { "Older deliveries" }
                }
            }
        }
    }
}

/// If no endpoint gets the event `job.failed`, explains why failed jobs do not cause deliveries. Emails about failed
/// jobs are sent even then, and link to this list.
fn unsubscribed(endpoints: &[EndpointView]) -> Markup {
    let gets_failures =
        |endpoint: &EndpointView| endpoint.options.events.as_ref().is_none_or(|filter| filter.wants(EventName::Failed));
    html! {
        @if !endpoints.iter().any(gets_failures) {
            p {
                "No endpoint is subscribed to " code { "job.failed" } ", so failed jobs are not delivered. "
                a href="/console/endpoints/new" { "Add endpoint" }
            }
        }
    }
}
