//! Pages for people.

use std::borrow::Cow;

use html_escape::encode_safe;
use lambda_http::http::{HeaderValue, StatusCode, header};

use super::Response;

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

/// Not in a frame, no guessing of types, and the address (with its token) named to nobody else. It is named to us: a
/// browser that withholds it sends `Origin: null` with a form.
const PAGE_HEADERS: [(header::HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

impl Page {
    pub(super) fn response(&self) -> Response {
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
