//! Explanations below the page's header: the meaning of the state, the last error, a rotation, a pull endpoint's
//! clients.

use common::{
    base_url::BaseUrl,
    http::page::visible,
    presentation::times,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, error_meaning},
        endpoints::{EndpointView, LastError, Pulled, SAME_URL},
        log::pull::{MAX_COUNTED, WaitingCounts},
    },
};
use maud::{Markup, html};

use crate::{
    app::App,
    backlogs::kept,
    deliveries::short,
    numbers::{EndpointNumbers, counted, is_rotating},
    pull,
    states::State,
};

/// The data that only this page shows.
pub(super) struct More {
    /// A pull endpoint's deliveries that are waiting to be received.
    pub(super) waiting: Option<WaitingCounts>,
    /// The delivery with the latest failed attempt, among the newest and the oldest undelivered ones.
    pub(super) erring: Option<Delivery>,
    /// Whether another endpoint has the same URL.
    pub(super) has_same_url: bool,
    /// The number of failed attempts since the endpoint began to fail, as far as they were counted.
    pub(super) attempts: usize,
}

/// The meaning of the state, and other facts about the endpoint.
pub(super) fn explanations(
    app: &App,
    base: &BaseUrl,
    numbers: &EndpointNumbers,
    more: &More,
    now: Timestamp,
) -> Markup {
    let (endpoint, state) = (&numbers.endpoint, State::of(numbers));
    html! {
        @if let Some(waiting) = &more.waiting { (pulled(endpoint, base, *waiting, now)) }
        @if let Some(meaning) = state.meaning() {
            p {
                (meaning)
                @match state {
                    State::Failing(since) => { (failing(app, numbers, more.attempts, since, now)) },
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
        // The header shows a healthy endpoint's last error.
        @if state != State::Healthy && let Some(LastError { reason, detail, .. }) = numbers.last_error() {
            (last_error(&error_meaning(&reason, detail.as_ref()), more.erring.as_ref(), now))
        }
        @if let Some(sent) = endpoint.url_as_sent() { p { "Requests are sent to " bdi .mono { (visible(&sent)) } "." } }
        @if more.has_same_url { p { (SAME_URL) "." } }
        @if let Some(secret_is) = &endpoint.secret_is {
            div .warning { p { "The signing secret " (secret_is) ". Rotate it below." } }
        }
        @if is_rotating(endpoint, now) && let Some(end) = endpoint.previous_secret_expires_at {
            p {
                "Secret rotated. The old secret also signs deliveries for another " (times::lasting("until", end, now)) "."
            }
        }
    }
}

/// Explains how long an endpoint has been failing, and when it will be disabled.
fn failing(app: &App, numbers: &EndpointNumbers, attempts: usize, since: Timestamp, now: Timestamp) -> Markup {
    html! {
        " The first attempt failed " (times::when(since, now))
        @if attempts > 1 { ", and at least " (attempts) " have failed in all" }
        "."
        @if numbers.is_pending() {
            " " (counted(numbers.open.pending.number(), "delivery waits", "deliveries wait")) " for another attempt."
        }
        @if let Some(failed) = numbers.endpoint.health.first_failed_at {
            " First permanent failure " (times::when(failed, now)) "."
            @if !app.disable_after.is_zero() {
                @let end = failed.after(app.disable_after);
                " If none succeeds, the endpoint is disabled by the first delivery that fails permanently after "
                (times::date(end)) "."
            }
        }
    }
}

/// The meaning of the last error, and the receiver's response. The header shows the error's name and time.
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

/// A pull endpoint's waiting deliveries, and the times of the last receive and the last poll.
fn pulled(endpoint: &EndpointView, base: &BaseUrl, waiting: WaitingCounts, now: Timestamp) -> Markup {
    let Pulled { asked_at, taken_at } = endpoint.pulled;
    html! {
        p {
            "This is a pull endpoint: your program fetches its deliveries from the API. "
            strong { (at_most(waiting.due)) " to fetch" }
            @if waiting.leased > 0 { ", " (at_most(waiting.leased)) " fetched but not settled yet" }
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
        (pull::usage(endpoint.id, base, taken_at.is_none()))
    }
}

/// Formats a number that was counted up to [`MAX_COUNTED`].
pub(super) fn at_most(count: usize) -> String {
    if count >= MAX_COUNTED { format!("{MAX_COUNTED} or more") } else { count.to_string() }
}
