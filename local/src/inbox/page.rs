//! The inbox's page. It does not use scripts or load anything. Requests are untrusted, and `maud` escapes them.

use std::borrow::Cow;

use axum::http::{HeaderName, header};
use chrono::{DateTime, Utc};
use common::http::page::{pretty, visible};
use maud::{Markup, html};

use super::{
    signatures::verdicts,
    store::{Manner, Shelf, StoredRequest},
};
use crate::page as frame;

/// The maximum number of body bytes to show.
const SHOWN_BYTES: usize = 64 * 1024;

/// The same headers as for the console's pages, but without a style hash. Browsers do not cache the page.
pub(crate) const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // With `no-referrer`, browsers would not send the origin with forms.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

pub(crate) fn page(shelf: &Shelf) -> Markup {
    let content = html! {
        p { "This inbox receives webhooks at any path. Point an endpoint to a path here, such as " code { "/hook" } "." }
        (paths(shelf))
        h2 { "Received" }
        @if shelf.requests().len() == 0 { p { "No requests yet." } }
        @for kept in shelf.requests() { (request(kept, shelf)) }
    };
    frame::page("Inbox", &content)
}

/// The response for each path, and a row for adding a path.
fn paths(shelf: &Shelf) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Path" } th scope="col" { "Response" } th scope="col" { "Signing secret" } } }
            tbody {
                @for path in shelf.paths() {
                    tr {
                        td { code { (path) } }
                        td {
                            form method="post" action="/-/answer" {
                                input type="hidden" name="path" value=(path);
                                (manners(shelf.manner(path), &format!("Response for {path}")))
                            }
                        }
                        td {
                            form method="post" action="/-/secret" {
                                input type="hidden" name="path" value=(path);
                                (secret(&format!("Signing secret for {path}")))
                            }
                            @if shelf.secret(path).is_some() { " Secret set" }
                        }
                    }
                }
                tr {
                    td { "Another path" }
                    td {
                        form method="post" action="/-/answer" {
                            (another())
                            (manners(Manner::Take, "Response"))
                        }
                    }
                    td {
                        form method="post" action="/-/secret" {
                            (another())
                            (secret("Signing secret"))
                        }
                    }
                }
            }
        }
    }
}

fn another() -> Markup {
    html! { input name="path" placeholder="/hook" pattern="/.+" size="8" required aria-label="Path"; " " }
}

fn manners(chosen: Manner, label: &str) -> Markup {
    html! {
        select name="answer" aria-label=(label) {
            @for manner in Manner::ALL {
                option value=(manner.name()) selected[manner == chosen] { (manner.label()) }
            }
        }
        " "
        button { "Set response" }
    }
}

fn secret(label: &str) -> Markup {
    html! { input type="password" name="secret" autocomplete="off" aria-label=(label); " " button { "Set secret" } }
}

fn request(kept: &StoredRequest, shelf: &Shelf) -> Markup {
    let at = DateTime::<Utc>::from(kept.at).format("%Y-%m-%d %H:%M:%S UTC");
    html! {
        article {
            h3 { (at) " " code { (visible(&kept.path)) } " " (visible(kept.header("x-event-type"))) }
            p {
                "webhook-id " code { (visible(kept.header("webhook-id"))) } "; response: " (kept.manner.label()) "; "
                (verified(kept, shelf))
            }
            details {
                summary { "Headers" }
                pre {
                    @for (name, value) in &kept.headers {
                        (name) ": " (visible(&String::from_utf8_lossy(value.as_bytes()))) "\n"
                    }
                }
            }
            pre { (visible(&body(&kept.body))) }
        }
    }
}

fn verified(kept: &StoredRequest, shelf: &Shelf) -> Markup {
    let Some(secret) = shelf.secret(&kept.path) else { return html! { "not verified: no signing secret set" } };
    let verdicts = verdicts(secret.reveal(), &kept.headers, &kept.body, kept.at);
    html! {
        @if verdicts.are_right() {
            strong { "verified" }
        } @else {
            strong { "not verified" }
            ": webhook-signature is " (verdicts.standard.label())
            ", x-webhook-signature is " (verdicts.simple.label())
        }
    }
}

/// Formats a body: JSON is indented, and long bodies are truncated.
fn body(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
        return cut(text);
    }
    let (text, is_whole) = pretty(&text, SHOWN_BYTES);
    if is_whole { text } else { format!("{text}…") }
}

fn cut(text: Cow<'_, str>) -> String {
    match text.char_indices().find(|(at, _)| *at >= SHOWN_BYTES).and_then(|(at, _)| text.get(..at)) {
        Some(shown) => format!("{shown}…"),
        None => text.into_owned(),
    }
}
