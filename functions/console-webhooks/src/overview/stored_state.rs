//! The state of an endpoint according to its item. It is known without reading deliveries, so the list can count all
//! endpoints by it, and show those in one state.

use common::{
    timestamp::Timestamp,
    webhooks::endpoints::{EndpointView, Gate},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Failing,
    /// The latest attempts failed, but not for long enough to make the endpoint failing.
    Retrying,
    Slow,
    Disabled,
    /// Enabled, and in none of the other states.
    Enabled,
}

impl Stored {
    /// All states, in the order of the page.
    pub(super) const ALL: [Self; 5] = [Self::Failing, Self::Retrying, Self::Slow, Self::Disabled, Self::Enabled];

    pub(super) fn of(endpoint: &EndpointView, now: Timestamp) -> Self {
        let health = &endpoint.health;
        match health.gate {
            _ if !endpoint.active => Self::Disabled,
            _ if health.failing_since(now).is_some() => Self::Failing,
            _ if health.streak.is_some() => Self::Retrying,
            Gate::Late { .. } => Self::Slow,
            _ => Self::Enabled,
        }
    }

    /// Reads a state from an address.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The name in sentences and addresses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Retrying => "retrying",
            Self::Slow => "slow",
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
        }
    }

    /// An explanation of a state that a row's badge, which depends on single deliveries, may not show.
    pub(super) fn meaning(self) -> Option<&'static str> {
        match self {
            Self::Retrying => Some("The latest attempts at these endpoints failed."),
            Self::Enabled => Some(
                "The latest attempts at these endpoints succeeded, or there were none yet. Single deliveries may still be \
                 retried.",
            ),
            Self::Failing | Self::Slow | Self::Disabled => None,
        }
    }

    /// The name as a label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Failing => "Failing",
            Self::Retrying => "Retrying",
            Self::Slow => "Slow",
            Self::Disabled => "Disabled",
            Self::Enabled => "Enabled",
        }
    }
}
