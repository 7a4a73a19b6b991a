//! The result of an event: its post, and the settlement that reports it.

use api::deliveries::{LeasedDelivery, Settlement};

use super::lease::Lease;
use crate::{program::PostOutcome, targets::Target};

/// An event that was posted or is to be released.
pub(super) struct Done {
    pub(super) delivery: LeasedDelivery,
    /// The target, and the result of the post. `None` releases the event.
    pub(super) tried: Option<(Target, PostOutcome)>,
    pub(super) lease: Lease,
}

impl Done {
    /// Returns the settlement for `deliveries/settle`.
    pub(super) fn settlement(&self) -> Settlement {
        let release = Settlement::new(self.delivery.delivery_id.clone(), self.delivery.lease.clone());
        let Some((_, PostOutcome { answer, took })) = &self.tried else { return release };
        let (status_code, error) =
            (answer.as_ref().ok().map(|posted| posted.status), answer.as_ref().err().map(|missing| missing.why));
        let response = answer.as_ref().ok().and_then(|posted| posted.response.clone());
        Settlement { status_code, error, duration_ms: Some(*took), response, ..release }
    }
}
