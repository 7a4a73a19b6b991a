//! A delivery's attempts on a timeline.

use common::{
    presentation::{docs::SIGNATURES, times},
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Status, Trigger, error_meaning},
};
use maud::{Markup, html};

use super::{content::scrolling, request::Requests};
use crate::states;

/// The next attempt and the earlier attempts, latest first.
pub(super) fn time_line(requests: &Requests<'_>, attempts: &[Attempt], is_deleted: bool, now: Timestamp) -> Markup {
    let delivery = requests.delivery;
    html! {
        @match attempts.last() {
            Some(latest) => (usual_causes(latest)),
            None => p { "No attempts yet." },
        }
        ol .attempts {
            @if let (Status::Pending, Some(next), false) = (delivery.status, delivery.next_attempt_at, is_deleted) {
                li { (states::next()) " " (times::when(next, now)) }
            }
            @for attempt in attempts.iter().rev() {
                li {
                    (states::of_attempt(attempt)) " " (times::when(attempt.at, now))
                    p .soft {
                        @match attempt.status_code {
                            Some(status) if attempt.outcome == "delivered" => { "HTTP " (status) ", " },
                            _ => "",
                        }
                        (attempt.duration_ms) " ms, " (trigger(attempt.trigger)) "."
                        @if attempt.outcome != "delivered" { " " (error_meaning(&attempt.outcome, attempt.detail.as_ref())) }
                    }
                    (requests.of(attempt))
                    @if let Some(response) = &attempt.response {
                        p .soft { "Response:" }
                        (scrolling("Response", response))
                    }
                }
            }
        }
    }
}

/// The usual causes if a receiver answered that it does not trust the request.
fn usual_causes(attempt: &Attempt) -> Markup {
    html! {
        @if matches!(attempt.status_code, Some(400 | 401 | 403)) {
            p {
                "If the receiver rejects the signature, the usual causes are a parsed body, a wrong secret and a wrong clock. "
                a href=(SIGNATURES) { "A signature that does not match" }
            }
        }
    }
}

fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Event => "first attempt",
        Trigger::Schedule => "scheduled retry",
        Trigger::Resend => "manual resend",
        Trigger::Recovery => "resent by a recovery",
        Trigger::Test => "test event",
    }
}
