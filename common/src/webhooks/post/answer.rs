//! Reads receivers' responses.

use std::{io, time::Duration};

use http_body_util::BodyExt;
use hyper::{HeaderMap, Response, StatusCode, body::Incoming, header};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{
    cause::{INCOMPLETE, cause_of, is_caused_by},
    connection::TooMuch,
};
use crate::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Detail, Failure, Outcome, RESPONSE_BYTES, retry_after},
        destination::Headers,
    },
};

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostResult {
    /// Whether the receiver accepted the delivery.
    pub outcome: Outcome,
    /// The first 1,024 bytes of the response to a failed attempt, as text.
    pub response: Option<String>,
    /// The cause of the failure, if it is known.
    pub detail: Option<Detail>,
}

impl From<Outcome> for PostResult {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, response: None, detail: None }
    }
}

const INVALID: &str = "The response body is not valid HTTP/1.1";

/// Reads the response to a request.
#[derive(Clone, Copy)]
pub(super) struct ResponseReader<'a> {
    pub(super) url: &'a Url,
    /// The endpoint's custom headers, if any.
    pub(super) headers: Option<&'a Headers>,
    /// The size of the request's body.
    pub(super) bytes: usize,
    pub(super) now: Timestamp,
    pub(super) deadline: Instant,
}

impl ResponseReader<'_> {
    /// Reads a response. A 2xx counts only if its body is complete or longer than the limit. For other responses, the
    /// beginning of the body is kept.
    pub(super) async fn posted(self, response: Response<Incoming>) -> PostResult {
        let status = response.status();
        if !status.is_success() {
            let outcome = Outcome::Failed(Failure::Status(status.as_u16(), asked_to_wait(&response, self.now)));
            let detail = redirected(self.url, &response).or_else(|| too_large(status, self.bytes));
            let detail = detail.map(|text| Detail::new(self.masked(text)));
            let response = Some(self.masked(beginning(response).await));
            return PostResult { outcome, response, detail };
        }
        let failed = |failure, text| PostResult {
            outcome: Outcome::Failed(failure),
            response: None,
            detail: Some(Detail::new(text)),
        };
        match timeout_at(self.deadline, to_the_end(response)).await {
            Ok(Ok(())) => Outcome::Delivered(status.as_u16()).into(),
            Ok(Err(error)) => failed(Failure::Protocol, if is_invalid(&error) { INVALID } else { INCOMPLETE }),
            Err(_elapsed) => failed(Failure::Timeout, "The response did not finish in time"),
        }
    }

    /// Masks the values of the custom headers in `text`.
    fn masked(self, text: String) -> String {
        self.headers.into_iter().fold(text, |text, headers| headers.mask(text))
    }
}

/// Reads a body to its end or to the limit.
async fn to_the_end(response: Response<Incoming>) -> hyper::Result<()> {
    let (head, mut body) = response.into_parts();
    let end = End::of(&head.headers);
    let mut left = match end {
        End::After(length) => length,
        End::Close | End::LastChunk => u64::MAX,
    };
    while left > 0 {
        let Some(frame) = body.frame().await else { break };
        match frame {
            Ok(frame) => left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64)),
            Err(error) if is_caused_by::<TooMuch>(&error) => break,
            // Many servers close a TLS connection without close_notify. Then the end could be forged, but of a 2xx, only
            // the status counts.
            Err(error) if end == End::Close && is_closed(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where a body ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// After this many bytes.
    After(u64),
    LastChunk,
    /// Where the receiver closes the connection.
    Close,
}

impl End {
    /// Reads the framing of a body (RFC 9112, section 6.3). The obsolete coding `identity` counts as none, as in other
    /// clients: servers send it with a length.
    fn of(headers: &HeaderMap) -> Self {
        let value = |name| headers.get_all(name).iter().next_back().and_then(|value| value.to_str().ok());
        let coding = value(header::TRANSFER_ENCODING).and_then(|codings| codings.rsplit(',').next()).map(str::trim);
        let is = |name: &str| coding.is_some_and(|coding| coding.eq_ignore_ascii_case(name));
        let length = value(header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok());
        match length {
            _ if is("chunked") => Self::LastChunk,
            Some(length) if coding.is_none() || is("identity") => Self::After(length),
            _ => Self::Close,
        }
    }
}

/// Whether the connection was closed, over TLS without close_notify.
fn is_closed(error: &hyper::Error) -> bool {
    cause_of::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

/// Whether the body's framing, such as the length of a chunk, is invalid. Otherwise, the connection was closed.
fn is_invalid(error: &hyper::Error) -> bool {
    let kind = cause_of::<io::Error>(error).map(io::Error::kind);
    matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
}

/// Explains a response that means that the receiver rejects a body of this size.
fn too_large(status: StatusCode, bytes: usize) -> Option<String> {
    let kb = bytes.div_ceil(1024);
    let text = format!(
        "The receiver accepts no body of this size ({kb} KB). Raise its limit for request bodies, or choose thin payloads for its endpoint"
    );
    (status == StatusCode::PAYLOAD_TOO_LARGE).then_some(text)
}

/// Describes the target of a redirect, without its query, which often contains a credential.
fn redirected(url: &Url, response: &Response<Incoming>) -> Option<String> {
    let location = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection())?;
    let to = str::from_utf8(location.as_bytes()).ok().and_then(|location| url.join(location).ok());
    let Some(mut to) = to else {
        return Some("The receiver redirected the request to an invalid URL".to_owned());
    };
    to.set_query(None);
    to.set_fragment(None);
    // These calls fail only for a URL that cannot have a user name or a password.
    to.set_username("").and_then(|()| to.set_password(None)).ok();
    Some(format!("The receiver redirected the request to {to}"))
}

/// The maximum time to wait for the body of a failed response. It is short, because the status matters more.
const FAILURE_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the beginning of a body, or as much of it as arrives in time. Binary content is only counted.
async fn beginning(response: Response<Incoming>) -> String {
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                let left = RESPONSE_BYTES - bytes.len();
                bytes.extend_from_slice(data.get(..left).unwrap_or(&data));
            }
            if bytes.len() == RESPONSE_BYTES {
                break;
            }
        }
    };
    // The bytes that arrived in time are kept.
    tokio::time::timeout(FAILURE_BODY_TIMEOUT, read).await.ok();
    not_text(&head.headers, &bytes).unwrap_or_else(|| text(bytes))
}

/// Describes a compressed or binary body by its format and length. A decoder would slow down each cold start, and few
/// receivers compress responses, because requests do not accept compression.
fn not_text(headers: &HeaderMap, bytes: &[u8]) -> Option<String> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let form = match value(header::CONTENT_ENCODING) {
        Some(coding) if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") => coding,
        _ if bytes.contains(&0) => value(header::CONTENT_TYPE).unwrap_or("binary"),
        _ => return None,
    };
    let or_more = if bytes.len() == RESPONSE_BYTES { "at least " } else { "" };
    (!bytes.is_empty()).then(|| {
        let form: String = form.chars().take(MAX_FORM_LENGTH).collect();
        format!("({form}, {or_more}{} bytes)", bytes.len())
    })
}

/// The maximum number of characters of a media type or a content coding to show.
const MAX_FORM_LENGTH: usize = 100;

fn text(mut bytes: Vec<u8>) -> String {
    // A character that was cut off is omitted.
    let whole = match str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    bytes.truncate(whole);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn asked_to_wait(response: &Response<Incoming>, now: Timestamp) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let given = response.headers().get_all(header::RETRY_AFTER).iter();
    given.filter_map(|header| retry_after(header.to_str().ok()?, now)).max()
}
