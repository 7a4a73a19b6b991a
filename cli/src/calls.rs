//! Calls to the service's API, with the signed-in user's credentials.

use std::time::{Duration, SystemTime};

use api::{
    Call, Secret,
    deliveries::Unanswered,
    error::{Details, Envelope, EnvelopeError, Issue, PlainError},
};
use reqwest::Method;
use serde::Deserialize;
use url::Url;

use crate::{
    address::is_loopback,
    failure::{ErrorResponse, Failure},
    http::{Http, HttpResponse, Missing, proxy_for},
    terminal::shown,
};

/// A call's time limit, above API Gateway's 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The maximum number of entries in a page of a list.
pub(crate) const MAX_PAGE_SIZE: usize = 100;
/// A route that responds to every caller.
pub(crate) const OPEN: &str = "/api/auth/get-session";
/// The maximum size of a response, in bytes: above Lambda's limit.
const MAX_RESPONSE_BYTES: usize = 8 << 20;

/// The caller's credentials, which cannot be printed.
#[derive(Clone)]
pub(crate) enum Caller {
    Anonymous,
    Key(Secret),
    /// The key in `FANFARE_API_KEY`.
    KeyOfEnvironment(Secret),
    Session(Secret),
}

/// The API at an address.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) base: Url,
    caller: Caller,
    http: Http,
}

impl Api {
    pub(crate) fn new(base: Url, caller: Caller, http: Http) -> Self {
        Self { base, caller, http }
    }

    /// Returns this API with different credentials.
    pub(crate) fn by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// Returns the service's origin: its address without a path.
    pub(crate) fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    /// Whether calls are encrypted, or never leave this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.base.scheme() == "https" || is_loopback(&self.base)
    }

    /// Whether calls use the key in `FANFARE_API_KEY`.
    pub(crate) fn has_key_of_environment(&self) -> bool {
        matches!(self.caller, Caller::KeyOfEnvironment(_))
    }

    /// Whether calls have credentials.
    pub(crate) fn is_signed_in(&self) -> bool {
        !matches!(self.caller, Caller::Anonymous)
    }

    /// Describes the source of the credentials.
    pub(crate) fn key_source(&self) -> &'static str {
        match self.caller {
            Caller::Anonymous => "none",
            Caller::Key(_) => "the credentials of the last login",
            Caller::KeyOfEnvironment(_) => "the key in FANFARE_API_KEY",
            Caller::Session(_) => "a session",
        }
    }

    /// Returns a page's address.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Calls a route.
    pub(crate) async fn call<C: Call>(&self, fields: &C) -> Result<C::Answer, Failure> {
        self.call_at(C::PATH, fields).await
    }

    /// Reads a page of a list: at most [`MAX_PAGE_SIZE`] entries after the first `offset` ones.
    pub(crate) async fn page_of<C: Call>(&self, list: &C, offset: usize) -> Result<C::Answer, Failure> {
        self.call_at(&format!("{}?offset={offset}", C::PATH), list).await
    }

    async fn call_at<C: Call>(&self, path: &str, fields: &C) -> Result<C::Answer, Failure> {
        let has_envelope = C::PATH.starts_with("/v1/");
        let (method, body) = match (C::IS_GET, has_envelope) {
            (true, _) => (Method::GET, Ok(String::new())),
            (false, true) => (Method::POST, serde_json::to_string(&Envelope { json: fields })),
            (false, false) => (Method::POST, serde_json::to_string(fields)),
        };
        let body = body.map_err(|error| Failure::local(format!("The request could not be built: {error}.")))?;
        let HttpResponse { status, body, retry_after, .. } = self.send(method, path, body).await?;
        if status == 401 {
            return Err(self.not_signed_in());
        }
        if !(200..=299).contains(&status) {
            // Another program, or a gateway that does not know the path, has no code for it.
            return Err(match serde_json::from_slice::<ErrorBody>(&body) {
                Ok(ErrorBody::Gateway { .. }) | Err(_) if matches!(status, 300..=399 | 404) => self.unlike_a_service(),
                _ => refused(status, retry_after, &body),
            });
        }
        let answer = if has_envelope {
            serde_json::from_slice(&body).map(|Envelope { json }| json)
        } else {
            serde_json::from_slice(&body)
        };
        answer.map_err(|_other| self.unlike_a_service())
    }

    fn unlike_a_service(&self) -> Failure {
        let message = format!("{} does not respond like a fanfare service.", self.origin());
        Failure::unreachable(message)
            .hint("Check --api. If the service is of another version than this client, update the older one.")
    }

    /// The failure for a call whose credentials the service rejected.
    fn not_signed_in(&self) -> Failure {
        let origin = self.origin();
        match self.caller {
            Caller::KeyOfEnvironment(_) => {
                Failure::not_signed_in(format!("The API key in FANFARE_API_KEY is not valid for {origin}."))
                    .hint("Set a valid key, or unset FANFARE_API_KEY to use the key of `fanfare login`.")
            }
            Caller::Anonymous => Failure::not_signed_in(format!("Not signed in to {origin}.")),
            _ => Failure::not_signed_in(format!("The API key or session for {origin} is no longer valid.")),
        }
    }

    /// Sends a request without fields, and returns the response with any status.
    pub(crate) async fn ask(&self, path: &str) -> Result<HttpResponse, Failure> {
        self.send(Method::GET, path, String::new()).await
    }

    /// Returns the service's time, if it can be reached. This machine's clock may be wrong.
    pub(crate) async fn now(&self) -> Option<SystemTime> {
        self.ask(OPEN).await.ok()?.date
    }

    async fn send(&self, method: Method, path: &str, body: String) -> Result<HttpResponse, Failure> {
        let request = self.http.request(method, &self.page(path)).header("accept", "application/json");
        let request = match &self.caller {
            Caller::Anonymous => request,
            Caller::Key(key) | Caller::KeyOfEnvironment(key) => request.header("x-api-key", key.reveal()),
            Caller::Session(cookie) => request.header("cookie", cookie.reveal()).header("origin", self.origin()),
        };
        let request = request.header("content-type", "application/json").body(body).build();
        let request = request.map_err(|error| Failure::local(format!("The request could not be built: {error}.")))?;
        self.http
            .send(request, MAX_RESPONSE_BYTES, TIMEOUT)
            .await
            .map_err(|missing| unreachable(&self.base, &missing, "--api"))
    }
}

/// The failure for a call without a response.
pub(crate) fn unreachable(url: &Url, missing: &Missing, option: &str) -> Failure {
    let proxy = proxy_for(url);
    let through = proxy.as_ref().map_or_else(String::new, |proxy| format!(" through the proxy {proxy}"));
    let cause = shown(&missing.cause);
    let failure =
        Failure::unreachable(format!("Could not reach {}{through}: {cause}.", url.origin().ascii_serialization()));
    failure.hint(match (missing.why, proxy) {
        (Unanswered::Tls, _) => {
            "If your network inspects TLS, pass its certificate with --cacert or SSL_CERT_FILE. `fanfare doctor` shows \
             more."
                .to_owned()
        }
        (_, Some(_)) => {
            "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY. NO_PROXY lists addresses to reach without the proxy."
                .to_owned()
        }
        (_, None) if is_loopback(url) => format!("Start the service with `cargo local`, or check {option}."),
        (_, None) => format!("Check the network and {option}."),
    })
}

/// An error response, in either of the API's formats or from API Gateway itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorBody {
    Envelope(EnvelopeError),
    Plain(PlainError),
    Gateway { message: String },
}

fn refused(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Failure {
    if status == 407 {
        let failure = Failure::unreachable(
            "The proxy rejected the call with HTTP 407, because it requires a user name and a password.",
        );
        return failure.hint("Set HTTPS_PROXY to http://USER:PASSWORD@HOST:PORT.");
    }
    let (code, message, issues, reason) = match serde_json::from_slice(body) {
        Ok(ErrorBody::Envelope(EnvelopeError { json })) => {
            let Details { issues, reason, .. } = json.data.unwrap_or_default();
            (Some(json.code), json.message, issues.unwrap_or_default(), reason)
        }
        // The message includes the first issue.
        Ok(ErrorBody::Plain(PlainError { code, message, reason, .. })) => (Some(code), message, Vec::new(), reason),
        Ok(ErrorBody::Gateway { message }) => (None, message, Vec::new(), None),
        Err(_) => (None, format!("The service returned HTTP {status}"), Vec::new(), None),
    };
    let issues: Vec<_> =
        issues.iter().map(|Issue { path, message, .. }| format!("{}: {message}", path.join("."))).collect();
    let message = shown(&if issues.is_empty() { message } else { issues.join("; ") });
    let failure = ErrorResponse { status, code, reason, retry_after };
    Failure::refused(failure, format!("{}.", message.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use api::error::Reason;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_style_of_error_is_one_line() {
        let error = json!({
            "defined": false, "code": "CONFLICT", "status": 409, "message": "No.", "data": {"reason": "endpoint_limit"}
        });
        let issue = |path: &[&str], message: &str| json!({"code": "invalid_format", "path": path, "message": message});
        let mut invalid = error.clone();
        invalid["data"] = json!({
            "issues": [issue(&["url"], "Must be an absolute https URL"), issue(&["events", "0"], "Unknown")]
        });
        let mut later = error.clone();
        later["data"]["reason"] = json!("a_reason_of_a_later_version");
        let plain = json!({"code": "LAST_OWNER", "message": "You stay", "reason": "last_owner"});
        for (status, answer, message, reason) in [
            (409, json!({ "json": error }), "No.", Some(Reason::EndpointLimit)),
            (400, json!({ "json": invalid }), "url: Must be an absolute https URL; events.0: Unknown.", None),
            (409, json!({ "json": later }), "No.", None),
            (409, plain, "You stay.", Some(Reason::LastOwner)),
            (429, json!({"message": "Too Many\u{1b}[2J Requests"}), "Too Many\u{FFFD}[2J Requests.", None),
            (502, json!(null), "The service returned HTTP 502.", None),
        ] {
            let failure = refused(status, None, answer.to_string().as_bytes());
            assert_eq!((failure.to_string().as_str(), failure.reason()), (message, reason));
            assert_eq!(failure.is_passing(), status >= 429);
        }
    }
}
