//! The command-line authentication flow: plain JSON in and out, a session cookie, and pages for people.

use std::{borrow::Cow, sync::Arc};

use futures::future::BoxFuture;
use html_escape::encode_safe;
use lambda_http::http::{HeaderValue, header};
use serde_json::Map;
use url::form_urlencoded;

use super::{
    Answer, Fields, MAX_BODY_BYTES, Method, Origins, Rejected, Request, Response, Result, StatusCode, Value,
    add_cookies, json, json_response,
    status::{Failure, flow_code, flow_message},
};
use crate::{
    api_keys::ApiKey,
    base_url::BaseUrl,
    error::{Error, Refusal},
    sessions::token_in_cookies,
    token::Token,
};

/// One route of the flow.
pub struct Route<A> {
    /// `GET` or `POST`. Whatever changes something is a `POST`, and is refused where a browser was talked into it.
    pub method: &'static str,
    /// The whole path.
    pub path: &'static str,
    /// What it does.
    pub handle: for<'a> fn(&'a A, &'a Call) -> BoxFuture<'a, Result<Reply>>,
}

/// A request, taken apart.
pub struct Call {
    /// Where the API is reached.
    pub base: BaseUrl,
    origins: Arc<Origins>,
    request: Request,
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
    /// 303 to this URL: what it answers is to be fetched with `GET`.
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
    pub text: Cow<'static, str>,
    /// A command to copy, if there is one.
    pub command: Option<String>,
    /// A button to press, if there is one.
    pub form: Option<Form>,
}

/// A button that posts hidden fields to the page's own path.
pub struct Form {
    /// What the button says.
    pub button: &'static str,
    /// Names and values.
    pub fields: Vec<(&'static str, String)>,
    /// Where the answer may redirect to, beside our own origin: browsers check that too.
    pub redirects_to: Option<String>,
}

impl Call {
    /// The query parameter `name`.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<String> {
        parameter(self.request.query.as_bytes(), name)
    }

    /// The field `name` of a form that was posted.
    #[must_use]
    pub fn form(&self, name: &str) -> Option<String> {
        parameter(&self.request.body, name)
    }

    /// The input in the body, by `parse`. An empty body means no fields.
    ///
    /// # Errors
    /// The body is no JSON object, or a field is rejected.
    pub fn input<I>(&self, parse: impl FnOnce(&mut Fields) -> Result<I, Rejected>) -> Result<I> {
        let body = &self.request.body;
        let fields = match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Err(_) if body.is_empty() => Map::new(),
            _ => return Err(Error::Malformed),
        };
        let mut fields = Fields::new(fields);
        let input = parse(&mut fields);
        fields.finish(input)
    }

    /// The session in the cookie, if the call has one.
    #[must_use]
    pub fn session(&self) -> Option<Token> {
        token_in_cookies(&self.base, self.request.cookies.iter().map(String::as_str))
    }

    /// Who calls. A key goes before a cookie: who sends one means it.
    #[must_use]
    pub fn caller(&self) -> Option<Caller> {
        match self.request.header("x-api-key") {
            Some(key) => ApiKey::parse(key).map(Caller::ApiKey),
            None => self.session().map(Caller::Session),
        }
    }

    /// `url` as it was understood, if it is of our origin or of a trusted one.
    #[must_use]
    pub fn trusted_url(&self, url: &str) -> Option<url::Url> {
        self.origins.trusted_url(&self.base, url)
    }

    /// Refuses a call from a page that is not ours, which would act with what the browser knows (cross-site request
    /// forgery) or sign the browser in to somebody else's account (login CSRF). A browser names the origin of every
    /// such call; a call without one is no browser's, unless it has a cookie.
    fn check_origin(&self) -> Result<()> {
        let origin = self.request.headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let trusted = match origin {
            Some(origin) => self.origins.trust(&self.base, origin),
            None => self.request.cookies.is_empty(),
        };
        if trusted { Ok(()) } else { Err(Error::Forbidden(Refusal::Origin { expected: self.base.clone() })) }
    }
}

/// The first value of `name` in a query or a form.
fn parameter(encoded: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(encoded).find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Finds the route of a request and calls its handler.
pub(super) async fn answer<A>(
    app: &A,
    routes: &'static [Route<A>],
    request: Request,
    origins: &Arc<Origins>,
) -> Answer {
    let known = routes.iter().any(|route| route.path == request.path);
    let route = routes.iter().find(|route| route.path == request.path && route.method == request.method.as_str());
    let outcome = match route {
        _ if request.body.len() > MAX_BODY_BYTES => Err(Failure::TooLarge),
        _ if request.method == Method::OPTIONS => Ok(Reply::Preflight),
        Some(route) => {
            let call = Call { base: request.base(origins.base.as_ref()), origins: Arc::clone(origins), request };
            handle(app, route, &call).await.map_err(Failure::from)
        }
        None if known => Err(Failure::Method),
        None => Err(Error::NotFound("Not found").into()),
    };
    let answer = outcome.map_or_else(refuse, |reply| Answer::of(respond(reply)));
    Answer { route: route.map(|route| route.path), ..answer }
}

async fn handle<A>(app: &A, route: &Route<A>, call: &Call) -> Result<Reply> {
    if call.request.method == Method::POST {
        call.check_origin()?;
    }
    (route.handle)(app, call).await
}

fn respond(reply: Reply) -> Response {
    match reply {
        Reply::Json(value) => json_response(StatusCode::OK, value.to_string()),
        Reply::JsonWithCookie(value, cookie) => {
            let mut response = json_response(StatusCode::OK, value.to_string());
            add_cookies(&mut response, &[cookie]);
            response
        }
        Reply::Page(page) => page.response(),
        Reply::Preflight => empty(StatusCode::NO_CONTENT),
        Reply::Redirect(url) => {
            let mut response = empty(StatusCode::SEE_OTHER);
            if let Ok(url) = HeaderValue::from_str(&url) {
                response.headers_mut().insert(header::LOCATION, url);
            }
            response
        }
    }
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

/// How the flow says that something failed.
pub(super) fn refuse(failure: Failure) -> Answer {
    let mut body = json!({ "code": flow_code(&failure), "message": flow_message(&failure) });
    if let (Value::Object(body), Some(Value::Object(data))) = (&mut body, failure.data()) {
        body.extend(data);
    }
    let response = json_response(failure.status(), body.to_string());
    Answer { failure: Some(failure), ..Answer::of(response) }
}

/// Not in a frame, no guessing of types, and the address (with its token) named to nobody else. It is named to us: a
/// browser that withholds it sends `Origin: null` with a form.
const PAGE_HEADERS: [(header::HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

impl Page {
    fn response(&self) -> Response {
        let Self { good, title, text, command, form } = self;
        let mark = if *good { "&#10003;" } else { "&#33;" };
        let text = encode_safe(text);
        let command = command.as_ref().map(|command| format!("<code>{}</code>\n", encode_safe(command)));
        let command = command.unwrap_or_default();
        let button = form.as_ref().map(Form::html).unwrap_or_default();
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{mark} {title}</h1>\n<p>{text}</p>\n{command}{button}\
             </body>\n</html>\n"
        );
        let mut response = Response::new(html);
        *response.status_mut() = if *good { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        let headers = PAGE_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(headers);
        let policy = HeaderValue::from_str(&self.content_security_policy());
        response.headers_mut().extend(policy.ok().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
        response
    }

    /// No script, nothing from elsewhere, and forms only where the page has one.
    fn content_security_policy(&self) -> String {
        let form_action = match &self.form {
            None => "'none'".to_owned(),
            Some(Form { redirects_to: None, .. }) => "'self'".to_owned(),
            Some(Form { redirects_to: Some(origin), .. }) => format!("'self' {origin}"),
        };
        format!(
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action {form_action}; \
             frame-ancestors 'none'"
        )
    }
}

impl Form {
    /// Without an `action` it would post to the address of the page, query and all.
    fn html(&self) -> String {
        let field = |(name, value): &(&str, String)| {
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">\n", encode_safe(value))
        };
        let fields: String = self.fields.iter().map(field).collect();
        format!("<form method=\"post\" action=\"?\">\n{fields}<button>{}</button>\n</form>\n", self.button)
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
button { font: inherit; font-weight: 600; padding: .625rem 1.25rem; border: 0; border-radius: .375rem; cursor: pointer;
  color: #fff; background: #1a56c4; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181b; }
  code { background: #24272b; }
}
";
