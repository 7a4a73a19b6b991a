//! The result of an event: its post, and the settlement that reports it.

use api::deliveries::{LeasedDelivery, Settlement};

use super::lease::Lease;
use crate::http::{Missing, Posted};

/// An event that was posted or is to be released.
pub(super) struct Done {
    pub(super) delivery: LeasedDelivery,
    /// The result of the post. `None` releases the event.
    pub(super) tried: Option<Tried>,
    pub(super) lease: Lease,
}

/// The result of a post.
pub(super) struct Tried {
    pub(super) answer: Result<Posted, Missing>,
    /// The duration, in milliseconds.
    pub(super) took: u64,
}

impl Done {
    /// Returns the settlement for `deliveries/settle`.
    pub(super) fn settlement(&self) -> Settlement {
        let release = Settlement::new(self.delivery.delivery_id.clone(), self.delivery.lease.clone());
        let Some(Tried { answer, took }) = &self.tried else { return release };
        let (status_code, error) =
            (answer.as_ref().ok().map(|posted| posted.status), answer.as_ref().err().map(|missing| missing.why));
        let response = answer.as_ref().ok().and_then(|posted| posted.response.clone());
        Settlement { status_code, error, duration_ms: Some(*took), response, ..release }
    }
}

impl Tried {
    /// Formats the HTTP status or the reason for a missing response.
    pub(super) fn outcome(&self) -> String {
        match &self.answer {
            Ok(posted) => posted.status.to_string(),
            Err(missing) => missing.why.to_string(),
        }
    }

    /// Whether the program accepted the event.
    pub(super) fn is_delivered(&self) -> bool {
        matches!(self.answer, Ok(Posted { response: None, .. }))
    }

    /// Returns the beginning of the body, unless the status is 2xx.
    pub(super) fn response(&self) -> Option<&str> {
        self.answer.as_ref().ok()?.response.as_deref()
    }
}
