//! The embedded SES: accepts every email and keeps it in memory. It implements only `SendEmail`, because the service
//! calls nothing else. A published implementation of all operations took longer to compile than the functions.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use common::{lock::lock, timestamp::Timestamp};
use maud::{Markup, html};
use uuid::Uuid;

/// The emails sent so far, oldest first. Copies share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Mutex<Vec<Email>>>);

/// A sent email.
#[derive(Clone, Debug)]
pub(crate) struct Email {
    pub(crate) id: Uuid,
    pub(crate) to: Vec<String>,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: String,
    pub(crate) sent_at: Timestamp,
}

impl Outbox {
    /// Returns the emails, oldest first.
    pub(crate) fn emails(&self) -> Vec<Email> {
        lock(&self.0).clone()
    }

    /// Returns the routes of SES.
    pub(crate) fn router(&self) -> Router {
        Router::new().route("/", post(send)).with_state(self.clone())
    }
}

/// Answers a call to SES, which is a form in AWS's query protocol.
async fn send(State(outbox): State<Outbox>, form: Bytes) -> Response {
    let Some(email) = Email::read(&form) else {
        let error = html! {
            ErrorResponse {
                Error {
                    Type { "Sender" }
                    Code { "ValidationError" }
                    Message { "Only SendEmail with a sender, a recipient, a subject and a body is supported." }
                }
            }
        };
        return xml(StatusCode::BAD_REQUEST, error);
    };
    let sent = html! { SendEmailResponse { SendEmailResult { MessageId { (email.id) } } } };
    lock(&outbox.0).push(email);
    xml(StatusCode::OK, sent)
}

fn xml(status: StatusCode, document: Markup) -> Response {
    (status, [(header::CONTENT_TYPE, "text/xml")], document.into_string()).into_response()
}

impl Email {
    /// Reads the form of `SendEmail`. Returns `None` if a part is missing, or for other operations.
    fn read(form: &[u8]) -> Option<Self> {
        let (mut action, mut source, mut to) = (None, None, Vec::new());
        let (mut subject, mut text, mut html) = (None, None, None);
        for (name, value) in url::form_urlencoded::parse(form) {
            match name.as_ref() {
                "Action" => action = Some(value),
                "Source" => source = Some(value),
                "Message.Subject.Data" => subject = Some(value.into_owned()),
                "Message.Body.Text.Data" => text = Some(value.into_owned()),
                "Message.Body.Html.Data" => html = Some(value.into_owned()),
                name if name.starts_with("Destination.ToAddresses.member.") => to.push(value.into_owned()),
                _ => {}
            }
        }
        if action? != "SendEmail" || source?.is_empty() || to.is_empty() {
            return None;
        }
        let (id, sent_at) = (Uuid::now_v7(), Timestamp::now());
        Some(Self { id, to, subject: subject?, text: text?, html: html?, sent_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "Action=SendEmail&Version=2010-12-01&Source=%22A%22+%3Ca%40example.com%3E&\
                        Destination.ToAddresses.member.1=b%40example.com&Message.Subject.Data=S%26T&\
                        Message.Body.Text.Data=t%0A&Message.Body.Html.Data=%3Cp%3E";

    #[test]
    fn a_sent_email_is_read_from_its_form() {
        let email = Email::read(FORM.as_bytes()).expect("an email");
        assert_eq!(email.to, ["b@example.com"]);
        assert_eq!([email.subject, email.text, email.html], ["S&T", "t\n", "<p>"]);
    }

    #[test]
    fn an_email_without_a_part_and_other_operations_are_refused() {
        for part in FORM.split('&').filter(|part| !part.starts_with("Version")) {
            let incomplete = FORM.replace(part, "");
            assert!(Email::read(incomplete.as_bytes()).is_none(), "{part}");
        }
        assert!(Email::read(FORM.replace("SendEmail", "SendRawEmail").as_bytes()).is_none());
    }
}
