//! API Gateway's HTTP API: HTTP in, an event of payload version 2.0 to the function that the path is mapped to, and
//! the function's answer out again as HTTP.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Json, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use lambda_http::aws_lambda_events::apigw::ApiGatewayV2httpResponse;
use serde_json::{Value, json};

use crate::{functions::Function, template::Route};

/// API Gateway's own limit.
const MAX_BODY: usize = 10 * 1024 * 1024;

/// The routes of the API, and the function behind each.
pub(crate) struct Gateway {
    pub(crate) account: String,
    pub(crate) routes: Vec<(Route, Arc<Function>)>,
}

/// The route of a request, its function, and what the path's variables stand for.
type Found<'a> = (&'a Route, &'a Function, BTreeMap<&'a str, &'a str>);

/// A request on its way to a function.
struct Incoming<'a> {
    id: String,
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    body: &'a Bytes,
}

impl Gateway {
    /// The API, to be served.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(answer).with_state(Arc::new(self))
    }

    fn find<'a>(&'a self, method: &Method, path: &'a str) -> Option<Found<'a>> {
        self.routes.iter().find_map(|(route, function)| {
            let variables = match_path(&route.path, path)?;
            (route.method == "ANY" || route.method == method.as_str()).then_some((route, function.as_ref(), variables))
        })
    }
}

async fn answer(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some((route, function, variables)) = gateway.find(&parts.method, parts.uri.path()) else {
        return message(StatusCode::NOT_FOUND, "Not Found");
    };
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
    };
    let id = uuid::Uuid::new_v4().to_string();
    let incoming = Incoming { id, method: &parts.method, uri: &parts.uri, headers: &parts.headers, body: &body };
    let event = incoming.event(&gateway.account, route, &variables);
    match function.invoke(event).await.and_then(response) {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(path = parts.uri.path(), error = format!("{error:#}"), "the function failed");
            message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
        }
    }
}

/// What the variables of `pattern` stand for, if `path` matches it. Only a greedy variable at the end is known.
fn match_path<'a>(pattern: &'a str, path: &'a str) -> Option<BTreeMap<&'a str, &'a str>> {
    match pattern.split_once('{') {
        None => (pattern == path).then(BTreeMap::new),
        Some((prefix, variable)) => {
            let rest = path.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
            Some(BTreeMap::from([(variable.trim_end_matches("+}"), rest)]))
        }
    }
}

impl Incoming<'_> {
    /// The event, as API Gateway makes it. A member that has nothing to say is left away.
    fn event(&self, account: &str, route: &Route, variables: &BTreeMap<&str, &str>) -> Value {
        let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
        let route_key = format!("{} {}", route.method, route.path);
        let host = self.headers.get(header::HOST).map(text).unwrap_or_default();
        let domain = host.split(':').next().unwrap_or_default();
        let cookies: Vec<_> = self.headers.get_all(header::COOKIE).iter().map(text).collect();
        let query = self.uri.query().unwrap_or_default();
        let (body, is_base64) = match std::str::from_utf8(self.body) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (BASE64_STANDARD.encode(self.body), true),
        };
        let mut event = json!({
            "version": "2.0",
            "routeKey": route_key,
            "rawPath": self.uri.path(),
            "rawQueryString": query,
            "cookies": cookies.iter().flat_map(|line| line.split("; ")).collect::<Vec<_>>(),
            "headers": self.event_headers(&host),
            "queryStringParameters": joined(url::form_urlencoded::parse(query.as_bytes())),
            "requestContext": {
                "accountId": account,
                "apiId": "local",
                "domainName": domain,
                "domainPrefix": domain.split('.').next(),
                "http": {
                    "method": self.method.as_str(),
                    "path": self.uri.path(),
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": self.headers.get(header::USER_AGENT).map(text).unwrap_or_default(),
                },
                "requestId": self.id,
                "routeKey": route_key,
                "stage": "$default",
                "time": now.strftime("%d/%b/%Y:%H:%M:%S %z").to_string(),
                "timeEpoch": now.timestamp().as_millisecond(),
            },
            "pathParameters": variables,
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

    /// Lower-case names, several values of one name joined with commas, cookies elsewhere.
    fn event_headers(&self, host: &str) -> BTreeMap<String, String> {
        let received = self.headers.iter().filter(|(name, _)| *name != header::COOKIE);
        let mut headers = joined(received.map(|(name, value)| (name.as_str(), text(value))));
        let port = host.split(':').nth(1).unwrap_or("80");
        for (name, value) in
            [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-port", port), ("x-forwarded-proto", "http")]
        {
            headers.insert(name.to_owned(), value.to_owned());
        }
        headers
    }
}

/// The function's answer, as HTTP.
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
    for cookie in answer.cookies {
        headers.append(header::SET_COOKIE, HeaderValue::try_from(cookie)?);
    }
    Ok(response)
}

/// An answer of API Gateway itself.
fn message(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
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
}
