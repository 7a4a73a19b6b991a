//! The sent emails, for people and for programs, newest first.

use std::sync::Arc;

use axum::{Json, Router, extract::State, response::Html, routing::get};
use html_escape::{encode_double_quoted_attribute, encode_text};
use rustack_ses_core::retrospection::{EmailStore, SentEmail};
use serde_json::{Value, json};

/// `GET /` returns a page, `GET /messages` the same as JSON.
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

async fn page(State(mail): State<Arc<EmailStore>>) -> Html<String> {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Sent emails</title><style>\
         body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}\
         iframe{width:100%;height:20rem;border:1px solid #ccc}pre{white-space:pre-wrap}</style><h1>Sent emails</h1>",
    );
    let emails = newest_first(&mail);
    if emails.is_empty() {
        page.push_str("<p>No emails yet.</p>");
    }
    for mail in &emails {
        write_email(&mut page, mail);
    }
    Html(page)
}

/// The HTML part goes into a frame that may open links but not run scripts: to this page it is untrusted content, as it
/// is to an email program.
fn write_email(page: &mut String, mail: &SentEmail) {
    let subject = mail.subject.as_deref().unwrap_or_default();
    let body = mail.body.as_ref();
    let text = body.and_then(|body| body.text_part.as_deref()).unwrap_or_default();
    let html = body.and_then(|body| body.html_part.as_deref()).unwrap_or_default();
    page.push_str(&format!(
        "<h2>{}</h2><p>To {}, {}</p>\
         <iframe sandbox=\"allow-popups allow-popups-to-escape-sandbox\" srcdoc=\"{}\"></iframe>\
         <details><summary>Plain text</summary><pre>{}</pre></details>",
        encode_text(subject),
        encode_text(&mail.destination.to_addresses.join(", ")),
        encode_text(&mail.timestamp),
        encode_double_quoted_attribute(&format!("<base target=_blank>{html}")),
        encode_text(text),
    ));
}

fn newest_first(mail: &EmailStore) -> Vec<SentEmail> {
    let mut emails = mail.query(None, None);
    emails.sort_by(|a, b| b.timestamp.cmp(&a.timestamp));
    emails
}
