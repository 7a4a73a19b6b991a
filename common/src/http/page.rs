//! HTML pages for people.

use std::borrow::Cow;

use html_escape::encode_safe;
use lambda_http::http::{HeaderValue, StatusCode, header};

use super::Response;

/// A page that tells a person how something went.
pub struct Page {
    /// Whether it succeeded: status 200, else 400.
    pub good: bool,
    /// The heading.
    pub title: &'static str,
    /// The paragraph below it.
    pub text: Cow<'static, str>,
    /// A command to copy, if any.
    pub command: Option<String>,
    /// A button to press, if any.
    pub form: Option<Form>,
}

/// A button that posts fields to the page's own path.
pub struct Form {
    /// The label of the button.
    pub button: &'static str,
    /// Names and values of the hidden fields.
    pub fields: Vec<(&'static str, String)>,
    /// The fields to fill in.
    pub inputs: &'static [Input],
    /// Where the response may redirect to, other than our own origin: browsers check redirects of forms too.
    pub redirects_to: Option<String>,
}

/// A field to fill in.
pub struct Input {
    /// What to fill in.
    pub label: &'static str,
    /// Its name in the form.
    pub name: &'static str,
    /// Its attributes.
    pub attributes: &'static str,
}

/// No framing, no content sniffing, and no referrer for other sites, since the address contains a token. Our own site
/// does get it: a browser that withholds the referrer sends `Origin: null` with a form.
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

    /// No scripts, nothing from other sites, and forms only if the page has one.
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
    /// Without an `action`, the form would post to the address of the page, query included.
    fn html(&self) -> String {
        let field = |(name, value): &(&str, String)| {
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">\n", encode_safe(value))
        };
        let input = |Input { label, name, attributes }: &Input| {
            format!("<label>{label}<input name=\"{name}\" {attributes} required></label>\n")
        };
        let fields: String = self.fields.iter().map(field).chain(self.inputs.iter().map(input)).collect();
        format!("<form method=\"post\" action=\"?\">\n{fields}<button>{}</button>\n</form>\n", self.button)
    }
}

/// Readable on a phone, in light and dark mode.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 1.125rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 20vh auto 0; padding: 0 1.5rem 3rem;
  color: #1c1e21; background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
code { display: block; padding: .75rem 1rem; border-radius: .375rem; font: .9375rem/1.5 ui-monospace, monospace;
  background: #f0f1f3; user-select: all; }
label { display: block; margin-bottom: 1rem; font-weight: 600; }
input { display: block; box-sizing: border-box; width: 100%; margin-top: .25rem; padding: .5rem .75rem; font: inherit;
  border: 1px solid #767a80; border-radius: .375rem; }
button { font: inherit; font-weight: 600; padding: .625rem 1.25rem; border: 0; border-radius: .375rem; cursor: pointer;
  color: #fff; background: #1a56c4; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181b; }
  code { background: #24272b; }
}
";
