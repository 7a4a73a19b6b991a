//! HTML pages with a common layout. They do not use scripts or load anything from other hosts.

use std::{borrow::Cow, sync::LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use lambda_http::http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use sha2::{Digest, Sha256};
use text::Untrusted;

pub use self::{
    form::{Choice, Field, Form, TICKED, beside, issues},
    json::pretty,
    navigation::navigation,
};
use super::{
    event::Response,
    status::{HttpError, error_message},
};
use crate::error::Error;

pub(super) mod binding;
mod form;
mod json;
mod navigation;

/// A page. Its status is 200 unless it reports an error.
#[must_use]
pub struct Page {
    title: Cow<'static, str>,
    content: Markup,
    is_done: bool,
    pub(super) refused: Option<HttpError>,
    redirects_to: Option<String>,
    is_live: bool,
    is_public: bool,
    /// The part of the header that follows the service's name.
    frame: Option<Markup>,
    /// Links and buttons next to the heading.
    actions: Option<Markup>,
}

/// The query field that selects the confirmation shown on a page, and its description.
pub const DID: (&str, &str) = ("did", "The confirmation to show after one of the page's forms has been submitted.");

/// Prevents content sniffing, access from other sites' windows, and sending referrers to other sites, because the URL
/// may contain a token. Pages of this site get the referrer, because a browser that withholds it sends `Origin: null`
/// with forms.
const PAGE_HEADERS: [(header::HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// The time between two loads of a live page.
pub const LIVE_SECONDS: u32 = 5;

/// A public page may be cached for this long. The time is short, so deployments become visible soon.
pub const PUBLIC_SECONDS: u32 = 300;

/// The style of all pages: readable on a phone, in light and dark mode, with a text contrast of at least 4.5 to 1.
const STYLE: &str = include_str!("page/style.css");

/// The icon's path in a 16 by 16 square: a hook.
pub const HOOK: &str = "M10 2v7.5a3.5 3.5 0 0 1-7 0V7l2.5 2.5M11.5 2.5a1.5 1.5 0 1 1-3 0a1.5 1.5 0 1 1 3 0";

/// The content security policy, which allows only forms and the page's own style, by its hash.
static ALLOWED: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    )
});

impl Page {
    /// Builds a page with this heading, and `content` below it.
    pub fn new(title: impl Into<Cow<'static, str>>, content: Markup) -> Self {
        let title = title.into();
        Self {
            title,
            content,
            is_done: false,
            refused: None,
            redirects_to: None,
            is_live: false,
            is_public: false,
            frame: None,
            actions: None,
        }
    }

    /// Marks the page as a success even if its status is an error, because the user's action has succeeded.
    pub fn done(self) -> Self {
        Self { is_done: true, ..self }
    }

    /// Sets the page's status to that of `error`, if any. The content must explain the error.
    pub fn refused(self, error: Option<Error>) -> Self {
        Self { refused: error.map(HttpError::Domain), ..self }
    }

    /// Allows the page's form to redirect to `origin`. This is necessary because browsers apply the content security
    /// policy to redirects, too.
    pub fn redirects_to(self, origin: Option<String>) -> Self {
        Self { redirects_to: origin, ..self }
    }

    /// Makes the browser reload the page every [`LIVE_SECONDS`], if the visitor has enabled it.
    pub fn live(self, is_live: bool) -> Self {
        Self { is_live, ..self }
    }

    /// Lets browsers and proxies cache the page for [`PUBLIC_SECONDS`], because it is the same for all readers.
    pub fn public(self) -> Self {
        Self { is_public: true, ..self }
    }

    /// Builds the page for a form that was submitted without a session. The visitor can sign in without losing their
    /// input: `kept` contains the form's fields, and `back` is the form's page.
    pub(super) fn of_lost_session(back: &str, kept: &str) -> Self {
        let sign_in = Form {
            to: "/signin",
            button: "Sign in",
            hidden: &[("action", "sign-in"), ("next", back), ("kept", kept)],
            fields: &[Field::email("email", "Email", "username", ""), Field::password("password", "Password")],
            ..Form::default()
        };
        let content = html! {
            p { strong { "Nothing was saved or sent." } " Sign in to continue." }
            (sign_in)
        };
        Self { refused: Some(Error::Unauthorized.into()), ..Self::new("Your session has ended", content) }
    }

    /// Adds the site's frame: `frame` follows the service's name in the header, and the content may be wide.
    pub fn within(self, frame: impl Render) -> Self {
        Self { frame: Some(frame.render()), ..self }
    }

    /// Adds links and buttons next to the heading.
    pub fn actions(self, actions: Markup) -> Self {
        Self { actions: Some(actions), ..self }
    }

    /// Builds the page for an error that has no specific page. A console page keeps its navigation.
    pub(super) fn of(error: HttpError, is_of_console: bool) -> Self {
        let (title, text) = match &error {
            _ if error.status().is_server_error() => {
                ("Something went wrong on our side", "Try again in a moment.".to_owned())
            }
            HttpError::Domain(Error::NotFound(_)) => ("Not found", sentence(&error.message())),
            _ => ("Request rejected", sentence(&error.message())),
        };
        let content = html! {
            p { (text) }
            @if is_of_console && matches!(error, HttpError::Domain(Error::NotFound(_))) {
                p {
                    "It may also belong to the organization of another account. "
                    a href="/console/account" { "View your account" }
                }
            }
            @if !is_of_console {
                p { a href="/console" { "Go to the console" } " or " a href="/docs" { "read the documentation" } "." }
            }
        };
        let frame = is_of_console.then(|| navigation(""));
        Self { refused: Some(error), frame, ..Self::new(title, content) }
    }

    /// Returns the response, and the error that the page reports, if any. `service` is the service's name, and
    /// `account` the one that a page of the console shows.
    pub(super) fn response(self, service: &str, account: Option<&str>) -> (Response, Option<HttpError>) {
        let html = self.html(service).into_string();
        let mut response = Response::new(match account {
            Some(account) => binding::bound(&html, account),
            None => html,
        });
        *response.status_mut() = self.refused.as_ref().map_or(StatusCode::OK, HttpError::status);
        let headers = PAGE_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(headers);
        let policy = HeaderValue::from_str(&match self.redirects_to {
            Some(origin) => format!("{} {origin}", *ALLOWED),
            None => ALLOWED.clone(),
        });
        response.headers_mut().extend(policy.ok().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
        if self.is_live {
            response.headers_mut().insert(header::REFRESH, HeaderValue::from(LIVE_SECONDS));
        }
        if self.is_public {
            let lifetime = HeaderValue::from_str(&format!("public, max-age={PUBLIC_SECONDS}"));
            response.headers_mut().extend(lifetime.ok().map(|lifetime| (header::CACHE_CONTROL, lifetime)));
        }
        (response, self.refused)
    }

    fn html(&self, service: &str) -> Markup {
        let is_error = self.refused.is_some() && !self.is_done;
        // A check mark, and an exclamation mark in a circle.
        let mark = match self.is_done {
            true => Some(("good", "M2 8.5 6 12.5 14 4")),
            false => is_error.then_some(("bad", "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 1 0 0-13M8 4.5v4M8 11v.5")),
        };
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    // Screen readers begin with the title.
                    title { @if is_error { "Error: " } (self.title) " · " (service) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a .skip href="#main" { "Skip to content" }
                    header .top {
                        a .brand href="/console" {
                            svg .logo viewBox="0 0 16 16" aria-hidden="true" { path d=(HOOK) {} }
                            (service)
                        }
                        @if let Some(frame) = &self.frame { (frame) }
                    }
                    main #main .wide[self.frame.is_some()] {
                        @match &self.actions {
                            Some(actions) => div .row.title { (self.heading(mark)) div .row { (actions) } },
                            None => (self.heading(mark)),
                        }
                        (self.content)
                    }
                }
            }
        }
    }

    /// The heading, with this mark.
    fn heading(&self, mark: Option<(&str, &str)>) -> Markup {
        html! {
            h1 {
                @if let Some((kind, shape)) = mark {
                    svg .mark.(kind) viewBox="0 0 16 16" aria-hidden="true" { path d=(shape) {} } " "
                }
                (self.title)
            }
        }
    }
}

/// Formats an error message as a sentence.
fn sentence(message: &str) -> String {
    format!("{}.", message.trim_end_matches('.'))
}

/// An error message to show above a page's content.
pub fn alert(error: &Error) -> Markup {
    html! { div .notice.bad role="alert" { p { (sentence(&error_message(error))) } } }
}

/// Returns untrusted text in the form shown on pages.
pub fn visible(words: &str) -> Cow<'_, str> {
    Untrusted::new(words).page()
}

/// A list of names and values, which may be untrusted text.
pub fn facts(facts: &[(&str, &str)]) -> Markup {
    html! { dl { @for (name, value) in facts { dt { (name) } dd { (visible(value)) } } } }
}

/// A warning to read before continuing.
pub fn warning(content: Markup) -> Markup {
    html! { div .warning role="note" { (content) } }
}
