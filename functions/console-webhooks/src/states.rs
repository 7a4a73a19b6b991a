//! States, each as a word and a shape: nobody has to tell colours apart.

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::Status,
        endpoints::{DisabledReason, EndpointView},
        log::glance::Glance,
    },
};
use maud::{Markup, html};

/// How an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The service made it inactive.
    Disabled(DisabledReason),
    /// Deliveries to it have failed for good since then.
    Failing(Timestamp),
    /// Its tenant made it inactive.
    Inactive,
    /// Attempts fail, and others follow.
    Retrying,
    /// It takes what it gets.
    Healthy,
    /// It has got nothing lately.
    Idle,
}

impl State {
    /// How an endpoint does, as its record and its newest deliveries tell.
    pub(crate) fn of(endpoint: &EndpointView, glance: &Glance) -> Self {
        match (endpoint.disabled, endpoint.failing_since) {
            (Some((_, reason)), _) if !endpoint.active => Self::Disabled(reason),
            _ if !endpoint.active => Self::Inactive,
            (_, Some(since)) => Self::Failing(since),
            _ if glance.retrying > 0 => Self::Retrying,
            _ if glance.counted.total.delivered > 0 => Self::Healthy,
            _ => Self::Idle,
        }
    }

    pub(crate) fn badge(self) -> Markup {
        match self {
            Self::Disabled(_) => badge("bad", "■", "Disabled"),
            Self::Failing(_) => badge("bad", "▲", "Failing"),
            Self::Inactive => badge("", "○", "Inactive"),
            Self::Retrying => badge("wait", "◆", "Retrying"),
            Self::Healthy => badge("good", "●", "Healthy"),
            Self::Idle => badge("", "◇", "No deliveries lately"),
        }
    }

    /// What the state means, where that is not plain.
    pub(crate) fn meaning(self) -> Option<&'static str> {
        match self {
            Self::Disabled(DisabledReason::Gone) => {
                Some("We made it inactive: its receiver answered 410 Gone, which asks for no more deliveries.")
            }
            Self::Disabled(DisabledReason::Failing) => {
                Some("We made it inactive: deliveries to it had failed for too long.")
            }
            Self::Failing(_) => Some("Deliveries to it failed after all their attempts. New events are still sent."),
            Self::Inactive => Some("Nothing is sent to it until somebody makes it active."),
            Self::Retrying => Some("Attempts fail, and will be repeated."),
            Self::Healthy | Self::Idle => None,
        }
    }
}

/// How a delivery stands.
pub(crate) fn of_delivery(status: Status) -> Markup {
    match status {
        Status::Pending => badge("wait", "◆", "Pending"),
        Status::Delivered => badge("good", "●", "Delivered"),
        Status::Failed => badge("bad", "▲", "Failed"),
        Status::Held => badge("held", "‖", "Held"),
        Status::Ended => badge("", "○", "Ended"),
    }
}

/// How an attempt ended: `delivered`, or a reason.
pub(crate) fn of_attempt(outcome: &str) -> Markup {
    if outcome == "delivered" { badge("good", "●", "Delivered") } else { badge("bad", "▲", outcome) }
}

/// What the reasons of failures mean (see the table in docs/operating.md).
pub(crate) fn reason(outcome: &str) -> &'static str {
    match outcome {
        "status_4xx" => "the receiver refused it with a 4xx status",
        "status_5xx" => "the receiver answered with a 5xx status",
        "status_other" => "the receiver answered with a status that is no success",
        "redirect" => "the receiver redirected, which is not followed",
        "gone" => "the receiver answered 410 Gone",
        "timeout" => "no complete answer came in time",
        "blocked" => "its address is not allowed here",
        "dns" => "the host name has no address",
        "connect" => "no address accepted a connection",
        "tls" => "TLS failed: most often the certificate is not trusted",
        "protocol" => "the connection broke, or the answer was not HTTP",
        "unanswered" => "the receiver did not answer for days, so that this was not even tried",
        "untaken" => "nobody took it in time",
        _ => "the attempt failed",
    }
}

fn badge(class: &str, shape: &str, word: &str) -> Markup {
    html! { span class={ "state " (class) } { span aria-hidden="true" { (shape) } " " (word) } }
}
