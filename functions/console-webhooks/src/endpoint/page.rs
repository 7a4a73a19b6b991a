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
        delivery::Status,
        endpoints::{EndpointView, Kind, Pulled},
        log::{
            glance::{Backlog, Glance},
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
    overview::{events, is_rotating, missed},
    states::{self, State},
    times,
};

/// How many of its newest deliveries are shown, and how many are counted.
const SHOWN: usize = 10;
const COUNTED: usize = 1000;

const NOT_FOUND: Error = Error::NotFound("There is no such endpoint");

/// The endpoint that the path names.
pub(super) fn id(typed: &Typed) -> Result<EndpointId> {
    EndpointId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

/// What is known of an endpoint.
struct Known {
    endpoint: EndpointView,
    glance: Glance,
    failed: Backlog,
    held: Backlog,
    pending: Backlog,
    /// What waits to be taken, of a pull endpoint.
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
    let backlog = |status| app.log.backlog(tenant, &shards, status, now);
    let waiting = async {
        match endpoint.kind {
            Kind::Push => Ok(None),
            Kind::Pull => app.log.waiting(tenant, &shards, now).await.map(Some),
        }
    };
    let (glance, failed, held, pending, waiting, recoveries, page) = tokio::try_join!(
        app.log.glance(tenant, &shards, chart::since(now), COUNTED, now),
        backlog(Status::Failed),
        backlog(Status::Held),
        backlog(Status::Pending),
        waiting,
        app.log.recoveries(tenant, Some(id)),
        app.log.search(tenant, &shards, &newest, None, SHOWN, now),
    )?;
    let known = Known { endpoint, glance, failed, held, pending, waiting, recoveries };
    let content = html! {
        @if let Some(done) = done(did) { div .notice.good role="status" { p { (done) } } }
        @if let Some(Refused { error, .. }) = &refused {
            @if !matches!(error, Error::Invalid(_)) { (alert(error)) }
        }
        (state(app, &known, now))
        (recovery(&known, now))
        section .big {
            h2 { "Last 24 hours" }
            (chart::day(&known.glance.counted, now))
            (chart::by_hour(&known.glance.counted))
        }
        section {
            h2 { "Newest deliveries" }
            (deliveries::table(&page.deliveries, &[], now))
            p { a href={ "/console/deliveries?endpoint=" (id) } { "All its deliveries" } }
        }
        (forms::all(&known.endpoint, refused.as_ref(), now))
    };
    let error = refused.map(|refused| refused.error);
    Ok(Page::new(visible(known.endpoint.name()).into_owned(), content).refused(error).within(console))
}

/// What has just been done.
fn done(did: &str) -> Option<&'static str> {
    Some(match did {
        "activated" => "The endpoint is active. New events are sent to it.",
        "deactivated" => "The endpoint is inactive. What comes for it is held.",
        "recovering" => "What it missed is being sent again, a hundred a second.",
        "saved" => "The changes have been saved.",
        _ => return None,
    })
}

fn state(app: &App, known: &Known, now: Timestamp) -> Markup {
    let Known { endpoint, glance, failed, held, pending, waiting, .. } = known;
    // What a pull endpoint holds is not missed: it waits to be taken.
    let held = if waiting.is_some() && endpoint.active { &Backlog::default() } else { held };
    let state = State::of(endpoint, glance);
    let created = times::date_and_time(endpoint.created_at);
    let id = endpoint.id.to_string();
    let wanted = events(endpoint);
    let headers = endpoint.header_names.join(", ");
    let mut rows = vec![("Id", id.as_str()), ("Events", &wanted), ("Created", &created)];
    rows.extend((!headers.is_empty()).then_some(("Headers", headers.as_str())));
    html! {
        p .row {
            (state.badge())
            @if let Some(description) = &endpoint.description { bdi { (visible(description.as_str())) } }
        }
        @if let Some(waiting) = waiting { (pulled(endpoint, *waiting, now)) }
        @if let Some(meaning) = state.meaning() { p { (meaning) } }
        @if let Some(since) = endpoint.failing_since { p { "Failing since " (times::when(since, now)) "." } }
        @if let Some((at, _)) = endpoint.disabled.filter(|_| !endpoint.active) {
            p { "Disabled " (times::when(at, now)) "." }
            @if let Some(end) = app.hold_for.end(at) { p { "What comes for it is held until " (times::when(end, now)) "." } }
        }
        @if let Some((at, reason)) = &glance.last_failure {
            p { "Last failure: " code { (reason) } " (" (states::reason(reason)) ") " (times::when(*at, now)) "." }
        }
        @if let Some(oldest) = pending.oldest {
            p { "Oldest pending delivery: " (times::when(oldest, now)) "." }
        }
        @if is_rotating(endpoint, now) && let Some(end) = endpoint.previous_secret_expires_at {
            p { "Its secret has been changed. Until " (times::when(end, now)) ", the old secret signs, too." }
        }
        (facts(&rows))
        @if failed.count + held.count > 0 { (again(endpoint, failed, held)) }
        div .row {
            (Form { button: "Send a test", is_secondary: true, hidden: &[("action", "test")], ..Form::default() })
            @if endpoint.active {
                (Form {
                    button: "Make it inactive",
                    is_secondary: true,
                    hidden: &[("action", "deactivate")],
                    ..Form::default()
                })
            } @else {
                (Form { button: "Make it active", is_secondary: true, hidden: &[("action", "activate")], ..Form::default() })
            }
        }
    }
}

/// What waits for a pull endpoint, and when somebody last took something.
fn pulled(endpoint: &EndpointView, waiting: Waiting, now: Timestamp) -> Markup {
    let Pulled { asked_at, taken_at } = endpoint.pulled;
    html! {
        p {
            "A pull endpoint: a program of yours takes its deliveries. "
            strong { (at_most(waiting.due)) " waiting, " (at_most(waiting.leased)) " leased" } "."
        }
        p {
            @if let Some(at) = taken_at { "Last taken " (times::when(at, now)) ". " } @else { "Nothing has been taken yet. " }
            @if let Some(at) = asked_at { "Last asked " (times::when(at, now)) "." } @else { "Nobody has asked yet." }
        }
    }
}

/// A number that was counted up to a bound.
fn at_most(count: usize) -> String {
    if count >= MOST_COUNTED { format!("{MOST_COUNTED} or more") } else { count.to_string() }
}

/// What it missed, and the button that sends it again.
fn again(endpoint: &EndpointView, failed: &Backlog, held: &Backlog) -> Markup {
    let oldest = [failed.oldest, held.oldest].into_iter().flatten().min();
    html! {
        div .notice.bad {
            p { strong { (missed(failed, held)) } @if let Some(oldest) = oldest { " since " (times::date_and_time(oldest)) } "." }
            @if let Some(oldest) = oldest {
                (Form {
                    button: if endpoint.active { "Send them again" } else { "Make it active, and send them again" },
                    hidden: &[("action", "recover"), ("since", &oldest.to_string()), ("activate", "yes")],
                    ..Form::default()
                })
            }
        }
    }
}

/// How far the newest recoveries are.
fn recovery(known: &Known, now: Timestamp) -> Markup {
    let Some(newest) = known.recoveries.first() else { return html! {} };
    html! {
        div .notice {
            p {
                @if newest.done { "Sent again: " } @else { "Being sent again: " }
                strong { (newest.resent) }
                " of what it missed since " (times::when(newest.since, now))
                @if newest.done { "." } @else { ", and not done yet." }
            }
            @if !newest.done { p { a href="?" { "Look again" } } }
        }
    }
}

/// The page after a form that redirects.
pub(super) fn after(id: EndpointId, did: &str) -> Reply {
    Reply::Redirect { to: format!("/console/endpoints/{id}?did={did}"), cookies: Vec::new() }
}
