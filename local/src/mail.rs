//! Shows sent emails, newest first, as a page and as JSON. They contain links that give access to accounts, so both are
//! shown only under this machine's names.

use std::{collections::HashSet, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    middleware::from_fn_with_state,
    response::{Html, IntoResponse},
    routing::get,
};
use maud::{Markup, html};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    functions::Function,
    origins::{Origins, only_asked_for},
    outbox::{Outbox, SentEmail},
    page,
};

/// Returns the routes at `address`: `GET /` for the page, and `GET /messages` for its content as JSON.
pub(crate) fn router(outbox: Outbox, address: &str) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/messages", get(messages))
        .layer(from_fn_with_state(Origins::of(address), only_asked_for))
        .with_state(outbox)
}

async fn messages(State(outbox): State<Outbox>) -> Json<Vec<Value>> {
    Json(outbox.emails().iter().rev().map(message).collect())
}

fn message(mail: &SentEmail) -> Value {
    let SentEmail { id: _, to, subject, text, html, raw, sent_at } = mail;
    json!({"to": to, "subject": subject, "text": text, "html": html, "raw": raw, "sent_at": sent_at})
}

async fn page(State(outbox): State<Outbox>) -> impl IntoResponse {
    let emails = outbox.emails();
    let content = html! {
        @if emails.is_empty() { p { "No emails yet." } }
        @for mail in emails.iter().rev() { (email(mail)) }
    };
    Html(page::page("Sent emails", &content).into_string())
}

/// Shows the HTML part in a frame that can open links but not run scripts, because it is untrusted content.
fn email(mail: &SentEmail) -> Markup {
    let SentEmail { id: _, to, subject, text, html, raw: _, sent_at } = mail;
    html! {
        article aria-label=(subject) {
            h2 { (subject) }
            p { "To " (to.join(", ")) ", " (sent_at.readable()) }
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

/// The time between two checks for new emails.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Reports emails sent to the [SES mailbox simulator], as SES does: `bounce@simulator.amazonses.com` bounces, and
/// `complaint@simulator.amazonses.com` complains, even with a label such as `bounce+1@`. `function` gets the events.
///
/// [SES mailbox simulator]: https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html
pub(crate) async fn simulate(outbox: Outbox, function: Arc<Function>, stop: CancellationToken) {
    let mut reported = HashSet::new();
    while stop.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
        for mail in outbox.emails() {
            let returned = mail.to.iter().filter_map(|to| returned(to));
            for event in returned.filter(|_| reported.insert(mail.id)) {
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
