//! The page of an endpoint.

use std::time::Duration;

use common::{
    error::{Error, Result},
    http::{
        Reply, Typed,
        page::{Form, Page, alert, visible},
    },
    id::{EndpointId, TenantId},
    presentation::docs::RECEIVING,
    timestamp::Timestamp,
    webhooks::{
        delivery::{error_meaning, error_name},
        endpoints::{EndpointView, Kind, LastError, Pulled},
        log::{
            count::Bound,
            pull::{MOST_COUNTED, Waiting},
            recovery::Recovery,
            search::Filter,
        },
    },
};
use maud::{Markup, html};

use super::forms::{self, Refused};
use crate::{
    app::App,
    chart,
    deliveries::{self, short},
    live,
    numbers::{Known, counted},
    overview::{events, is_rotating, missed, oldest, resend_button},
    states::State,
    times,
};

/// The numbers of latest deliveries that are shown and counted.
const SHOWN: usize = 10;
const COUNTED: usize = 1000;
/// The time for which a link may confirm a change.
const JUST: Duration = Duration::from_secs(60);

const NOT_FOUND: Error = Error::NotFound("Endpoint not found");

/// The endpoint that the path names.
pub(super) fn id(typed: &Typed) -> Result<EndpointId> {
    EndpointId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

/// The numbers that only this page shows.
struct More {
    /// The deliveries that wait to be received, for a pull endpoint.
    waiting: Option<Waiting>,
    recoveries: Vec<Recovery>,
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
    let (known, waiting, recoveries, page) = tokio::try_join!(
        Known::read(app, tenant, vec![endpoint], Bound::Details(COUNTED), now),
        waiting,
        app.log.recoveries(tenant, Some(id)),
        app.log.search(tenant, &shards, &newest, None, SHOWN, now),
    )?;
    let (known, more) = (known.first().ok_or(NOT_FOUND)?, More { waiting, recoveries });
    let is_changing = known.is_pending() || more.recoveries.first().is_some_and(|newest| !newest.done);
    let is_live = refused.is_none() && live::is_wanted(link);
    let did = if refused.is_none() { done(link.get("did"), &known.endpoint, now) } else { None };
    let content = html! {
        @if let Some(done) = did { div .notice.good role="status" { p { (done) } } }
        @if let Some(Refused { error, .. }) = &refused {
            @if !matches!(error, Error::Invalid(_)) { (alert(error)) }
        }
        (header(known, now))
        (explanations(app, known, &more, now))
        (recovery(&more))
        @if known.open.failed.count + known.held().count > 0 && more.recoveries.first().is_none_or(|newest| newest.done) {
            (again(known))
        }
        @if is_changing || is_live { p { (live::switch(is_live, is_changing, "?live=1", "?")) } }
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
        (forms::all(&known.endpoint, refused.as_ref(), now))
    };
    let error = refused.map(|refused| refused.error);
    let title = short(known.endpoint.name());
    Ok(Page::new(title, content).refused(error).live(is_live && is_changing).within(console))
}

/// The notice about a finished action. Anyone can create a link, so the message is shown only immediately after a
/// change.
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

/// The state, the numbers of the last 24 hours, the last error and the actions, in a row.
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
                            None => "–",
                        }
                    }
                }
                @if endpoint.kind == Kind::Push {
                    div {
                        dt { "Response time, p95" }
                        dd { @match known.counted.p95() { Some(ms) => strong { (ms) " ms" }, None => "–" } }
                    }
                }
                @for (status, word, backlog) in [
                    ("failed", "Failed", &known.open.failed),
                    ("held", "Held", &known.open.held),
                    ("pending", "Pending", &known.open.pending),
                ] {
                    div {
                        dt { (word) }
                        dd {
                            @if let Some(oldest) = backlog.oldest_at() {
                                a .strong href=(list(status)) aria-label={ (backlog.number()) " " (status) " deliveries" } { (backlog.number()) }
                                // The notices show how long the others have been waiting.
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

/// `98.5 %`. It is 100 % only if all of them were delivered.
fn percent(part: usize, all: usize) -> Option<String> {
    let tenths = (part * 1000).checked_div(all)?;
    Some(if tenths.is_multiple_of(10) {
        format!("{} %", tenths / 10)
    } else {
        format!("{}.{} %", tenths / 10, tenths % 10)
    })
}

/// The meaning of the state, and other facts about the endpoint.
fn explanations(app: &App, known: &Known, more: &More, now: Timestamp) -> Markup {
    let endpoint = &known.endpoint;
    html! {
        @if let Some(waiting) = &more.waiting { (pulled(endpoint, *waiting, now)) }
        @if let Some(meaning) = State::of(known).meaning() {
            p {
                (meaning)
                @if let Some(since) = endpoint.failing_since { " Failing for " (times::lasting("since", since, now)) "." }
            }
        }
        @if let Some((at, _)) = endpoint.disabled.filter(|_| !endpoint.active) {
            p {
                "Disabled " (times::when(at, now)) "."
                @if let Some(end) = app.hold_for.end(at) {
                    " New events are held for another " (times::lasting("until", end, now)) "."
                }
            }
        }
        @if let Some(LastError { at, reason, status_code, detail }) = known.last_error() {
            p {
                "Last error: " strong { (error_name(&reason, status_code)) } ", " (times::when(at, now)) ". "
                (error_meaning(&reason, detail.as_ref()))
            }
        }
        @if is_rotating(endpoint, now) && let Some(end) = endpoint.previous_secret_expires_at {
            p {
                "Secret rotated. The old secret also signs deliveries for another " (times::lasting("until", end, now)) "."
            }
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
            (Form { button, is_secondary: true, hidden: &[("action", action)], ..Form::default() })
        }
    }
}

/// The waiting deliveries of a pull endpoint, and the times of the last receive and the last poll.
fn pulled(endpoint: &EndpointView, waiting: Waiting, now: Timestamp) -> Markup {
    let Pulled { asked_at, taken_at } = endpoint.pulled;
    html! {
        p {
            "This is a pull endpoint: your program fetches its deliveries from the API. "
            strong { (at_most(waiting.due)) " waiting, " (at_most(waiting.leased)) " leased" } "."
        }
        p {
            @match taken_at {
                Some(at) => { "Last delivery received " (times::when(at, now)) ". " },
                None => "No delivery received yet. ",
            }
            @match asked_at {
                Some(at) => { "Last poll " (times::when(at, now)) "." },
                None => "No client has polled yet.",
            }
        }
    }
}

/// A number that was counted up to [`MOST_COUNTED`].
fn at_most(count: usize) -> String {
    if count >= MOST_COUNTED { format!("{MOST_COUNTED} or more") } else { count.to_string() }
}

/// The missed deliveries, with the button that recovers them.
fn again(known: &Known) -> Markup {
    let (endpoint, failed, held) = (&known.endpoint, &known.open.failed, &known.held());
    let oldest = oldest(failed, held);
    html! {
        div .notice.bad {
            p {
                strong { (missed(failed, held)) }
                @if let Some(oldest) = oldest { " since " (times::date(oldest)) }
                "."
            }
            @if let Some(oldest) = oldest {
                (Form {
                    button: &resend_button(endpoint.active, failed, held),
                    hidden: &[("action", "recover"), ("since", &oldest.to_string()), ("activate", "yes")],
                    ..Form::default()
                })
            }
        }
    }
}

/// The progress of the newest recovery: requested, in progress or finished.
fn recovery(more: &More) -> Markup {
    let Some(newest) = more.recoveries.first() else { return html! {} };
    let resent = counted(newest.resent, "delivery", "deliveries");
    html! {
        div .notice role=[(!newest.done).then_some("status")] {
            p {
                @match (newest.done, newest.resent) {
                    (true, _) => { "Recovery finished: " strong { (resent) " resent" } " of those missed since " },
                    (false, 0) => {
                        strong { "Recovery requested" } ". It starts within 2 minutes and resends up to 100 deliveries per \
                        second, of those missed since "
                    },
                    (false, _) => { "Recovery in progress: " strong { (resent) " resent" } " of those missed since " },
                }
                (times::date(newest.since)) "."
            }
            @if !newest.done { p { a href="?" { "Refresh" } } }
        }
    }
}

/// The redirect after a form.
pub(super) fn after(id: EndpointId, did: &str) -> Reply {
    Reply::Redirect { to: format!("/console/endpoints/{id}?did={did}"), cookies: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_never_rounded_up() {
        let percents =
            [(0, 0), (0, 3), (2, 3), (999, 1000), (9_999, 10_000), (7, 7)].map(|(part, all)| percent(part, all));
        let expected = [None, Some("0 %"), Some("66.6 %"), Some("99.9 %"), Some("99.9 %"), Some("100 %")];
        assert_eq!(percents.each_ref().map(Option::as_deref), expected);
    }
}
