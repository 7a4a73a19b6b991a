//! A request as a receiver saw it.

use api::verification::MAX_BODY;
use base64::{Engine, engine::general_purpose::STANDARD};

use super::headers::ReceivedHeaders;
use crate::{
    issue::{IssueCode, Problem},
    timestamp::Timestamp,
};

/// A request as a receiver saw it. It may contain secrets, so there is no `Debug`.
pub struct ReceivedRequest {
    pub headers: ReceivedHeaders,
    pub body: ReceivedBody,
    pub computed: Option<Computed>,
    /// The receiver's time.
    pub received_at: Option<Timestamp>,
}

/// The bytes of a body.
pub struct ReceivedBody(pub(super) Vec<u8>);

/// The signature that the receiver computed.
pub struct Computed(pub(super) String);

/// The maximum number of bytes of a computed signature with its prefix.
const MAX_SIGNATURE_BYTES: usize = 1024;

impl ReceivedBody {
    /// Decodes a body from base64, which keeps every byte.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let body = STANDARD.decode(text).map_err(|_other| vec![Problem::format("Must be base64, with padding")])?;
        Self::of(body)
    }

    /// Takes the body of a form. Browsers send line breaks as a carriage return and a line feed, which a form cannot tell
    /// from those of the request, so they become line feeds.
    pub fn of_form(text: &str) -> Result<Self, Vec<Problem>> {
        Self::of(text.replace("\r\n", "\n").into_bytes())
    }

    fn of(body: Vec<u8>) -> Result<Self, Vec<Problem>> {
        if body.len() > MAX_BODY {
            let message = format!("Must have at most {MAX_BODY} bytes");
            return Err(vec![Problem { code: IssueCode::TooBig, message }]);
        }
        Ok(Self(body))
    }
}

impl Computed {
    /// Takes a signature in any form.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Problem::bytes(text.len(), MAX_SIGNATURE_BYTES)
            .map_or_else(|| Ok(Self(text.to_owned())), |problem| Err(vec![problem]))
    }
}
