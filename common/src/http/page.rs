//! HTML pages for people, in one layout. They need no script, and load nothing from other hosts.

use std::{borrow::Cow, sync::LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use lambda_http::http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

pub use self::{
    form::{Field, Form, TICKED},
    json::pretty,
};
use super::{
    event::Response,
    status::{HttpError, error_message},
};
use crate::{error::Error, name::Name};

mod form;
mod json;

/// A page. Its status is 200, unless it reports an error.
pub struct Page {
    title: Cow<'static, str>,
    content: Markup,
    is_done: bool,
    pub(super) refused: Option<HttpError>,
    redirects_to: Option<String>,
    console: Option<Console>,
}

/// The console of an organization. Each of its pages shows the organization's name and links to the other pages.
pub struct Console {
    /// The name of the organization.
    pub organization: Name,
    /// The console link that the page belongs to.
    pub here: &'static str,
}

/// The pages of the console, as its navigation names them.
const CONSOLE: [(&str, &str); 6] = [
    ("/console", "Endpoints"),
    ("/console/deliveries", "Deliveries"),
    ("/console/keys", "API keys"),
    ("/console/team", "Team"),
    ("/console/settings", "Settings"),
    ("/console/account", "Account"),
];

/// Prevents content sniffing, access from windows of other sites, and referrers to other sites, since the URL contains
/// a token. Pages of this site do get the referrer: a browser that withholds it sends `Origin: null` with a form.
const PAGE_HEADERS: [(header::HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// The style of all pages: readable on a phone, in light and dark mode, with a text contrast of at least 4.5 to 1.
const STYLE: &str = include_str!("page/style.css");

/// The content security policy: it allows only the page's own style, by its hash, and forms.
static ALLOWED: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

impl Page {
    /// A page with this heading, and `content` below it.
    #[must_use]
    pub fn new(title: impl Into<Cow<'static, str>>, content: Markup) -> Self {
        let title = title.into();
        Self { title, content, is_done: false, refused: None, redirects_to: None, console: None }
    }

    /// Marks the page as a success.
    #[must_use]
    pub fn done(self) -> Self {
        Self { is_done: true, ..self }
    }

    /// Marks the page as refused, with the status of `error`, if there is one. The content has to explain it.
    #[must_use]
    pub fn refused(self, error: Option<Error>) -> Self {
        Self { refused: error.map(HttpError::Domain), ..self }
    }

    /// Allows the answer to its form to redirect to `origin`, too: browsers apply the policy to redirects.
    #[must_use]
    pub fn redirects_to(self, origin: Option<String>) -> Self {
        Self { redirects_to: origin, ..self }
    }

    /// Makes it a page of the console.
    #[must_use]
    pub fn within(self, console: Console) -> Self {
        Self { console: Some(console), ..self }
    }

    /// The page of an error without a page of its own.
    pub(super) fn of(error: HttpError) -> Self {
        let (title, text) = match &error {
            _ if error.status().is_server_error() => {
                ("Something went wrong on our side", "Try again in a moment.".to_owned())
            }
            HttpError::Domain(Error::NotFound(_)) => ("Not found", sentence(&error.message())),
            _ => ("Request refused", sentence(&error.message())),
        };
        let content = html! {
            p { (text) }
            p { a href="/console" { "Go to the console" } }
        };
        Self { refused: Some(error), ..Self::new(title, content) }
    }

    /// The response, and the error that the page reports. `service` is the name of the service.
    pub(super) fn response(self, service: &str) -> (Response, Option<HttpError>) {
        let mut response = Response::new(self.html(service).into_string());
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

    fn html(&self, service: &str) -> Markup {
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
                    title { @if self.refused.is_some() { "Error: " } (self.title) " · " (service) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a .skip href="#main" { "Skip to content" }
                    (self.top(service))
                    main #main .wide[self.console.is_some()] {
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

    fn top(&self, service: &str) -> Markup {
        html! {
            header .top {
                a .brand href="/console" { (service) }
                @if let Some(Console { organization, here }) = &self.console {
                    span .org { (organization.as_str()) }
                    nav aria-label="Console" {
                        @for (path, name) in CONSOLE {
                            a href=(path) aria-current=[(path == *here).then_some("page")] { (name) }
                        }
                    }
                    form method="post" action="/signin" {
                        input type="hidden" name="action" value="sign-out";
                        button .secondary { "Sign out" }
                    }
                }
            }
        }
    }
}

/// An error message as a sentence.
fn sentence(message: &str) -> String {
    format!("{}.", message.trim_end_matches('.'))
}

/// An error message to show above the content of a page.
#[must_use]
pub fn alert(error: &Error) -> Markup {
    html! { div .notice.bad role="alert" { p { (sentence(&error_message(error))) } } }
}

/// Untrusted text with its invisible and direction-changing characters shown as code points.
#[must_use]
pub fn visible(words: &str) -> Cow<'_, str> {
    let is_hidden = |character: char| match character {
        '\n' | '\t' => false,
        '\u{200B}'..='\u{200C}' | '\u{200E}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' => true,
        '\u{061C}' | '\u{FEFF}' => true,
        other => other.is_control(),
    };
    if !words.contains(is_hidden) {
        return Cow::Borrowed(words);
    }
    let shown = words.chars().map(|character| match character {
        hidden if is_hidden(hidden) => format!("⟨U+{:04X}⟩", u32::from(hidden)),
        other => other.to_string(),
    });
    Cow::Owned(shown.collect())
}

/// A list of names and values.
#[must_use]
pub fn facts(facts: &[(&str, &str)]) -> Markup {
    html! { dl { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

/// A warning to read before continuing.
#[must_use]
pub fn warning(content: Markup) -> Markup {
    html! { div .warning role="note" { (content) } }
}
