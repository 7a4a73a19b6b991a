//! States, each with a word and a shape, so people can distinguish them without color and in any font.

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Status, error_name},
        endpoints::{DisabledReason, Gate},
        log::counts::Counts,
    },
};
use maud::{Markup, html};

use crate::numbers::{EndpointNumbers, failures};

/// An endpoint's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// All attempts have failed since this time.
    Failing(Timestamp),
    /// The service disabled the endpoint.
    Disabled(DisabledReason),
    /// The oldest pending delivery has failed attempts and is waiting for a retry.
    Retrying,
    /// A user enabled the endpoint, and no delivery has succeeded since.
    Untried,
    /// The oldest pending delivery is waiting for its first attempt.
    Waiting,
    /// The endpoint works, and this number of failed deliveries can be resent.
    Failed(usize),
    /// The endpoint works, and this number of held deliveries can be resent.
    Held(usize),
    /// Deliveries succeed, but the receiver takes more than a second to answer.
    Slow,
    /// Deliveries succeed.
    Healthy,
    /// The endpoint has recent deliveries, and none of those that were read succeeded.
    Unproven,
    /// The endpoint has no recent deliveries except tests.
    Idle,
    /// A user disabled the endpoint.
    Inactive,
}

impl State {
    /// Derives the state from the endpoint's item and its deliveries.
    pub(crate) fn of(numbers: &EndpointNumbers) -> Self {
        let EndpointNumbers { endpoint, open, oldest_pending, counted, failing_since, is_proven, .. } = numbers;
        let failures = failures(endpoint, oldest_pending.as_ref());
        let (failed, held) = (open.failed.count, numbers.held().count);
        let is_late = matches!(endpoint.health.gate, Gate::Late { .. });
        match (endpoint.disabled, *failing_since, failures.first()) {
            (Some((_, reason)), ..) if !endpoint.active => Self::Disabled(reason),
            _ if !endpoint.active => Self::Inactive,
            (_, Some(since), _) => Self::Failing(since),
            (.., Some(_)) => Self::Retrying,
            _ if endpoint.health.streak.is_some() => Self::Retrying,
            _ if !is_proven => Self::Untried,
            _ if oldest_pending.is_some() => Self::Waiting,
            _ if failed > 0 => Self::Failed(failed),
            _ if held > 0 => Self::Held(held),
            _ if counted.total.delivered > 0 && is_late => Self::Slow,
            _ if counted.total.delivered > 0 => Self::Healthy,
            _ if counted.total != Counts::default() || counted.complete_since.is_some() => Self::Unproven,
            _ => Self::Idle,
        }
    }

    /// The order on the first page: problems first.
    pub(crate) fn urgency(self) -> u8 {
        match self {
            Self::Failing(_) => 0,
            Self::Disabled(_) => 1,
            Self::Inactive => 3,
            _ => 2,
        }
    }

    pub(crate) fn badge(self) -> Markup {
        match self {
            Self::Failing(_) => badge("bad", TRIANGLE, "Failing"),
            Self::Disabled(DisabledReason::Gone) => badge("bad", SQUARE, "Disabled: HTTP 410"),
            Self::Disabled(DisabledReason::Failing) => badge("bad", SQUARE, "Disabled: failing"),
            Self::Inactive => badge("", RING, "Disabled by your team"),
            Self::Retrying => badge("wait", DIAMOND, "Retrying"),
            Self::Untried => badge("wait", FRAME, "Not tried yet"),
            Self::Waiting => badge("wait", DIAMOND, "Waiting"),
            Self::Failed(number) => badge("wait", FRAME, &format!("{number} failed")),
            Self::Held(number) => badge("held", BARS, &format!("{number} held")),
            Self::Slow => badge("wait", DISC, "Slow"),
            Self::Healthy => badge("good", DISC, "Healthy"),
            Self::Unproven => badge("", FRAME, "No recent success"),
            Self::Idle => badge("", FRAME, "No recent jobs"),
        }
    }

    /// An explanation of the state, if it needs one.
    pub(crate) fn meaning(self) -> Option<&'static str> {
        match self {
            Self::Disabled(DisabledReason::Gone) => Some(
                "We disabled this endpoint because its receiver responded with 410 Gone, which means that it wants no \
                 more deliveries.",
            ),
            Self::Disabled(DisabledReason::Failing) => {
                Some("We disabled this endpoint because its deliveries failed for too long.")
            }
            Self::Failing(_) => {
                Some("All attempts fail. Pending deliveries are retried, and new events are still sent.")
            }
            Self::Inactive => Some("Only test events are sent until you enable the endpoint."),
            Self::Retrying => Some("Some attempts failed and will be retried."),
            Self::Untried => Some("No delivery has succeeded since the endpoint was enabled."),
            Self::Waiting => Some("Deliveries are waiting for their first attempt."),
            Self::Slow => {
                Some("The receiver takes more than a second to answer, so its deliveries may wait for each other.")
            }
            Self::Failed(_) | Self::Held(_) | Self::Healthy | Self::Unproven | Self::Idle => None,
        }
    }
}

/// The badge of a delivery's status. `is_fetched` is whether a program fetches the endpoint's held deliveries.
pub(crate) fn of_delivery(status: Status, is_fetched: bool) -> Markup {
    match status {
        Status::Held if is_fetched => badge("held", BARS, "To fetch"),
        Status::Pending => badge("wait", DIAMOND, "Pending"),
        Status::Delivered => badge("good", DISC, "Delivered"),
        Status::Failed => badge("bad", TRIANGLE, "Failed"),
        Status::Held => badge("held", BARS, "Held"),
        Status::Ended => badge("", RING, "Ended"),
    }
}

/// An attempt's badge: delivered, or its error.
pub(crate) fn of_attempt(attempt: &Attempt) -> Markup {
    match &*attempt.outcome {
        "delivered" => badge("good", DISC, "Delivered"),
        reason => badge("bad", TRIANGLE, &error_name(reason, attempt.status_code)),
    }
}

/// The badge of the next attempt.
pub(crate) fn next() -> Markup {
    badge("wait", DIAMOND, "Next")
}

fn badge(class: &str, shape: &str, word: &str) -> Markup {
    html! { span class={ "state " (class) } { (icon(shape)) " " (word) } }
}

fn icon(shape: &str) -> Markup {
    html! { svg .i viewBox="0 0 8 8" aria-hidden="true" { path d=(shape) {} } }
}

/// The shapes of badges, eight units wide and high. Holes are drawn by the even-odd rule.
const DISC: &str = "M0 4a4 4 0 1 1 8 0a4 4 0 1 1-8 0";
const RING: &str = "M0 4a4 4 0 1 1 8 0a4 4 0 1 1-8 0M2 4a2 2 0 1 0 4 0a2 2 0 1 0-4 0";
const TRIANGLE: &str = "M4 0l4 8H0z";
const SQUARE: &str = "M1 1h6v6H1z";
const DIAMOND: &str = "M4 0l4 4-4 4-4-4z";
const FRAME: &str = "M4 0l4 4-4 4-4-4zM4 2.2L2.2 4 4 5.8 5.8 4z";
const BARS: &str = "M1 0h2v8H1zM5 0h2v8H5z";
