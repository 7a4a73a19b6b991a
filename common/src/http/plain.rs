//! The command-line authentication flow: plain JSON in and out, a session cookie, and pages for people.

use html_escape::encode_safe;
use lambda_http::http::{HeaderMap, HeaderValue, header};
use serde_json::Map;
use url::Url;

use super::{
    Answer, Body, Fields, MAX_BODY_BYTES, Rejected, Request, RequestExt, Response, Result, StatusCode, Value,
    add_cookies, json, json_response,
    status::{Failure, flow_code},
};
use crate::{
    api_keys::ApiKey,
    base_url::BaseUrl,
    error::{Error, Refusal},
    sessions::token_in_cookies,
    token::Token,
};

/// A request, taken apart.
pub struct Call {
    /// Where the API is reached.
    pub base: BaseUrl,
    method: String,
    path: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Body,
}

/// What a call says about who makes it.
pub enum Caller {
    /// It has an `x-api-key`.
    ApiKey(ApiKey),
    /// It has a session cookie.
    Session(Token),
}

/// An answer of the flow.
pub enum Reply {
    /// 200 and JSON.
    Json(Value),
    /// 200, JSON and a `Set-Cookie` value.
    JsonWithCookie(Value, String),
    /// A page, for a browser.
    Page(Page),
    /// 302 to this URL.
    Redirect(String),
    /// 204, to a browser that asks what it may do: API Gateway adds the headers that say it.
    Preflight,
}

/// A page that shows a person how something went.
pub struct Page {
    /// Whether it went well: 200, else 400.
    pub good: bool,
    /// What it says first.
    pub title: &'static str,
    /// What it says then.
    pub text: String,
    /// A command to copy, if there is one.
    pub command: Option<String>,
}

impl Call {
    pub(super) fn of(request: Request, base: BaseUrl) -> Result<Self, Failure> {
        if request.body().len() > MAX_BODY_BYTES {
            return Err(Failure::TooLarge);
        }
        let query = request.query_string_parameters();
        let query = query.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let (parts, body) = request.into_parts();
        let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
        Ok(Self { base, method, path, query, headers: parts.headers, body })
    }

    /// Method and path, to find a route by.
    #[must_use]
    pub fn route(&self) -> (&str, &str) {
        (&self.method, &self.path)
    }

    /// The query parameter `name`.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The input in the body, by `parse`. An empty body means no fields.
    ///
    /// # Errors
    /// The body is no JSON object, or a field is rejected.
    pub fn input<I>(&self, parse: impl FnOnce(&mut Fields) -> Result<I, Rejected>) -> Result<I> {
        let fields = match serde_json::from_slice(&self.body) {
            Ok(Value::Object(fields)) => fields,
            Err(_) if self.body.is_empty() => Map::new(),
            _ => return Err(Error::Malformed),
        };
        let mut fields = Fields::new(fields);
        let input = parse(&mut fields);
        fields.finish(input)
    }

    /// The session in the cookie, if the call has one.
    #[must_use]
    pub fn session(&self) -> Option<Token> {
        token_in_cookies(&self.base, self.header_values(header::COOKIE.as_str()))
    }

    /// Who calls. A key goes before a cookie: who sends one means it.
    #[must_use]
    pub fn caller(&self) -> Option<Caller> {
        let key = self.header_values("x-api-key").next();
        match key {
            Some(key) => ApiKey::parse(key).map(Caller::ApiKey),
            None => self.session().map(Caller::Session),
        }
    }

    /// Refuses a call with a cookie whose `Origin` is neither the base URL nor one of `trusted`: a browser sends
    /// the cookie wherever the call comes from (cross-site request forgery).
    ///
    /// # Errors
    /// The origin is missing or another one.
    pub fn check_origin(&self, trusted: &[BaseUrl]) -> Result<()> {
        let has_cookie = self.headers.contains_key(header::COOKIE);
        let origin = self.header_values(header::ORIGIN.as_str()).next().unwrap_or_default();
        if !has_cookie || self.is_trusted(origin, trusted) { Ok(()) } else { Err(Error::Forbidden(Refusal::Origin)) }
    }

    /// `url` as it was understood, if it is of the base URL's origin or of one of `trusted`.
    #[must_use]
    pub fn trusted_url(&self, url: &str, trusted: &[BaseUrl]) -> Option<String> {
        let url = Url::parse(url).ok()?;
        self.is_trusted(url.as_str(), trusted).then(|| url.into())
    }

    fn is_trusted(&self, url: &str, trusted: &[BaseUrl]) -> bool {
        self.base.is_origin_of(url) || trusted.iter().any(|origin| origin.is_origin_of(url))
    }

    fn header_values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok())
    }
}

pub(super) fn answer(outcome: Result<Reply, Failure>) -> Answer {
    match outcome {
        Ok(reply) => Answer { response: respond(reply), failure: None, tenant: None },
        Err(failure) => Answer { response: error(&failure), failure: Some(failure), tenant: None },
    }
}

fn respond(reply: Reply) -> Response<Body> {
    match reply {
        Reply::Json(value) => json_response(StatusCode::OK, value.to_string()),
        Reply::JsonWithCookie(value, cookie) => {
            let mut response = json_response(StatusCode::OK, value.to_string());
            add_cookies(&mut response, &[cookie]);
            response
        }
        Reply::Page(page) => page.response(),
        Reply::Preflight => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Reply::Redirect(url) => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::FOUND;
            if let Ok(url) = HeaderValue::from_str(&url) {
                response.headers_mut().insert(header::LOCATION, url);
            }
            response
        }
    }
}

fn error(failure: &Failure) -> Response<Body> {
    let message = match failure {
        Failure::Domain(Error::Malformed) => "The body must be a JSON object".to_owned(),
        other => other.message(),
    };
    let mut body = json!({ "code": flow_code(failure), "message": message });
    if let (Value::Object(body), Some(Value::Object(data))) = (&mut body, failure.data()) {
        body.extend(data);
    }
    json_response(failure.status(), body.to_string())
}

/// No script, nothing from elsewhere, not in a frame, and the address (with its token) told to nobody.
const PAGE_HEADERS: [(header::HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

impl Page {
    fn response(&self) -> Response<Body> {
        let Self { good, title, text, command } = self;
        let mark = if *good { "&#10003;" } else { "&#33;" };
        let text = encode_safe(text);
        let command = command.as_ref().map(|command| format!("<code>{}</code>\n", encode_safe(command)));
        let command = command.unwrap_or_default();
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{mark} {title}</h1>\n<p>{text}</p>\n{command}</body>\n\
             </html>\n"
        );
        let mut response = Response::new(Body::Text(html));
        *response.status_mut() = if *good { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        let headers = PAGE_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(headers);
        response
    }
}

/// Readable on a phone, by day and by night.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 1.125rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 20vh auto 0; padding: 0 1.5rem 3rem;
  color: #1c1e21; background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
code { display: block; padding: .75rem 1rem; border-radius: .375rem; font: .9375rem/1.5 ui-monospace, monospace;
  background: #f0f1f3; user-select: all; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181b; }
  code { background: #24272b; }
}
";
