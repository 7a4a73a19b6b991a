//! Shows sent emails, newest first, as a page and as JSON.

use std::{collections::HashSet, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    response::{Html, IntoResponse},
    routing::get,
};
use chrono::DateTime;
use maud::{Markup, html};
use rustack_ses_core::retrospection::{EmailStore, SentEmail};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{functions::Function, page};

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
    let content = html! {
        @if emails.is_empty() { p { "No emails yet." } }
        @for mail in &emails { (email(mail)) }
    };
    Html(page::page("Sent emails", &content).into_string())
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
            iframe title=(subject) style={ "height:" (height(text)) "rem" }
                sandbox="allow-popups allow-popups-to-escape-sandbox" srcdoc={ "<base target=_blank>" (html) } {}
            details { summary { "Plain text" } pre { (text) } }
        }
    }
}

/// Estimates the height of an email from its plain text, because a frame cannot adapt to its content without a script.
fn height(text: &str) -> usize {
    const CHARACTERS_PER_LINE: usize = 70;
    let lines: usize = text.lines().map(|line| 1 + line.chars().count() / CHARACTERS_PER_LINE).sum();
    (6 + lines * 3 / 2).min(50)
}

/// Formats an email's time without fractions of a second.
fn readable(at: &str) -> String {
    DateTime::parse_from_rfc3339(at).map_or(at.to_owned(), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn newest_first(mail: &EmailStore) -> Vec<SentEmail> {
    let mut emails = mail.query(None, None);
    emails.sort_by(|a, b| b.timestamp.cmp(&a.timestamp));
    emails
}

/// The time between two checks for new emails.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reports emails sent to the [SES mailbox simulator], as SES does: `bounce@simulator.amazonses.com` bounces, and
/// `complaint@simulator.amazonses.com` complains, even with a label such as `bounce+1@`. `function` gets the events.
///
/// [SES mailbox simulator]: https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html
pub(crate) async fn simulate(mail: Arc<EmailStore>, function: Arc<Function>, stop: CancellationToken) {
    let mut reported = HashSet::new();
    while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
        for mail in mail.query(None, None) {
            let returned = mail.destination.to_addresses.iter().filter_map(|to| returned(to));
            for event in returned.filter(|_| reported.insert(mail.id.clone())) {
                if let Err(error) = function.invoke(event).await {
                    tracing::error!(error = format!("{error:#}"), "email.report_failed");
                }
            }
        }
    }
}

/// The event that SES sends for an email to this simulator address.
fn returned(to: &str) -> Option<Value> {
    let recipients = json!([{"emailAddress": to}]);
    let (kind, detail) = match to.strip_suffix("@simulator.amazonses.com")?.split('+').next()? {
        "bounce" => (
            "Email Bounced",
            json!({"eventType": "Bounce", "bounce": {"bounceType": "Permanent", "bouncedRecipients": recipients}}),
        ),
        "complaint" => (
            "Email Complaint Received",
            json!({"eventType": "Complaint", "complaint": {"complainedRecipients": recipients}}),
        ),
        _ => return None,
    };
    Some(json!({"source": "aws.ses", "detail-type": kind, "detail": detail}))
}
