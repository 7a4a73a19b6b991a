//! States, each as a word and a shape, so that they can be told apart without color.

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Status, error_name},
        endpoints::DisabledReason,
        log::count::Counts,
    },
};
use maud::{Markup, html};

use crate::numbers::Known;

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The service disabled it.
    Disabled(DisabledReason),
    /// Deliveries have failed after all their attempts since this time.
    Failing(Timestamp),
    /// A user disabled it.
    Inactive,
    /// The oldest pending delivery has failed attempts, and is retried.
    Retrying,
    /// The oldest pending delivery waits for its first attempt.
    Waiting,
    /// Its deliveries succeed.
    Healthy,
    /// It has recent deliveries, and none of those that were read succeeded.
    Unproven,
    /// It has no recent deliveries.
    Idle,
}

impl State {
    /// The state, from the endpoint's item and its deliveries.
    pub(crate) fn of(known: &Known) -> Self {
        let Known { endpoint, oldest_pending, counted, .. } = known;
        match (endpoint.disabled, endpoint.failing_since, oldest_pending) {
            (Some((_, reason)), ..) if !endpoint.active => Self::Disabled(reason),
            _ if !endpoint.active => Self::Inactive,
            (_, Some(since), _) => Self::Failing(since),
            (.., Some(pending)) if pending.attempts > 0 => Self::Retrying,
            (.., Some(_)) => Self::Waiting,
            _ if counted.total.delivered > 0 => Self::Healthy,
            _ if counted.total != Counts::default() || counted.complete_since.is_some() => Self::Unproven,
            _ => Self::Idle,
        }
    }

    pub(crate) fn badge(self) -> Markup {
        match self {
            Self::Disabled(_) => badge("bad", "■", "Disabled"),
            Self::Failing(_) => badge("bad", "▲", "Failing"),
            Self::Inactive => badge("", "○", "Inactive"),
            Self::Retrying => badge("wait", "◆", "Retrying"),
            Self::Waiting => badge("wait", "◆", "Waiting"),
            Self::Healthy => badge("good", "●", "Healthy"),
            Self::Unproven => badge("", "◇", "No recent success"),
            Self::Idle => badge("", "◇", "No recent deliveries"),
        }
    }

    /// An explanation of the state, where it needs one.
    pub(crate) fn meaning(self) -> Option<&'static str> {
        match self {
            Self::Disabled(DisabledReason::Gone) => {
                Some("We disabled this endpoint: its receiver answered 410 Gone, which asks for no more deliveries.")
            }
            Self::Disabled(DisabledReason::Failing) => {
                Some("We disabled this endpoint because its deliveries failed for too long.")
            }
            Self::Failing(_) => Some("Some deliveries failed after all their attempts. New events are still sent."),
            Self::Inactive => Some("Nothing is sent until you enable the endpoint."),
            Self::Retrying => Some("Some attempts failed and will be retried."),
            Self::Waiting => Some("Deliveries wait for their first attempt."),
            Self::Healthy | Self::Unproven | Self::Idle => None,
        }
    }
}

/// The badge of a delivery's status.
pub(crate) fn of_delivery(status: Status) -> Markup {
    match status {
        Status::Pending => badge("wait", "◆", "Pending"),
        Status::Delivered => badge("good", "●", "Delivered"),
        Status::Failed => badge("bad", "▲", "Failed"),
        Status::Held => badge("held", "‖", "Held"),
        Status::Ended => badge("", "○", "Ended"),
    }
}

/// The badge of an attempt: delivered, or its error.
pub(crate) fn of_attempt(attempt: &Attempt) -> Markup {
    match &*attempt.outcome {
        "delivered" => badge("good", "●", "Delivered"),
        reason => badge("bad", "▲", &error_name(reason, attempt.status_code)),
    }
}

fn badge(class: &str, shape: &str, word: &str) -> Markup {
    html! { span class={ "state " (class) } { span aria-hidden="true" { (shape) } " " (word) } }
}
