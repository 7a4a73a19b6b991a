//! Receipt handles of standard queues: each identifies one receive of a message.

use base64::{Engine, prelude::BASE64_STANDARD};
use uuid::Uuid;

use super::errors::QueueError;

/// A decoded receipt handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Receipt {
    /// The message's key.
    pub(super) key: i64,
    /// Makes the handle unique, also among those from earlier processes.
    nonce: Uuid,
}

impl Receipt {
    /// Returns the receipt for a new receive.
    pub(super) fn new(key: i64) -> Self {
        Self { key, nonce: Uuid::new_v4() }
    }

    /// Reads a handle.
    pub(super) fn read(handle: &str) -> Result<Self, QueueError> {
        let text = BASE64_STANDARD.decode(handle).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let receipt = text
            .as_deref()
            .and_then(|text| text.split_once(':'))
            .and_then(|(key, nonce)| Some(Self { key: key.parse().ok()?, nonce: nonce.parse().ok()? }));
        receipt.ok_or_else(|| QueueError::new("ReceiptHandleIsInvalid", "The input receipt handle is invalid."))
    }

    /// Returns the handle.
    pub(super) fn handle(self) -> String {
        BASE64_STANDARD.encode(format!("{}:{}", self.key, self.nonce))
    }
}
