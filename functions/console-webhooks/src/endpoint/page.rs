//! The page of an endpoint.

use common::{
    error::{Error, Result},
    http::{
        Reply, Typed,
        page::{Form, Page, alert, facts, visible},
    },
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{error_meaning, error_name},
        endpoints::{EndpointView, Kind, LastError, Pulled},
        log::{
            open::Backlog,
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
    chart, deliveries,
    numbers::Known,
    overview::{counted, events, is_rotating, missed, oldest, resend_button},
    states::State,
    times,
};

/// The number of latest deliveries that are shown, and that are counted.
const SHOWN: usize = 10;
const COUNTED: usize = 1000;

const NOT_FOUND: Error = Error::NotFound("Endpoint not found");

/// The endpoint that the path names.
pub(super) fn id(typed: &Typed) -> Result<EndpointId> {
    EndpointId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

/// The numbers of the page that the first page does not have.
struct More {
    /// The deliveries that wait to be received, for a pull endpoint.
    waiting: Option<Waiting>,
    recoveries: Vec<Recovery>,
}

pub(super) async fn page(
    app: &App,
    tenant: &TenantId,
    id: EndpointId,
    did: &str,
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
        Known::read(app, tenant, vec![endpoint], COUNTED, now),
        waiting,
        app.log.recoveries(tenant, Some(id)),
        app.log.search(tenant, &shards, &newest, None, SHOWN, now),
    )?;
    let (known, more) = (known.first().ok_or(NOT_FOUND)?, More { waiting, recoveries });
    let content = html! {
        @if let Some(done) = done(did) { div .notice.good role="status" { p { (done) } } }
        @if let Some(Refused { error, .. }) = &refused {
            @if !matches!(error, Error::Invalid(_)) { (alert(error)) }
        }
        (state(app, known, &more, now))
        (recovery(&more))
        section .big {
            h2 { "Last 24 hours" }
            (chart::day(&known.counted, now))
            (chart::by_hour(&known.counted))
        }
        section {
            h2 { "Latest deliveries" }
            (deliveries::table(&page.deliveries, None, "No deliveries yet.", now))
            p { a href={ "/console/deliveries?endpoint=" (id) } { "View all deliveries" } }
        }
        (forms::all(&known.endpoint, refused.as_ref(), now))
    };
    let error = refused.map(|refused| refused.error);
    Ok(Page::new(visible(known.endpoint.name()).into_owned(), content).refused(error).within(console))
}

/// The notice about a finished action.
fn done(did: &str) -> Option<&'static str> {
    Some(match did {
        "activated" => "Endpoint enabled. New events are sent to it.",
        "deactivated" => "Endpoint disabled. New events are held.",
        "saved" => "Changes saved.",
        _ => return None,
    })
}

fn state(app: &App, known: &Known, more: &More, now: Timestamp) -> Markup {
    let (endpoint, failed, held) = (&known.endpoint, &known.open.failed, &known.held());
    let state = State::of(known);
    let created = endpoint.created_at.readable();
    let id = endpoint.id.to_string();
    let wanted = events(endpoint);
    let headers = endpoint.header_names.join(", ");
    let mut rows = vec![("ID", id.as_str()), ("Events", &wanted), ("Created", &created)];
    rows.extend((!headers.is_empty()).then_some(("Headers", headers.as_str())));
    html! {
        p .row {
            (state.badge())
            @if let Some(description) = &endpoint.description { bdi { (visible(description.as_str())) } }
        }
        @if let Some(waiting) = &more.waiting { (pulled(endpoint, *waiting, now)) }
        @if let Some(meaning) = state.meaning() { p { (meaning) } }
        @if let Some(since) = endpoint.failing_since { p { "Failing for " (times::lasting("since", since, now)) "." } }
        @if let Some((at, _)) = endpoint.disabled.filter(|_| !endpoint.active) {
            p { "Disabled " (times::when(at, now)) "." }
            @if let Some(end) = app.hold_for.end(at) {
                p { "New events are held for another " (times::lasting("until", end, now)) "." }
            }
        }
        @if let Some(LastError { at, reason, status_code, detail }) = known.last_error() {
            p {
                "Last error: " strong { (error_name(&reason, status_code)) } ", " (times::when(at, now)) ". "
                (error_meaning(&reason, detail.as_ref()))
            }
        }
        @if let Some(oldest) = known.open.pending.oldest_at() {
            p { "Pending: " (known.open.pending.number()) ", oldest " (times::when(oldest, now)) "." }
        }
        @if is_rotating(endpoint, now) && let Some(end) = endpoint.previous_secret_expires_at {
            p {
                "Secret rotated. The old secret also signs deliveries for another " (times::lasting("until", end, now)) "."
            }
        }
        (facts(&rows))
        @if failed.count + held.count > 0 && more.recoveries.first().is_none_or(|newest| newest.done) {
            (again(endpoint, failed, held))
        }
        (actions(endpoint))
    }
}

fn actions(endpoint: &EndpointView) -> Markup {
    let (button, action) =
        if endpoint.active { ("Disable endpoint", "deactivate") } else { ("Enable endpoint", "activate") };
    html! {
        div .row {
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
            "Pull endpoint: your program receives its deliveries. "
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
fn again(endpoint: &EndpointView, failed: &Backlog, held: &Backlog) -> Markup {
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
