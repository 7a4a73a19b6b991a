//! The page of an endpoint.

use std::time::Duration;

use common::{
    error::{Conflict, Error, Result},
    http::{
        Reply, Typed,
        page::{Form, Page, alert, visible},
    },
    id::{EndpointId, TenantId},
    presentation::docs::RECEIVING,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status, error_meaning, error_name},
        endpoints::{EndpointView, Kind, LastError, Pulled},
        log::{
            count::Bound,
            pull::{MOST_COUNTED, Waiting},
            search::Filter,
        },
    },
};
use maud::{Markup, html};

use super::{
    forms::{self, Refused},
    missed,
};
use crate::{
    app::App,
    chart,
    deliveries::{self, short},
    live,
    numbers::{Known, counted, failures, is_gone},
    overview::{events, is_rotating, kept},
    pull,
    states::State,
    times,
};

/// The number of latest deliveries that are shown, and the maximum number that are counted.
const SHOWN: usize = 10;
const COUNTED: usize = 1000;
/// The time after a change within which a link may show its confirmation.
const JUST: Duration = Duration::from_secs(60);

const NOT_FOUND: Error = Error::NotFound("Endpoint not found");

/// Returns the id in the path.
pub(super) fn id(typed: &Typed) -> Result<EndpointId> {
    EndpointId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

/// The numbers that only this page shows.
struct More {
    /// The deliveries of a pull endpoint that wait to be received.
    waiting: Option<Waiting>,
    /// The delivery with the latest failed attempt, among the newest and the oldest undelivered ones.
    erring: Option<Delivery>,
}

pub(super) async fn page(
    app: &App,
    tenant: &TenantId,
    id: EndpointId,
    link: &Typed,
    refused: Option<Refused<'_>>,
) -> Result<Page> {
    let now = Timestamp::now();
    let (endpoint, console) = tokio::try_join!(app.endpoints.view(tenant, id), app.console(tenant, "/console"))?;
    let (shards, newest) = (endpoint.shards(), Filter::default());
    let kind = endpoint.kind;
    let waiting = async {
        match kind {
            Kind::Push => Ok(None),
            Kind::Pull => app.log.waiting(tenant, &shards, now).await.map(Some),
        }
    };
    let failed = Filter { status: Some(Status::Failed), ..Filter::default() };
    let (known, waiting, recoveries, page, failed) = tokio::try_join!(
        Known::read(app, tenant, vec![endpoint], Bound::Details(COUNTED), now),
        waiting,
        app.log.recoveries(tenant, Some(id)),
        app.log.search(tenant, &shards, &newest, None, SHOWN, now),
        app.log.search(tenant, &shards, &failed, None, 1, now),
    )?;
    let known = known.first().ok_or(NOT_FOUND)?;
    let erring = known.oldest_pending.iter().chain(&failed.deliveries).chain(&page.deliveries);
    let erring = erring.filter(|delivery| LastError::of(delivery).is_some());
    let erring = erring.max_by_key(|delivery| delivery.last_attempt.as_ref().map(|last| last.at)).cloned();
    let (more, newest) = (More { waiting, erring }, recoveries.first());
    let is_changing = known.is_pending() || newest.is_some_and(|newest| !newest.done);
    let is_live = refused.is_none() && live::is_wanted(link);
    let did = if refused.is_none() { done(link.get("did"), &known.endpoint, now) } else { None };
    let content = html! {
        @if let Some(done) = did { div .notice.good role="status" { p { (done) } } }
        @if let Some(Refused { error, .. }) = &refused {
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
        (header(known, now))
        (explanations(app, known, &more, now))
        (missed::recovery(known, newest))
        @if known.open.failed.count + known.held().count > 0 && newest.is_none_or(|newest| newest.done) {
            (missed::again(known))
        }
        @if newest.is_none_or(|newest| newest.done) { (missed::retry(known)) }
        @if is_changing || is_live {
            p .row {
                @if is_changing { a href="?" { "Refresh" } }
                (live::switch(is_live, is_changing, "?live=1", "?"))
            }
        }
        section {
            h2 { "Last 24 hours" }
            (chart::large(&known.counted, id, now))
            (chart::by_hour(&known.counted, id))
        }
        section {
            h2 { "Latest deliveries" }
            (deliveries::table(&page.deliveries, None, "No deliveries yet. They appear here when a job ends, or when you send a test event.", now))
            p .row {
                a href={ "/console/deliveries?endpoint=" (id) } { "View all deliveries" }
                a href=(RECEIVING) { "Receiving webhooks" }
            }
        }
        section {
            h2 { "Settings" }
            (facts(&known.endpoint))
        }
        (forms::all(app, known, refused.as_ref(), now))
    };
    let error = refused.map(|refused| refused.error);
    let title = short(known.endpoint.name());
    Ok(Page::new(title, content).refused(error).live(is_live && is_changing).within(console))
}

/// The notice about a finished action. It is shown only right after a change, because anyone can make such a link.
fn done(did: &str, endpoint: &EndpointView, now: Timestamp) -> Option<&'static str> {
    match did {
        "unchanged" => Some("Nothing has changed."),
        _ if now.since(endpoint.updated_at) > JUST => None,
        "activated" if endpoint.active => Some("Endpoint enabled. New events are sent to it."),
        "deactivated" if !endpoint.active => Some("Endpoint disabled. New events are held."),
        "saved" => Some("Changes saved."),
        _ => None,
    }
}

/// The state, the numbers of the last 24 hours and the last error, in a row.
fn header(known: &Known, now: Timestamp) -> Markup {
    let (endpoint, state) = (&known.endpoint, State::of(known));
    let list = |status: &str| format!("/console/deliveries?endpoint={}&status={status}", endpoint.id);
    let (delivered, ended) = known.successes(now);
    html! {
        @if let Some(description) = &endpoint.description { p { bdi { (visible(description.as_str())) } } }
        div .head {
            dl .stats {
                div {
                    dt { "State" }
                    dd { (state.badge()) }
                }
                div {
                    dt { "Success rate" }
                    dd {
                        @match percent(delivered, ended) {
                            Some(percent) => { strong { (percent) } " " span .soft { "of " (ended) } },
                            None if matches!(state, State::Erring(_)) => { strong { "0 %" } " " span .soft { "so far" } },
                            None => "–",
                        }
                    }
                }
                @if endpoint.kind == Kind::Push {
                    div {
                        dt { "p95 of successes" }
                        dd { @match known.counted.p95() { Some(ms) => strong { (ms) " ms" }, None => "–" } }
                    }
                }
                @for (status, word, backlog) in [
                    ("failed", "Failed", &known.open.failed),
                    ("held", if endpoint.kind == Kind::Pull && endpoint.active { "To fetch" } else { "Held" }, &known.open.held),
                    ("pending", "Pending", &known.open.pending),
                ] {
                    div {
                        dt { (word) }
                        dd {
                            @if let Some(oldest) = backlog.oldest_at() {
                                a .strong href=(list(status)) aria-label={ (backlog.number()) " " (status) " deliveries" } { (backlog.number()) }
                                // Only here: notices show the age of the failed and held deliveries.
                                @if status == "pending" { " " span .soft { "oldest " (times::ago(oldest, now)) } }
                            } @else { "0" }
                        }
                    }
                }
                div {
                    dt { "Last error" }
                    dd {
                        @match known.last_error() {
                            Some(LastError { at, reason, status_code, .. }) => {
                                strong { (error_name(&reason, status_code)) } ", " (times::ago(at, now))
                            }
                            None => "None",
                        }
                    }
                }
            }
            (actions(endpoint))
        }
    }
}

/// Formats a rounded percentage: `98.5 %`. It is 100 % only if `part` equals `all`, and 0 % only if `part` is zero.
fn percent(part: usize, all: usize) -> Option<String> {
    let rounded = (part * 1000 + all / 2).checked_div(all)?;
    let tenths = match rounded {
        1000 if part < all => 999,
        0 if part > 0 => 1,
        tenths => tenths,
    };
    Some(if tenths.is_multiple_of(10) {
        format!("{} %", tenths / 10)
    } else {
        format!("{}.{} %", tenths / 10, tenths % 10)
    })
}

/// The meaning of the state, and other facts about the endpoint.
fn explanations(app: &App, known: &Known, more: &More, now: Timestamp) -> Markup {
    let (endpoint, state) = (&known.endpoint, State::of(known));
    html! {
        @if let Some(waiting) = &more.waiting { (pulled(endpoint, *waiting, now)) }
        @if let Some(meaning) = state.meaning() {
            p {
                (meaning)
                @match state {
                    State::Failing(since) => { (failing(app, known, since, now)) },
                    State::Erring(since) => {
                        " The first attempt failed " (times::when(since, now)) "; "
                        (counted(known.open.pending.number(), "delivery waits", "deliveries wait"))
                        ". We send an email when the first delivery is given up."
                    },
                    _ => "",
                }
            }
        }
        @if !endpoint.active {
            p {
                @if let Some(at) = endpoint.inactive_since { "Disabled " (times::when(at, now)) "." }
                (kept(app, endpoint, now))
            }
        }
        @if let Some(LastError { reason, detail, .. }) = known.last_error() {
            (last_error(&error_meaning(&reason, detail.as_ref()), more.erring.as_ref(), now))
        }
        @if is_rotating(endpoint, now) && let Some(end) = endpoint.previous_secret_expires_at {
            p {
                "Secret rotated. The old secret also signs deliveries for another " (times::lasting("until", end, now)) "."
            }
        }
    }
}

/// Explains how long an endpoint has been failing, and when it will be disabled.
fn failing(app: &App, known: &Known, since: Timestamp, now: Timestamp) -> Markup {
    let first = failures(&known.endpoint, known.oldest_failed.as_ref()).first().map(|first| first.at);
    html! {
        " First delivery given up " (times::when(since, now)) "."
        @if let Some(first) = first.filter(|first| *first < since) {
            " The oldest failed one was first tried " (times::when(first, now)) "."
        }
        @if !app.disable_after.is_zero() {
            @let end = since.after(app.disable_after);
            " If none succeeds, the endpoint is disabled by the first delivery that fails after " (times::date(end)) "."
        }
    }
}

/// The meaning of the last error, and the receiver's response. The header shows the name and the time of the error.
fn last_error(meaning: &str, erring: Option<&Delivery>, now: Timestamp) -> Markup {
    let attempt = erring.and_then(|delivery| delivery.last_attempt.as_ref());
    html! {
        p {
            (meaning)
            @if let (Some(delivery), Some(attempt)) = (erring, attempt) {
                " Latest failed attempt: " (times::when(attempt.at, now)) ", job "
                a href={ "/console/deliveries/" (delivery.id) } { bdi .mono { (short(&delivery.job_id)) } }
                "."
            }
        }
        @if let Some(response) = attempt.and_then(|attempt| attempt.response.as_deref()) {
            p { "The receiver responded:" }
            pre tabindex="0" role="group" aria-label="Response" { bdi { (visible(response)) } }
        }
    }
}

fn facts(endpoint: &EndpointView) -> Markup {
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
            @if let Some(workflows) = &endpoint.workflows {
                dt { "Workflows" }
                dd { bdi .lines { (visible(&workflows.names().collect::<Vec<_>>().join(", "))) } }
            }
            @if !endpoint.header_names.is_empty() {
                dt { "Headers" }
                dd .mono { (endpoint.header_names.join(", ")) }
            }
            dt { "Created" }
            dd { (times::date(endpoint.created_at)) }
        }
    }
}

fn actions(endpoint: &EndpointView) -> Markup {
    let (button, action) =
        if endpoint.active { ("Disable endpoint", "deactivate") } else { ("Enable endpoint", "activate") };
    html! {
        div .row.actions {
            (Form { button: "Send test event", is_secondary: true, hidden: &[("action", "test")], ..Form::default() })
            @if is_gone(endpoint) {
                a .button.secondary href="?confirm=activate" { "Enable endpoint …" }
            } @else {
                (Form { button, is_secondary: true, hidden: &[("action", action)], ..Form::default() })
            }
        }
    }
}

/// The waiting deliveries of a pull endpoint, and the times of the last receive and the last poll.
fn pulled(endpoint: &EndpointView, waiting: Waiting, now: Timestamp) -> Markup {
    let Pulled { asked_at, taken_at } = endpoint.pulled;
    html! {
        p {
            "This is a pull endpoint: your program fetches its deliveries from the API. "
            strong { (at_most(waiting.due)) " to fetch" }
            @if waiting.leased > 0 { ", " (at_most(waiting.leased)) " fetched and not settled yet" }
            "."
        }
        p {
            @match taken_at {
                Some(at) => { "Last delivery fetched " (times::when(at, now)) ". " },
                None => "No delivery fetched yet. ",
            }
            @match asked_at {
                Some(at) => { "A program last asked for deliveries " (times::when(at, now)) "." },
                None => "No program has asked for deliveries yet.",
            }
        }
        (pull::usage(endpoint.id))
    }
}

/// Formats a number that was counted up to [`MOST_COUNTED`].
fn at_most(count: usize) -> String {
    if count >= MOST_COUNTED { format!("{MOST_COUNTED} or more") } else { count.to_string() }
}

/// The redirect after a form.
pub(super) fn after(id: EndpointId, did: &str) -> Reply {
    Reply::Redirect { to: format!("/console/endpoints/{id}?did={did}"), cookies: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_but_never_to_all() {
        let percents =
            [(0, 0), (0, 3), (2, 3), (999, 1000), (9_999, 10_000), (7, 7)].map(|(part, all)| percent(part, all));
        let expected = [None, Some("0 %"), Some("66.7 %"), Some("99.9 %"), Some("99.9 %"), Some("100 %")];
        assert_eq!(percents.each_ref().map(Option::as_deref), expected);
    }
}
