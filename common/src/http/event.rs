//! The events and responses of API Gateway's HTTP API, payload version 2.0
//! (<https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>).
//!
//! The conversion in `lambda_http` (1.3) panics on an unreadable `Host`, query or body, and builds a URL that is not
//! needed here.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use lambda_http::{
    Body,
    aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse},
    http::{self, HeaderMap, HeaderValue, Method, StatusCode, header, uri::PathAndQuery},
};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use url::Url;

use super::status::HttpError;
use crate::base_url::BaseUrl;

/// The maximum body size in bytes of most routes. A larger body is rejected before it is parsed.
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;

pub(super) type Response = http::Response<String>;

/// An event as Lambda delivers it. An unreadable event does not fail the invocation; the client gets a response with
/// the error.
pub struct Event(Result<ApiGatewayV2httpRequest, serde_json::Error>);

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(text.get())))
    }
}

/// The parts of a request that the routes use.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    /// Each element is one or more pairs separated by semicolons, as in a `cookie` header. Cookies from headers are
    /// last.
    pub(super) cookies: Vec<String>,
    pub(super) body: Vec<u8>,
    pub(super) source_ip: Option<String>,
    domain: Option<String>,
}

impl Event {
    /// Whether the request is a `HEAD`.
    pub(super) fn is_head(&self) -> bool {
        self.0.as_ref().is_ok_and(|event| event.request_context.http.method == Method::HEAD)
    }

    /// Returns the request, if it is valid HTTP. A `HEAD` is treated as a `GET`, because it gets the same status and
    /// headers (RFC 9110, 9.3.2).
    pub(super) fn request(self) -> Result<Request, HttpError> {
        let event = self.0.map_err(|_unreadable| HttpError::Unreadable)?;
        let query = event.raw_query_string.unwrap_or_default();
        let hosts_are_valid = event.headers.get_all(header::HOST).iter().all(|host| host.to_str().is_ok_and(is_host));
        if !hosts_are_valid || PathAndQuery::try_from(format!("/?{query}")).is_err() {
            return Err(HttpError::Unreadable);
        }
        let body = event.body.unwrap_or_default();
        let body = if event.is_base64_encoded {
            STANDARD.decode(body).map_err(|_not_base64| HttpError::Unreadable)?
        } else {
            body.into_bytes()
        };
        let cookies = cookies(event.cookies.unwrap_or_default(), &event.headers);
        let method = event.request_context.http.method;
        Ok(Request {
            method: if method == Method::HEAD { Method::GET } else { method },
            path: canonical(&event.raw_path.unwrap_or_default()),
            query,
            headers: event.headers,
            cookies,
            body,
            source_ip: event.request_context.http.source_ip,
            domain: event.request_context.domain_name,
        })
    }
}

impl Request {
    /// Checks the size of the body, before the body is parsed and the caller is looked up.
    pub(super) fn check_size(&self, most: usize) -> Result<(), HttpError> {
        if self.body.len() > most { Err(HttpError::TooLarge { most }) } else { Ok(()) }
    }

    /// The first header with this name, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The first header with this name. Bytes that are not UTF-8 are replaced.
    pub(super) fn lossy_header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
    }

    /// Whether the request is from a browser that will show the response.
    pub(super) fn takes_html(&self) -> bool {
        self.header("accept").is_some_and(|accept| accept.contains("text/html"))
    }

    /// The address of the requested page: the path, with the query of a `GET`.
    pub(super) fn target(&self) -> String {
        match self.query.as_str() {
            query if self.method == Method::GET && !query.is_empty() => format!("{}?{query}", self.path),
            _ => self.path.clone(),
        }
    }

    /// The configured base URL, or else the request's domain, which API Gateway sets to a domain of this API regardless
    /// of the `Host` header.
    pub(super) fn base(&self, configured: Option<&BaseUrl>) -> BaseUrl {
        configured.cloned().unwrap_or_else(|| BaseUrl::of_domain(self.domain.as_deref().unwrap_or("localhost")))
    }
}

/// Normalizes a request's path: removes trailing slashes, and repeated slashes, which result from joining `/v1/...` to
/// a base URL that ends in `/`. The normalized path alone selects the route, so the route's checks apply to every
/// spelling of its path.
pub fn canonical(path: &str) -> String {
    let mut canonical = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !canonical.ends_with('/') {
            canonical.push(character);
        }
    }
    if canonical.len() > 1 && canonical.ends_with('/') {
        canonical.pop();
    }
    canonical
}

/// Collects the cookies of a request. API Gateway moves them from the headers to the list `listed`; other sources of
/// such events may leave them in the headers. The first session cookie counts, so the listed cookies come before those
/// in headers. Session cookies are ASCII, so invalid UTF-8 elsewhere in a header does not affect them.
fn cookies(listed: Vec<String>, headers: &HeaderMap) -> Vec<String> {
    let in_headers = headers.get_all(header::COOKIE).iter();
    let in_headers = in_headers.map(|cookies| String::from_utf8_lossy(cookies.as_bytes()).into_owned());
    listed.into_iter().chain(in_headers).filter(|cookies| !cookies.trim().is_empty()).collect()
}

/// Whether `text` is a valid `Host` header. A server must reject an invalid one with 400 (RFC 9112, 3.2).
fn is_host(text: &str) -> bool {
    Url::parse(&format!("http://{text}")).is_ok_and(|url| url.username().is_empty() && url.path() == "/")
}

pub(super) fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Converts the response to API Gateway's format, which separates cookies from other headers.
pub(super) fn response(response: Response) -> ApiGatewayV2httpResponse {
    let (mut parts, body) = response.into_parts();
    let mut answer = ApiGatewayV2httpResponse::default();
    let cookies = parts.headers.get_all(header::SET_COOKIE).iter();
    answer.cookies = cookies.filter_map(|cookie| Some(cookie.to_str().ok()?.to_owned())).collect();
    parts.headers.remove(header::SET_COOKIE);
    answer.status_code = parts.status.as_u16().into();
    answer.headers = parts.headers;
    answer.body = (!body.is_empty()).then_some(Body::Text(body));
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(changes: Value) -> Result<Request, HttpError> {
        let mut event = json!({
            "rawPath": "/v1/webhooks/list",
            "rawQueryString": "a=b",
            "headers": {"host": "api.example.com"},
            "requestContext": {"domainName": "api.example.com", "http": {"method": "POST"}},
            "body": "{}",
        });
        let changes = changes.as_object().expect("members").clone();
        event.as_object_mut().expect("members").extend(changes);
        serde_json::from_value::<Event>(event).expect("an event").request()
    }

    #[test]
    fn a_request_keeps_its_method_path_query_and_body() {
        let request = request(json!({"body": "aGk=", "isBase64Encoded": true})).expect("a request");
        assert_eq!((request.method, request.path.as_str()), (Method::POST, "/v1/webhooks/list"));
        assert_eq!((request.query.as_str(), request.body.as_slice()), ("a=b", b"hi".as_slice()));
    }

    #[test]
    fn the_canonical_path_has_no_needless_slashes() {
        for (path, meant) in [
            ("/v1/webhooks/list", "/v1/webhooks/list"),
            ("//v1/webhooks/list", "/v1/webhooks/list"),
            ("/v1/webhooks/list/", "/v1/webhooks/list"),
            ("///v1//webhooks///list//", "/v1/webhooks/list"),
            ("//evil.example.com/console", "/evil.example.com/console"),
            ("/", "/"),
            ("//", "/"),
            ("", ""),
            ("/a/../b/./%2f/", "/a/../b/./%2f"),
            ("/\u{2215}\u{2215}a/", "/\u{2215}\u{2215}a"),
        ] {
            assert_eq!(canonical(path), meant, "{path}");
            assert_eq!(canonical(meant), meant, "it is stable");
        }
    }

    #[test]
    fn invalid_http_is_refused() {
        for changes in [
            json!({"headers": {"host": "a b"}}),
            json!({"headers": {"host": "x:99999"}}),
            json!({"headers": {"host": "["}}),
            json!({"headers": {"host": "%zz"}}),
            json!({"headers": {"x-a": "a\nb"}}),
            json!({"headers": {"x a": "b"}}),
            json!({"rawQueryString": "a b"}),
            json!({"rawQueryString": "a=\"b\""}),
            json!({"body": "no base64!", "isBase64Encoded": true}),
            json!({"requestContext": {"http": {"method": "NO METHOD"}}}),
            json!({"requestContext": null}),
            json!({"headers": 7}),
        ] {
            assert!(matches!(request(changes.clone()), Err(HttpError::Unreadable)), "{changes}");
        }
    }

    #[test]
    fn an_unusual_path_or_proxy_header_is_harmless() {
        for changes in [
            json!({"rawPath": "no slash \u{0}"}),
            json!({"headers": {"x-forwarded-proto": "a b://"}}),
            json!({"headers": null, "cookies": null, "body": null}),
        ] {
            assert!(request(changes.clone()).is_ok(), "{changes}");
        }
    }
}
