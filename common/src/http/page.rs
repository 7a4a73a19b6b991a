//! HTML pages for people, in one layout. They need no script, and load nothing from elsewhere.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use lambda_http::http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use sha2::{Digest, Sha256};

use super::{
    event::Response,
    status::{HttpError, error_message},
};
use crate::error::Error;

/// A page. Its status is 200, unless it says that something was refused.
pub struct Page {
    title: &'static str,
    content: Markup,
    is_done: bool,
    pub(super) refused: Option<HttpError>,
    redirects_to: Option<String>,
}

/// No content sniffing, no window that another site keeps a hold of, and no referrer for other sites, since the address
/// contains a token. Our own site does get it: a browser that withholds the referrer sends `Origin: null` with a form.
const PAGE_HEADERS: [(header::HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// What the policy allows: our style, by its hash, and forms.
static ALLOWED: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

impl Page {
    /// A page with this heading, and `content` below it.
    #[must_use]
    pub fn new(title: &'static str, content: Markup) -> Self {
        Self { title, content, is_done: false, refused: None, redirects_to: None }
    }

    /// Marks the page as a success.
    #[must_use]
    pub fn done(self) -> Self {
        Self { is_done: true, ..self }
    }

    /// Gives the page the status of `error`, if there is one, and marks it as refused. The content has to say what the
    /// error means.
    #[must_use]
    pub fn refused(self, error: Option<Error>) -> Self {
        Self { refused: error.map(HttpError::Domain), ..self }
    }

    /// Lets the answer to its form redirect to `origin`, besides our own: browsers check that, too.
    #[must_use]
    pub fn redirects_to(self, origin: Option<String>) -> Self {
        Self { redirects_to: origin, ..self }
    }

    /// The page of an error for which no handler has made one.
    pub(super) fn of(error: HttpError) -> Self {
        let (title, text) = match error.status().is_server_error() {
            true => ("Something went wrong on our side", "Please try again in a moment.".to_owned()),
            false => ("This did not work", format!("{}.", error.message().trim_end_matches('.'))),
        };
        Self { refused: Some(error), ..Self::new(title, html! { p { (text) } }) }
    }

    /// The response, and what it refuses.
    pub(super) fn response(self) -> (Response, Option<HttpError>) {
        let mut response = Response::new(self.html().into_string());
        *response.status_mut() = self.refused.as_ref().map_or(StatusCode::OK, HttpError::status);
        let headers = PAGE_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(headers);
        let policy = HeaderValue::from_str(&match self.redirects_to {
            Some(origin) => format!("{} {origin}", *ALLOWED),
            None => ALLOWED.clone(),
        });
        response.headers_mut().extend(policy.ok().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
        (response, self.refused)
    }

    fn html(&self) -> Markup {
        let mark = match (&self.refused, self.is_done) {
            (Some(_), _) => Some("!"),
            (None, true) => Some("✓"),
            (None, false) => None,
        };
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    // Screen readers begin with the title.
                    title { @if self.refused.is_some() { "Error: " } (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 {
                            @if let Some(mark) = mark { span aria-hidden="true" { (mark) " " } }
                            (self.title)
                        }
                        (self.content)
                    }
                }
            }
        }
    }
}

/// A form, which posts to the path of its page.
pub struct Form<'a> {
    /// The label of the button.
    pub button: &'static str,
    /// Whether another button of the page matters more.
    pub is_secondary: bool,
    /// Names and values of the hidden fields. Empty values are left out.
    pub hidden: &'a [(&'static str, &'a str)],
    /// The fields to fill in.
    pub fields: &'a [Field<'a>],
    /// Why the form was not accepted when it was last sent. The issues of a field are shown beside the field.
    pub error: Option<&'a Error>,
}

impl Render for Form<'_> {
    /// Without an `action`, the form would post to the address of the page, query included.
    fn render(&self) -> Markup {
        let hidden = self.hidden.iter().filter(|(_, value)| !value.is_empty());
        let alert = self.error.map(|error| match error {
            Error::Invalid(_) => "Please correct the fields that are marked below.".to_owned(),
            error => format!("{}.", error_message(error)),
        });
        html! {
            form method="post" action="?" {
                @if let Some(alert) = alert { p .error role="alert" { (alert) } }
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                @for field in self.fields { (field.html(self.error)) }
                button class=[self.is_secondary.then_some("secondary")] { (self.button) }
            }
        }
    }
}

/// The value of a ticked box. An unticked box sends nothing.
pub const TICKED: &str = "yes";

/// A field to fill in.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    label: &'static str,
    name: &'static str,
    kind: &'static str,
    autocomplete: &'static str,
    value: &'a str,
    hint: Option<&'static str>,
    is_optional: bool,
}

impl<'a> Field<'a> {
    /// A line of text. Browsers and password managers fill it in by `autocomplete`.
    #[must_use]
    pub fn text(name: &'static str, label: &'static str, autocomplete: &'static str, value: &'a str) -> Self {
        Self { label, name, kind: "text", autocomplete, value, hint: None, is_optional: false }
    }

    /// An email address.
    #[must_use]
    pub fn email(name: &'static str, label: &'static str, autocomplete: &'static str, value: &'a str) -> Self {
        Self { kind: "email", ..Self::text(name, label, autocomplete, value) }
    }

    /// The current password. It is never shown again.
    #[must_use]
    pub fn password(name: &'static str, label: &'static str) -> Self {
        Self { kind: "password", ..Self::text(name, label, "current-password", "") }
    }

    /// A new password.
    #[must_use]
    pub fn new_password(name: &'static str, label: &'static str) -> Self {
        Self { autocomplete: "new-password", hint: Some("8 to 128 characters"), ..Self::password(name, label) }
    }

    /// A box to tick, which sends [`TICKED`].
    #[must_use]
    pub fn tick(name: &'static str, label: &'static str) -> Self {
        Self { kind: "checkbox", ..Self::text(name, label, "off", TICKED) }
    }

    /// Adds a hint on how to fill it in.
    #[must_use]
    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Lets it be empty.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    fn html(&self, error: Option<&Error>) -> Markup {
        let Self { label, name, kind, autocomplete, value, hint, is_optional } = *self;
        if kind == "checkbox" {
            return html! {
                div .field {
                    input id=(name) name=(name) type=(kind) value=(value) required[!is_optional];
                    label for=(name) { (label) }
                }
            };
        }
        let issues: Vec<&str> = match error {
            Some(Error::Invalid(issues)) => {
                let own = issues.iter().filter(|issue| issue.path.first().is_some_and(|path| path == name));
                own.map(|issue| issue.message.as_str()).collect()
            }
            _ => Vec::new(),
        };
        let is_wrong = !issues.is_empty();
        let (about, wrong) = (format!("{name}-hint"), format!("{name}-error"));
        let described: Vec<&str> =
            [hint.map(|_| about.as_str()), is_wrong.then_some(wrong.as_str())].into_iter().flatten().collect();
        let described = (!described.is_empty()).then(|| described.join(" "));
        html! {
            div .field {
                label for=(name) { (label) @if is_optional { " (optional)" } }
                @if let Some(hint) = hint { p .hint id=(about) { (hint) } }
                input id=(name) name=(name) type=(kind) value=[(!value.is_empty()).then_some(value)]
                    autocomplete=(autocomplete) aria-describedby=[described] aria-invalid=[is_wrong.then_some("true")]
                    minlength=[(autocomplete == "new-password").then_some("8")] required[!is_optional];
                @if is_wrong { p .error id=(wrong) { (issues.join(". ")) "." } }
            }
        }
    }
}

/// Names and values.
#[must_use]
pub fn facts(facts: &[(&str, &str)]) -> Markup {
    html! { dl { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

/// A warning to read before going on.
#[must_use]
pub fn warning(content: Markup) -> Markup {
    html! { div .warning role="note" { (content) } }
}

/// Readable on a phone, in light and dark mode. Texts have a contrast of at least 4.5 to 1.
const STYLE: &str = "\
:root { color-scheme: light dark; --text: #1c1e21; --back: #fff; --soft: #565a61; --panel: #f0f1f3; --line: #767a80;
  --link: #1a56c4; --error: #b3261e; --warning: #5c3a00; --warning-back: #fff1d6; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --back: #16181b; --soft: #a9aeb6; --panel: #24272b; --line: #8a8f97; --link: #8ab4f8;
    --error: #ff9a90; --warning: #ffe0a8; --warning-back: #3a2c10; }
}
* { box-sizing: border-box; }
body { margin: 0; font: 1.125rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  overflow-wrap: anywhere; }
main { max-width: 32rem; margin: 0 auto; padding: min(12vh, 6rem) 1.5rem 3rem; }
h1 { margin: 0 0 1.25rem; font-size: 1.5rem; line-height: 1.25; }
a { color: var(--link); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; padding: .75rem 1rem;
  border-radius: .375rem; background: var(--panel); }
dt { color: var(--soft); }
dd { margin: 0; }
form { margin: 1.5rem 0; }
.field { margin-bottom: 1.25rem; }
label { font-weight: 600; }
input { display: block; width: 100%; margin-top: .25rem; padding: .5rem .75rem; font: inherit; color: inherit;
  background: var(--back); border: 1px solid var(--line); border-radius: .375rem; }
input[type=checkbox] { display: inline; width: 1.125rem; height: 1.125rem; margin: 0 .625rem 0 0; vertical-align: -.125rem; }
input[aria-invalid] { border-color: var(--error); }
.hint { margin: 0; font-size: 1rem; color: var(--soft); }
.error { margin: .25rem 0 0; color: var(--error); }
form > .error { margin: 0 0 1.25rem; font-weight: 600; }
.warning { padding: .125rem 1rem; border-left: .25rem solid; border-radius: .375rem; color: var(--warning);
  background: var(--warning-back); }
button { font: inherit; font-weight: 600; padding: .625rem 1.25rem; border: 1px solid transparent;
  border-radius: .375rem; cursor: pointer; color: #fff; background: #1a56c4; }
button.secondary { color: var(--text); background: transparent; border-color: var(--line); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
";
