//! Shows the sent emails, as a page and as JSON, newest first.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{Html, IntoResponse},
    routing::get,
};
use chrono::DateTime;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rustack_ses_core::retrospection::{EmailStore, SentEmail};
use serde_json::{Value, json};

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}\
    main{max-width:50rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}\
    iframe{width:100%;height:28rem;border:1px solid #888}pre{white-space:pre-wrap}";

/// Returns the routes: `GET /` for the page, and `GET /messages` for its content as JSON.
pub(crate) fn router(mail: Arc<EmailStore>) -> Router {
    Router::new().route("/", get(page)).route("/messages", get(messages)).with_state(mail)
}

async fn messages(State(mail): State<Arc<EmailStore>>) -> Json<Vec<Value>> {
    Json(newest_first(&mail).iter().map(message).collect())
}

fn message(mail: &SentEmail) -> Value {
    let body = mail.body.as_ref();
    json!({
        "to": mail.destination.to_addresses,
        "subject": mail.subject,
        "text": body.and_then(|body| body.text_part.as_ref()),
        "html": body.and_then(|body| body.html_part.as_ref()),
        "sent_at": mail.timestamp,
    })
}

async fn page(State(mail): State<Arc<EmailStore>>) -> impl IntoResponse {
    let emails = newest_first(&mail);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Sent emails" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "Sent emails" }
                    @if emails.is_empty() { p { "No emails yet." } }
                    @for mail in &emails { (email(mail)) }
                }
            }
        }
    };
    Html(page.into_string())
}

/// Shows the HTML part in a frame that can open links but not run scripts, because it is untrusted content.
fn email(mail: &SentEmail) -> Markup {
    let subject = mail.subject.as_deref().unwrap_or_default();
    let body = mail.body.as_ref();
    let text = body.and_then(|body| body.text_part.as_deref()).unwrap_or_default();
    let html = body.and_then(|body| body.html_part.as_deref()).unwrap_or_default();
    html! {
        article aria-label=(subject) {
            h2 { (subject) }
            p { "To " (mail.destination.to_addresses.join(", ")) ", " (readable(&mail.timestamp)) }
            iframe title=(subject) sandbox="allow-popups allow-popups-to-escape-sandbox"
                srcdoc={ "<base target=_blank>" (html) } {}
            details { summary { "Plain text" } pre { (text) } }
        }
    }
}

/// Formats the time of an email without fractions of seconds.
fn readable(at: &str) -> String {
    DateTime::parse_from_rfc3339(at).map_or(at.to_owned(), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn newest_first(mail: &EmailStore) -> Vec<SentEmail> {
    let mut emails = mail.query(None, None);
    emails.sort_by(|a, b| b.timestamp.cmp(&a.timestamp));
    emails
}
