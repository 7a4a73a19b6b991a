//! Findings, as results contain them.

use api::verification::{Cause, Finding};

use super::body::difference;

/// A finding without details.
pub(super) fn finding(cause: Cause, message: impl Into<String>) -> Finding {
    Finding {
        cause: cause.into(),
        message: message.into(),
        at: None,
        sent: None,
        seen: None,
        seconds: None,
        webhook_endpoint_id: None,
        delivery_id: None,
    }
}

/// The difference between two bodies, as a finding.
pub(super) fn of_bodies(sent: &[u8], seen: &[u8]) -> Option<Finding> {
    let found = difference(sent, seen)?;
    let (at, sent, seen) = (Some(found.at), Some(found.sent), Some(found.seen));
    Some(Finding { at, sent, seen, ..finding(found.cause, found.message) })
}

pub(super) fn unexplained(message: &str) -> Finding {
    finding(Cause::Unexplained, message)
}
