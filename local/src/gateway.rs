//! An API Gateway HTTP API: converts HTTP requests to version 2.0 events, invokes the route's function, and converts
//! its response to HTTP.

mod cors;

use std::{borrow::Cow, collections::BTreeMap, convert::Infallible, sync::Arc};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request::Parts, uri::Authority},
    response::{IntoResponse, Json, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use common::http::canonical;
use futures::stream;
use lambda_http::aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

pub(crate) use self::cors::Cors;
use crate::{functions::Function, template::Route};

/// API Gateway's limit.
const MAX_BODY: usize = 10 * 1024 * 1024;

/// API Gateway's name for a function's header `WWW-Authenticate`. AWS documents this for REST APIs
/// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-known-issues.html>), but HTTP APIs do the
/// same (<https://github.com/anthropics/claude-ai-mcp/issues/748>).
const CHALLENGE: HeaderName = HeaderName::from_static("x-amzn-remapped-www-authenticate");

/// The API's routes with their functions, and the settings for other origins.
pub(crate) struct Gateway {
    pub(crate) account: String,
    pub(crate) routes: Vec<(Route, Arc<Function>)>,
    pub(crate) cors: Option<Cors>,
}

/// A request's route, its function, and the values of the path's variables.
type RouteMatch<'a> = (&'a Route, &'a Function, BTreeMap<&'a str, &'a str>);

/// A request to convert to an event.
struct Incoming<'a> {
    id: String,
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    body: &'a Bytes,
}

impl Gateway {
    /// Returns the API as an axum router.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(answer).with_state(Arc::new(self))
    }

    /// Finds the most specific route that matches a request. `path` is canonical. API Gateway compares the path as
    /// sent, so a base URL that ends in `/` may get a 404 there.
    fn find<'a>(&'a self, method: &Method, path: &'a str) -> Option<RouteMatch<'a>> {
        let takes = |route: &Route| route.method == "ANY" || route.method == method.as_str();
        let found = self.routes.iter().filter(|(route, _)| takes(route)).filter_map(|(route, function)| {
            let variables = match_path(&route.path, path)?;
            Some((route, function.as_ref(), variables))
        });
        found.max_by_key(|(route, ..)| specificity(route))
    }

    async fn answer(&self, parts: &Parts, body: Body) -> Response {
        let path = canonical(parts.uri.path());
        let Some((route, function, variables)) = self.find(&parts.method, &path) else {
            // With CORS enabled, the gateway itself responds to an OPTIONS request that no route accepts.
            let ours = self.cors.is_some() && parts.method == Method::OPTIONS;
            return if ours {
                StatusCode::NO_CONTENT.into_response()
            } else {
                message(StatusCode::NOT_FOUND, "Not Found")
            };
        };
        let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
            return message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
        };
        let id = uuid::Uuid::new_v4().to_string();
        let incoming = Incoming { id, method: &parts.method, uri: &parts.uri, headers: &parts.headers, body: &body };
        let event = incoming.event(&self.account, route, &variables);
        match function.invoke(event).await.and_then(response) {
            // The body is a stream, because an empty body would get a `content-length: 0`, unlike the response to the
            // `GET`.
            Ok(response) if parts.method == Method::HEAD => {
                response.map(|_empty| Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()))
            }
            Ok(response) => response,
            Err(error) => {
                // The path is not logged, because a mangled link may contain a token.
                tracing::error!(route = route.path, error = format!("{error:#}"), "function.failed");
                message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
            }
        }
    }
}

async fn answer(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = gateway.answer(&parts, body).await;
    if let Some(cors) = &gateway.cors {
        cors.apply(&parts.method, &parts.headers, response.headers_mut());
    }
    response
}

/// A route's precedence. If several routes match a request, API Gateway uses the one with the highest precedence.
fn specificity(route: &Route) -> (bool, usize, bool) {
    (!route.path.contains('{'), route.path.len(), route.method != "ANY")
}

/// Returns the values of the variables in `pattern`, if `path` matches it. Only a variable at the end is supported.
fn match_path<'a>(pattern: &'a str, path: &'a str) -> Option<BTreeMap<&'a str, &'a str>> {
    match pattern.split_once('{') {
        None => (pattern == path).then(BTreeMap::new),
        Some((prefix, variable)) => {
            let is_greedy = variable.ends_with("+}");
            let takes = |rest: &&str| !rest.is_empty() && (is_greedy || !rest.contains('/'));
            let rest = path.strip_prefix(prefix).filter(takes)?;
            Some(BTreeMap::from([(variable.trim_end_matches('}').trim_end_matches('+'), rest)]))
        }
    }
}

impl Incoming<'_> {
    /// Returns the event that API Gateway would send. Members without a value are omitted.
    fn event(&self, account: &str, route: &Route, variables: &BTreeMap<&str, &str>) -> Value {
        let now = chrono::Utc::now();
        let route_key = format!("{} {}", route.method, route.path);
        let path = decoded(self.uri.path());
        // Only the derived members need a valid host and port. The header itself is passed on unchanged.
        let authority = self.headers.get(header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let domain = authority.as_ref().map_or("127.0.0.1", Authority::host);
        let port = authority.as_ref().and_then(Authority::port_u16).unwrap_or(80);
        let cookies: Vec<_> = self.headers.get_all(header::COOKIE).iter().map(text).collect();
        let query = self.uri.query().unwrap_or_default();
        let (body, is_base64) = match std::str::from_utf8(self.body) {
            Ok(text) if text.is_empty() || is_text(self.headers) => (text.to_owned(), false),
            _ => (BASE64_STANDARD.encode(self.body), true),
        };
        let mut event = json!({
            "version": "2.0",
            "routeKey": route_key,
            "rawPath": path,
            "rawQueryString": query,
            "cookies": cookies.iter().flat_map(|line| line.split("; ")).collect::<Vec<_>>(),
            "headers": self.event_headers(port),
            "queryStringParameters": joined(url::form_urlencoded::parse(query.as_bytes())),
            "requestContext": {
                "accountId": account,
                "apiId": "local",
                "domainName": domain,
                "domainPrefix": domain.split('.').next(),
                "http": {
                    "method": self.method.as_str(),
                    "path": path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": self.headers.get(header::USER_AGENT).map(text).unwrap_or_default(),
                },
                "requestId": self.id,
                "routeKey": route_key,
                "stage": "$default",
                "time": now.format("%d/%b/%Y:%H:%M:%S %z").to_string(),
                "timeEpoch": now.timestamp_millis(),
            },
            "pathParameters": variables.iter().map(|(name, value)| (name, decoded(value))).collect::<BTreeMap<_, _>>(),
            "body": body,
            "isBase64Encoded": is_base64,
        });
        let optional = ["cookies", "queryStringParameters", "pathParameters", "body"];
        let empty = |value: &Value| *value == json!([]) || *value == json!({}) || *value == json!("");
        if let Some(members) = event.as_object_mut() {
            members.retain(|name, value| !optional.contains(&name.as_str()) || !empty(value));
        }
        event
    }

    /// Returns the headers, with names in lower case and repeated headers joined by commas. Cookies are listed
    /// separately.
    fn event_headers(&self, port: u16) -> BTreeMap<String, String> {
        let received = self.headers.iter().filter(|(name, _)| *name != header::COOKIE);
        let mut headers = joined(received.map(|(name, value)| (name.as_str(), text(value))));
        for (name, value) in
            [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-port", &port.to_string()), ("x-forwarded-proto", "http")]
        {
            headers.insert(name.to_owned(), value.to_owned());
        }
        headers
    }
}

/// Converts the function's response to HTTP.
fn response(answer: Value) -> Result<Response> {
    let answer: ApiGatewayV2httpResponse = serde_json::from_value(answer)?;
    let body = answer.body.as_deref().unwrap_or_default();
    let body = if answer.is_base64_encoded { BASE64_STANDARD.decode(body)? } else { body.to_vec() };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(u16::try_from(answer.status_code)?)?;
    let headers = response.headers_mut();
    for (name, value) in answer.headers.iter().chain(&answer.multi_value_headers) {
        headers.append(HeaderName::clone(name), value.clone());
    }
    if let Some(challenge) = headers.remove(header::WWW_AUTHENTICATE) {
        headers.insert(CHALLENGE, challenge);
    }
    for cookie in answer.cookies {
        headers.append(header::SET_COOKIE, HeaderValue::try_from(cookie)?);
    }
    Ok(response)
}

/// Returns a response from API Gateway itself.
fn message(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

/// Decodes the escapes in a path, as HTTP APIs do even for `rawPath`.
fn decoded(path: &str) -> Cow<'_, str> {
    percent_decode_str(path).decode_utf8_lossy()
}

/// Whether a body of this type is passed on as text. HTTP APIs encode all others in base64, including forms and bodies
/// without a type, as observed in <https://github.com/ministackorg/ministack/pull/766>.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(text).unwrap_or_default().to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/") || ["application/json", "application/xml", "application/javascript"].contains(&kind)
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn joined(pairs: impl Iterator<Item = (impl Into<String>, impl AsRef<str>)>) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::<String, String>::new();
    for (name, value) in pairs {
        let all = joined.entry(name.into()).and_modify(|all| all.push(',')).or_default();
        all.push_str(value.as_ref());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(match_path("/v1/webhooks/list", "/v1/webhooks/list"), Some(BTreeMap::new()));
        assert_eq!(match_path("/v1/webhooks/list", "/v1/webhooks/list/"), None);
        assert_eq!(match_path("/api/auth/{proxy+}", "/api/auth/a/b"), Some(BTreeMap::from([("proxy", "a/b")])));
        assert_eq!(match_path("/api/auth/{proxy+}", "/api/auth/"), None);
    }

    #[test]
    fn an_exact_path_precedes_a_variable_and_a_method_any() {
        let routes = [
            ("ANY", "/{proxy+}"),
            ("ANY", "/api/auth/{proxy+}"),
            ("GET", "/api/auth/{proxy+}"),
            ("ANY", "/api/auth"),
            ("GET", "/api/auth"),
        ];
        let routes = routes.map(|(method, path)| Route { method: method.to_owned(), path: path.to_owned() });
        assert!(routes.is_sorted_by(|one, other| specificity(one) < specificity(other)));
    }

    #[test]
    fn the_domain_is_one_that_could_be_mapped_and_the_header_stays() {
        for (host, domain, port) in [
            ("api.example.com:8080", "api.example.com", "8080"),
            ("localhost", "localhost", "80"),
            ("x:99999", "x", "80"),
            ("a b", "127.0.0.1", "80"),
            ("[", "127.0.0.1", "80"),
            ("%zz", "127.0.0.1", "80"),
            ("", "127.0.0.1", "80"),
        ] {
            let event = event("/", host);
            assert_eq!(event.pointer("/requestContext/domainName"), Some(&json!(domain)), "{host}");
            assert_eq!(event.pointer("/headers/x-forwarded-port"), Some(&json!(port)), "{host}");
            assert_eq!(event.pointer("/headers/host"), Some(&json!(host)));
        }
    }

    #[test]
    fn escapes_are_resolved_in_the_path_and_not_in_the_query() {
        let event = event("/api/auth/a%20%22b%zz?c=%20d", "localhost");
        assert_eq!(event.get("rawPath"), Some(&json!("/api/auth/a \"b%zz")));
        assert_eq!(event.pointer("/pathParameters/proxy"), Some(&json!("a \"b%zz")));
        assert_eq!(event.get("rawQueryString"), Some(&json!("c=%20d")));
    }

    #[test]
    fn forms_and_bodies_without_a_type_are_passed_on_in_base64() {
        let route = Route { method: "ANY".to_owned(), path: "/".to_owned() };
        for (kind, body, passed_on, is_base64) in [
            ("application/json; charset=utf-8", "{}", json!("{}"), false),
            ("Text/Plain", "a", json!("a"), false),
            ("application/x-www-form-urlencoded", "a=b", json!("YT1i"), true),
            ("", "a=b", json!("YT1i"), true),
            ("", "", Value::Null, false),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
            let (uri, body) = (Uri::from_static("/"), Bytes::from(body));
            let incoming =
                Incoming { id: "1".to_owned(), method: &Method::POST, uri: &uri, headers: &headers, body: &body };
            let event = incoming.event("123456789012", &route, &BTreeMap::new());
            let got = (event.get("body").unwrap_or(&Value::Null), event.get("isBase64Encoded"));
            assert_eq!(got, (&passed_on, Some(&json!(is_base64))), "{kind}");
        }
    }

    fn event(uri: &str, host: &str) -> Value {
        let route = Route { method: "ANY".to_owned(), path: "/api/auth/{proxy+}".to_owned() };
        let uri: Uri = uri.parse().unwrap();
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::try_from(host).unwrap())]);
        let incoming =
            Incoming { id: "1".to_owned(), method: &Method::GET, uri: &uri, headers: &headers, body: &Bytes::new() };
        incoming.event("123456789012", &route, &match_path(&route.path, uri.path()).unwrap_or_default())
    }
}
