//! An endpoint's missed and pending deliveries, the buttons that send them, and the latest recovery's progress.

use common::{
    http::page::Form,
    presentation::times,
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        endpoints::Kind,
        log::recovery::{Missed, Recovery, Selection},
    },
};
use maud::{Markup, html};

use crate::{
    backlogs::{self, missed, oldest, resend_button, retry_button},
    numbers::{EndpointNumbers, counted, within},
    states::State,
};

/// The missed deliveries, with the button that recovers them.
pub(super) fn again(numbers: &EndpointNumbers, now: Timestamp) -> Markup {
    let (endpoint, failed, held) = (&numbers.endpoint, &numbers.open.failed, &numbers.held());
    let oldest = oldest(failed, held);
    html! {
        div .notice.problem.bad {
            p {
                strong { (missed(failed, held)) }
                @if let Some(oldest) = oldest { (backlogs::since(failed.count + held.count, oldest, now)) }
                "."
            }
            @if let Some(oldest) = oldest {
                (Form {
                    button: &resend_button(endpoint.active, failed, held),
                    // A failing endpoint is tested first, by the button beside the heading.
                    is_secondary: matches!(State::of(numbers), State::Failing(_)),
                    action: "recover",
                    hidden: &[("since", &oldest.to_string()), ("activate", "yes")],
                    ..Form::default()
                })
            }
        }
    }
}

/// The pending deliveries that are waiting for a retry, with the button that sends them now.
pub(super) fn retry(numbers: &EndpointNumbers, now: Timestamp) -> Markup {
    let (endpoint, pending) = (&numbers.endpoint, &numbers.open.pending);
    let is_waiting = |delivery: &Delivery| delivery.attempts > 0 && delivery.next_attempt_at.is_some_and(|at| at > now);
    let waits = numbers.oldest_pending.as_ref().is_some_and(is_waiting);
    let Some(oldest) = pending.oldest_at().filter(|_| waits && endpoint.active && endpoint.kind == Kind::Push) else {
        return html! {};
    };
    html! {
        div .notice.problem {
            p {
                strong { (counted(pending.number(), "pending delivery waits", "pending deliveries wait")) }
                " for the next attempt" (backlogs::since(pending.count, oldest, now)) "."
            }
            (Form {
                button: &retry_button(pending),
                is_secondary: true,
                action: "recover",
                hidden: &[("status", "pending"), ("since", &oldest.to_string())],
                ..Form::default()
            })
        }
    }
}

/// The progress of the newest recovery: requested, in progress or finished. If the endpoint is disabled, deliveries are
/// held again instead of sent.
pub(super) fn recovery(numbers: &EndpointNumbers, newest: &Recovery, now: Timestamp) -> Markup {
    let (open, Selection { time, status, .. }) = (&numbers.open, &newest.selection);
    let is_active = numbers.endpoint.active;
    let [failed, held, pending] = [&open.failed, &open.held, &open.pending].map(|backlog| within(backlog, time));
    let (kind, left) = match status {
        Missed::Failed => ("failed ", failed.count),
        Missed::Held => ("held ", held.count),
        Missed::Both => ("", failed.count + held.count),
        Missed::Pending => ("pending ", pending.count),
    };
    let resent = usize::try_from(newest.resent).unwrap_or(usize::MAX);
    let deliveries = |number: usize| counted(number, &format!("{kind}delivery"), &format!("{kind}deliveries"));
    let open = [(pending.count, "pending"), (failed.count, "failed"), (held.count, "held")];
    let open: Vec<_> =
        open.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let is_well = newest.done && open.is_empty() && resent > 0;
    let is_stopped = !is_active && (!newest.done || held.count > 0);
    html! {
        div .notice.good[is_well].bad[is_stopped] role=[(!newest.done).then_some("status")] {
            p {
                @match (newest.done, resent) {
                    _ if is_stopped => {
                        strong { "Not sent: the endpoint is disabled" } ". Its deliveries stay held"
                        @if !open.is_empty() { ": " (open.join(", ")) }
                        "."
                    },
                    (true, _) if is_well => { strong { (deliveries(resent)) " resent, all delivered" } "." },
                    (true, _) => {
                        strong { (deliveries(resent)) " resent" } " of those created since " (times::date(time.start))
                        @if !open.is_empty() { ". Not delivered at this endpoint: " (open.join(", ")) }
                        "."
                    },
                    (false, 0) => {
                        strong { "Resending " (deliveries(left)) } ": starts within seconds, at up to 100 per second."
                    },
                    // There is no total: resent deliveries may be pending or have failed again.
                    (false, _) => {
                        strong { "Resending: " (deliveries(resent)) " so far" }
                        @if !open.is_empty() { ". Not delivered at this endpoint: " (open.join(", ")) }
                        "."
                    },
                }
                " Started " (times::when(newest.id.made_at(), now)) "."
            }
        }
    }
}
