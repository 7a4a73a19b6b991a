//! Calls of the service's API, with the credentials of the signed-in user.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::{failure::Failure, http::Http, terminal::shown};

/// The time limit of a call. A Lambda function behind an HTTP API has 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The largest answer, in bytes: above the limit of Lambda.
const LARGEST: usize = 8 << 20;

/// The caller's credentials. They cannot be printed.
#[derive(Clone)]
pub(crate) enum Caller {
    Anonymous,
    Key(Zeroizing<String>),
    Session(Zeroizing<String>),
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

    /// The same API with other credentials.
    pub(crate) fn by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// The origin of the service: its address without a path.
    pub(crate) fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    /// Whether calls are encrypted or stay on this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.base.scheme() == "https" || is_loopback(&self.base)
    }

    /// The address of a page.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Calls a route of `/v1`: `webhooks/list`.
    pub(crate) async fn call(&self, route: &str, fields: Value) -> Result<Value, Failure> {
        let answer = self.send(Method::POST, &format!("/v1/{route}"), Some(json!({ "json": fields }))).await?;
        Ok(answer.get("json").cloned().unwrap_or_default())
    }

    /// Calls a path of `/api/auth`: `api-key/list`.
    pub(crate) async fn flow(&self, path: &str, fields: Option<Value>) -> Result<Value, Failure> {
        let method = if fields.is_some() { Method::POST } else { Method::GET };
        self.send(method, &format!("/api/auth/{path}"), fields).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let request = Request::builder().method(method).uri(self.page(path)).header("accept", "application/json");
        let request = match &self.caller {
            Caller::Anonymous => request,
            Caller::Key(key) => request.header("x-api-key", key.as_str()),
            Caller::Session(cookie) => request.header("cookie", cookie.as_str()).header("origin", self.origin()),
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| Failure::Local(format!("The request could not be built: {error}.")))?;
        let answer = self.http.send(request, LARGEST, TIMEOUT).await.map_err(|why| {
            Failure::Unreachable(format!(
                "Could not reach {} ({}). Check the network and --api.",
                self.origin(),
                why.name()
            ))
        })?;
        let value: Option<Value> = serde_json::from_slice(&answer.body).ok();
        match (answer.status, value) {
            (200..=299, Some(value)) => Ok(value),
            (200..=299, None) => {
                Err(Failure::Unreachable(format!("{} did not answer like this service. Check --api.", self.origin())))
            }
            (status, value) => Err(refused(status, answer.retry_after, &value.unwrap_or_default())),
        }
    }
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The failure of an error answer, of either style of the API or of API Gateway itself.
fn refused(status: u16, retry_after: Option<Duration>, answer: &Value) -> Failure {
    let error = answer.get("json").unwrap_or(answer);
    let reason = error["data"]["reason"].as_str().or(error["reason"].as_str()).unwrap_or_default().to_owned();
    let issues = error["data"]["issues"].as_array().into_iter().flatten().map(|issue| {
        let path: Vec<_> = issue["path"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("{}: {}", path.join("."), issue["message"].as_str().unwrap_or_default())
    });
    let issues: Vec<_> = issues.collect();
    let message = if issues.is_empty() {
        error["message"].as_str().map_or_else(|| format!("The service answered HTTP {status}"), ToOwned::to_owned)
    } else {
        issues.join("; ")
    };
    let message = shown(&message);
    if status == 401 {
        return Failure::NotSignedIn("The API key or session is no longer valid.".to_owned());
    }
    Failure::Refused { status, reason, message: format!("{}.", message.trim_end_matches('.')), retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_style_of_error_is_one_line() {
        let envelope = json!({"json": {"code": "CONFLICT", "message": "No.", "data": {"reason": "endpoint_limit"}}});
        let issues = json!({"json": {"message": "Input validation failed", "data": {"issues": [
            {"path": ["url"], "message": "Must be an absolute https URL"}, {"path": ["events", "0"], "message": "Unknown"}]}}});
        let gateway = json!({"message": "Too Many\u{1b}[2J Requests"});
        for (status, answer, message, reason) in [
            (409, envelope, "No.", "endpoint_limit"),
            (400, issues, "url: Must be an absolute https URL; events.0: Unknown.", ""),
            (429, gateway, "Too Many\u{FFFD}[2J Requests.", ""),
            (502, Value::Null, "The service answered HTTP 502.", ""),
        ] {
            let failure = refused(status, None, &answer);
            assert_eq!((failure.to_string().as_str(), failure.reason()), (message, reason));
            assert_eq!(failure.is_passing(), status >= 429);
        }
        assert!(matches!(refused(401, None, &Value::Null), Failure::NotSignedIn(_)));
    }
}
