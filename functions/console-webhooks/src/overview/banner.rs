//! An endpoint's problem, with the button that recovers its missed deliveries.

use common::{
    http::page::Form,
    presentation::times,
    timestamp::Timestamp,
    webhooks::{
        delivery::{error_meaning, error_name},
        endpoints::LastError,
    },
};
use maud::{Markup, html};

use super::table::description;
use crate::{
    app::App,
    backlogs::{self, kept, missed, oldest, resend_button},
    deliveries::short,
    numbers::{EndpointNumbers, counted},
    states::State,
};

/// Whether the endpoint has a problem or missed deliveries.
pub(super) fn is_needed(row: &EndpointNumbers) -> bool {
    State::of(row).urgency() < 2 || row.open.failed.count + row.held().count > 0 || retrying_since(row).is_some()
}

/// Since when no attempt has succeeded, if several have failed, but not for long enough to make the endpoint failing.
fn retrying_since(row: &EndpointNumbers) -> Option<Timestamp> {
    let streak = row.endpoint.health.streak.filter(|streak| streak.attempts > 1);
    streak.filter(|_| State::of(row) == State::Retrying).map(|streak| streak.since)
}

/// The banner for an endpoint that needs one.
pub(super) fn banner(app: &App, row: &EndpointNumbers, is_recovering: bool, now: Timestamp) -> Markup {
    let (endpoint, failed, held) = (&row.endpoint, &row.open.failed, &row.held());
    let (id, name) = (endpoint.id, short(&endpoint.name()));
    let (state, number) = (State::of(row), failed.count + held.count);
    let (is_failing, page) = (matches!(state, State::Failing(_)), format!("/console/endpoints/{id}"));
    let is_bad = state.urgency() < 2 || failed.count > 0;
    let has_error = is_bad || retrying_since(row).is_some();
    let oldest = oldest(failed, held);
    html! {
        div .notice.problem.bad[is_bad] {
            div {
                p { (state.badge()) " " strong { bdi .mono { (name) } } (description(endpoint)) }
                p {
                    @match state {
                        State::Failing(since) => {
                            "All attempts have failed for " (times::lasting("since", since, now)) ". "
                            @if row.is_pending() {
                                (counted(row.open.pending.number(), "delivery waits", "deliveries wait")) " for another attempt. "
                            }
                        }
                        _ => @if let Some(since) = retrying_since(row) {
                            "No attempt has succeeded for " (times::lasting("since", since, now)) ". "
                        }
                    }
                    @if let Some(oldest) = oldest {
                        strong { (missed(failed, held)) } (backlogs::since(number, oldest, now)) "."
                    }
                    @if !endpoint.active { (kept(app, endpoint, now)) }
                    @if has_error && let Some(LastError { reason, status_code, detail, .. }) = &row.last_error() {
                        " Last error: " (error_name(reason, *status_code)) ". " (error_meaning(reason, detail.as_ref()))
                    }
                }
            }
            div .row {
                @if is_failing {
                    (Form { to: &page, button: "Send test event", about: &name, action: "test", ..Form::default() })
                }
                @if is_recovering { span { "They are being resent." } } @else if let Some(oldest) = oldest {
                    (Form {
                        to: &page,
                        button: &resend_button(endpoint.active, failed, held),
                        about: &name,
                        is_secondary: !is_bad || is_failing,
                        action: "recover",
                        hidden: &[("since", &oldest.to_string()), ("activate", "yes")],
                        ..Form::default()
                    })
                }
                a href=(page) aria-label={ "View endpoint " (name) } { "View endpoint" }
            }
        }
    }
}
