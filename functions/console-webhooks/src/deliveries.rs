//! The page of an organization's deliveries. The filters are in the address, so that the page can be shared as a link.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use common::{
    accounts::users::User,
    error::{Error, Result},
    http::{
        Call, Fault, People, Route, Typed, VerifiedPerson,
        page::{Field, Page, visible},
    },
    id::EndpointId,
    issue::{Problem, parse_name},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, error_name},
        endpoints::EndpointView,
        event::parse_event,
        log::search::{Cursor, Filter, Page as Found},
    },
};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::{app::App, states, times};

/// The query parameters: the filters, and the position in the list.
const FILTERS: [&str; 6] = ["endpoint", "status", "event", "job_id", "since", "until"];
const CURSOR: &str = "cursor";
/// The number of deliveries on a page.
const LIMIT: usize = 25;

pub(crate) fn show() -> Route<App, People> {
    let read = |_: &App, fields: &mut common::http::Fields| {
        Ok(fields.typed(&[
            ("endpoint", "Only deliveries to this endpoint."),
            ("status", "Only deliveries with this status."),
            ("event", "Only deliveries of this event."),
            ("job_id", "Only deliveries about this job."),
            ("since", "Only deliveries that were created at this time or later. A time without a zone is in UTC."),
            ("until", "Only deliveries that were created before this time. A time without a zone is in UTC."),
            ("cursor", "The cursor of the page to show, from the link on the previous page."),
        ]))
    };
    Route::get("/console/deliveries", VerifiedPerson, read, open)
        .summary("Shows the deliveries, newest first, with filters.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

/// The requested deliveries.
#[derive(Default)]
struct Wanted {
    endpoint: Option<EndpointId>,
    filter: Filter,
    cursor: Option<Cursor>,
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let (wanted, error) = match wanted(&link) {
        Ok(wanted) => (Some(wanted), None),
        Err(error) => (None, Some(error)),
    };
    let console = app.console(tenant, "/console/deliveries");
    let (endpoints, console) = tokio::try_join!(app.endpoints.list(tenant), console)?;
    let found = match wanted {
        Some(Wanted { endpoint, filter, cursor }) => {
            let shards = app.endpoints.shards(tenant, endpoint).await?;
            Some(app.log.search(tenant, &shards, &filter, cursor.as_ref(), LIMIT, now).await?)
        }
        None => None,
    };
    let content = html! {
        (filters(&link, &endpoints, error.as_ref()))
        @if let Some(found) = &found { (list(&link, found, &endpoints, now)) }
    };
    Ok(Page::new("Deliveries", content).refused(error).within(console))
}

/// Reads the query. An empty field is no filter, since a form submits all its fields.
fn wanted(link: &Typed) -> Result<Wanted> {
    link.clone().without_empty().read(|fields| {
        let endpoint = fields.optional_text("endpoint", EndpointId::parse);
        let status = fields.optional_text("status", parse_name);
        let event = fields.optional_text("event", parse_event);
        let job_id = fields.optional_text("job_id", |text| Ok(text.to_owned()));
        let since = fields.optional_text("since", moment);
        let until = fields.optional_text("until", moment);
        let cursor = fields.optional_text(CURSOR, Cursor::parse);
        let filter = Filter { status: status?, event: event?, job_id: job_id?, since: since?, until: until? };
        Ok(Wanted { endpoint: endpoint?, filter, cursor: cursor? })
    })
}

/// Parses a time of a form or a link. Without a zone, it is in UTC.
pub(crate) fn moment(text: &str) -> Result<Timestamp, Vec<Problem>> {
    let zoned = match text.len() {
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text.to_owned(),
    };
    Timestamp::parse(&zoned)
}

fn filters(link: &Typed, endpoints: &[EndpointView], error: Option<&Error>) -> Markup {
    let ids: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.id.to_string(), short(endpoint.name()))).collect();
    let mut all: Vec<(&str, &str)> = vec![("", "All")];
    all.extend(ids.iter().map(|(id, url)| (id.as_str(), url.as_str())));
    let chosen = link.get("endpoint");
    if !all.iter().any(|(id, _)| *id == chosen) {
        all.push((chosen, "Deleted endpoint"));
    }
    let input = |text: &str| moment(text).map_or_else(|_| text.to_owned(), times::local);
    let (since, until) = (input(link.get("since")), input(link.get("until")));
    let statuses = [
        ("", "All"),
        ("pending", "Pending"),
        ("delivered", "Delivered"),
        ("failed", "Failed"),
        ("held", "Held"),
        ("ended", "Ended"),
    ];
    let events = [
        ("", "All"),
        ("job.completed", "job.completed"),
        ("job.failed", "job.failed"),
        ("webhook.test", "webhook.test"),
    ];
    html! {
        form .filters method="get" action="/console/deliveries" role="search" aria-label="Filters" {
            (Field::select("endpoint", "Endpoint", &all, chosen).html("", error))
            (Field::select("status", "Status", &statuses, link.get("status")).html("", error))
            (Field::select("event", "Event", &events, link.get("event")).html("", error))
            (Field::text("job_id", "Job", "off", link.get("job_id")).filter().html("", error))
            (Field::moment("since", "From (UTC)", &since).filter().html("", error))
            (Field::moment("until", "Until (UTC)", &until).filter().html("", error))
            button { "Apply filters" }
            @if is_filtered(link) { a href="/console/deliveries" { "Clear filters" } }
        }
    }
}

fn is_filtered(link: &Typed) -> bool {
    FILTERS.iter().any(|name| !link.get(name).is_empty())
}

fn list(link: &Typed, found: &Found, endpoints: &[EndpointView], now: Timestamp) -> Markup {
    let nothing = match (&found.next, is_filtered(link)) {
        (Some(_), _) => "No deliveries found so far.",
        (None, true) => "No deliveries match these filters.",
        (None, false) => "No deliveries yet.",
    };
    html! {
        (table(&found.deliveries, Some(endpoints), nothing, now))
        nav .row aria-label="Pages" {
            @if !link.get(CURSOR).is_empty() { a href=(address(link, None)) { "Newest deliveries" } }
            @if let Some(next) = &found.next {
                a href=(address(link, Some(next))) { "Older deliveries" }
            }
        }
    }
}

/// The address of a page with the same filters.
fn address(link: &Typed, cursor: Option<&Cursor>) -> String {
    let mut query =
        form_urlencoded::Serializer::for_suffix("/console/deliveries?".to_owned(), "/console/deliveries?".len());
    query.extend_pairs(FILTERS.map(|name| (name, link.get(name))).into_iter().filter(|(_, value)| !value.is_empty()));
    query.extend_pairs(cursor.map(|cursor| (CURSOR, cursor.as_str())));
    query.finish()
}

/// A table of deliveries, or the text `nothing`. Without `endpoints`, all are of one endpoint, which has no column.
pub(crate) fn table(
    deliveries: &[Delivery],
    endpoints: Option<&[EndpointView]>,
    nothing: &str,
    now: Timestamp,
) -> Markup {
    let names = endpoints.map(|endpoints| -> BTreeMap<_, _> {
        endpoints.iter().map(|endpoint| (endpoint.id, short(endpoint.name()))).collect()
    });
    html! {
        @if deliveries.is_empty() { p { (nothing) } } @else {
            table .cards {
                thead {
                    tr {
                        th scope="col" { "Job" }
                        @if names.is_some() { th scope="col" { "Endpoint" } }
                        th scope="col" { "Event" }
                        th scope="col" { "Status" }
                        th scope="col" { "Last error" }
                        th scope="col" { "Attempts" }
                        th scope="col" { "Created" }
                    }
                }
                tbody {
                    @for delivery in deliveries {
                        @let is_deleted = match (&names, delivery.webhook_endpoint_id) {
                            (Some(names), Some(id)) => !names.contains_key(&id),
                            _ => false,
                        };
                        tr {
                            td {
                                a href={ "/console/deliveries/" (delivery.id) } { bdi .clip { (visible(&delivery.job_id)) } }
                            }
                            @if let Some(names) = &names {
                                td data-label="Endpoint" { (destination(delivery, names)) }
                            }
                            td data-label="Event" { (delivery.event.as_str()) }
                            td data-label="Status" { (states::of_delivery(delivery.status)) }
                            td data-label="Last error" { (last_error(delivery, now)) }
                            td data-label="Attempts" { (attempts(delivery, is_deleted, now)) }
                            td data-label="Created" { (times::ago(delivery.created_at, now)) }
                        }
                    }
                }
            }
        }
    }
}

fn destination(delivery: &Delivery, names: &BTreeMap<EndpointId, String>) -> Markup {
    match delivery.webhook_endpoint_id {
        None => html! { "Job callback" },
        Some(id) => match names.get(&id) {
            Some(name) => html! { a href={ "/console/endpoints/" (id) } { bdi .clip { (name) } } },
            None => html! { "Deleted endpoint" },
        },
    }
}

/// `HTTP 500, 3 min ago`, if the last attempt failed.
fn last_error(delivery: &Delivery, now: Timestamp) -> Markup {
    let failed = delivery.last_attempt.as_ref().filter(|last| last.outcome != "delivered");
    html! {
        @match failed {
            Some(last) => { (error_name(&last.outcome, last.status_code)) ", " (times::ago(last.at, now)) },
            None => "None",
        }
    }
}

/// `2, next in 5 min`. A deleted endpoint gets no more attempts.
fn attempts(delivery: &Delivery, is_deleted: bool, now: Timestamp) -> Markup {
    html! {
        (delivery.attempts)
        @if let Some(next) = delivery.next_attempt_at.filter(|_| !is_deleted) { ", next " (times::ago(next, now)) }
    }
}

/// The beginning of a URL without its scheme, to fit into a list.
pub(crate) fn short(url: &str) -> String {
    const MOST: usize = 60;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let shown: Cow<'_, str> = visible(rest);
    if shown.chars().count() <= MOST {
        return shown.into_owned();
    }
    shown.chars().take(MOST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_without_a_zone_is_in_utc() {
        let at = Timestamp::from_second(1_769_860_800).expect("a time");
        for text in ["2026-01-31T12:00", "2026-01-31T12:00:00", "2026-01-31T12:00:00.000Z", "2026-01-31T13:00:00+01:00"]
        {
            assert_eq!(moment(text).expect(text), at);
        }
        assert!(moment("yesterday").is_err() && moment("2026-01-31").is_err());
    }
}
