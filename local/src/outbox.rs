//! The embedded SES: accepts every email and keeps it in memory. It implements only `SendRawEmail`, because the service
//! calls nothing else. A published implementation of all operations took longer to compile than the functions.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use common::{lock::lock, timestamp::Timestamp};
use mail_parser::MessageParser;
use maud::{Markup, html};
use uuid::Uuid;

/// The emails sent so far, oldest first. Copies share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Mutex<Vec<SentEmail>>>);

/// A sent email.
#[derive(Clone, Debug)]
pub struct SentEmail {
    pub(crate) id: Uuid,
    /// The addresses that get it.
    pub to: Vec<String>,
    /// Its subject, decoded.
    pub subject: String,
    /// Its text part, decoded.
    pub text: String,
    pub(crate) html: String,
    /// The message as it was sent, in the format of RFC 5322.
    pub(crate) raw: String,
    pub(crate) sent_at: Timestamp,
}

impl Outbox {
    /// Returns the emails, oldest first.
    pub(crate) fn emails(&self) -> Vec<SentEmail> {
        lock(&self.0).clone()
    }

    /// Returns the routes of SES.
    pub(crate) fn router(&self) -> Router {
        Router::new().route("/", post(send)).with_state(self.clone())
    }
}

/// Answers a call to SES, which is a form in AWS's query protocol.
async fn send(State(outbox): State<Outbox>, form: Bytes) -> Response {
    let Some(email) = SentEmail::read(&form) else {
        let error = html! {
            ErrorResponse {
                Error {
                    Type { "Sender" }
                    Code { "ValidationError" }
                    Message { "Only SendRawEmail with a sender, a recipient, a subject and a body is supported." }
                }
            }
        };
        return xml(StatusCode::BAD_REQUEST, error);
    };
    let sent = html! { SendRawEmailResponse { SendRawEmailResult { MessageId { (email.id) } } } };
    lock(&outbox.0).push(email);
    xml(StatusCode::OK, sent)
}

fn xml(status: StatusCode, document: Markup) -> Response {
    (status, [(header::CONTENT_TYPE, "text/xml")], document.into_string()).into_response()
}

impl SentEmail {
    /// Reads the form of `SendRawEmail`. Returns `None` if a part is missing, or for other operations.
    pub fn read(form: &[u8]) -> Option<Self> {
        let (mut action, mut to, mut raw) = (None, Vec::new(), None);
        for (name, value) in url::form_urlencoded::parse(form) {
            match name.as_ref() {
                "Action" => action = Some(value),
                "RawMessage.Data" => raw = Some(value),
                name if name.starts_with("Destinations.member.") => to.push(value.into_owned()),
                _ => {}
            }
        }
        if action? != "SendRawEmail" || to.is_empty() {
            return None;
        }
        let raw = String::from_utf8(STANDARD.decode(raw?.as_ref()).ok()?).ok()?;
        let message = MessageParser::default().parse(&raw)?;
        message.from()?.first()?.address()?;
        // SES, too, leaves line breaks as they are; a reader sees them as such.
        let part = |part: Option<Cow<'_, str>>| part.map(|part| part.replace("\r\n", "\n"));
        let is_complete = message.text_body_count() == 1 && message.html_body_count() == 1;
        let (text, html) = (part(message.body_text(0))?, part(message.body_html(0))?);
        let (id, sent_at, subject) = (Uuid::now_v7(), Timestamp::now(), message.subject()?.to_owned());
        is_complete.then_some(Self { id, to, subject, text, html, raw, sent_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: [&str; 8] = [
        "From: \"A\" <a@example.com>\r\n",
        "Subject: =?utf-8?Q?S_&_=C3=BC?=\r\n",
        "Content-Type: multipart/alternative; boundary=b\r\n\r\n",
        "--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
        "t=\r\n=C3=BC\r\nu\r\n",
        "--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n",
        "<p>\r\n",
        "--b--\r\n",
    ];

    fn form(message: &str) -> String {
        let data: String = url::form_urlencoded::byte_serialize(STANDARD.encode(message).as_bytes()).collect();
        format!("Action=SendRawEmail&Version=2010-12-01&Destinations.member.1=b%40example.com&RawMessage.Data={data}")
    }

    #[test]
    fn a_sent_email_is_read_from_its_form() {
        let email = SentEmail::read(form(&MESSAGE.concat()).as_bytes()).expect("an email");
        assert_eq!(email.to, ["b@example.com"]);
        assert_eq!([email.subject, email.text, email.html], ["S & ü", "tü\nu", "<p>"]);
        assert_eq!(email.raw, MESSAGE.concat());
    }

    #[test]
    fn an_email_without_a_part_and_other_operations_are_refused() {
        for field in ["From: ", "Subject: "] {
            let incomplete: String = MESSAGE.iter().filter(|line| !line.starts_with(field)).copied().collect();
            assert!(SentEmail::read(form(&incomplete).as_bytes()).is_none(), "{field}");
        }
        for part in ["Action", "Destinations", "RawMessage"] {
            let form = form(&MESSAGE.concat());
            let parts: Vec<_> = form.split('&').filter(|field| !field.starts_with(part)).collect();
            assert!(SentEmail::read(parts.join("&").as_bytes()).is_none(), "{part}");
        }
        assert!(SentEmail::read(form(&MESSAGE.concat()).replace("SendRawEmail", "SendEmail").as_bytes()).is_none());
    }
}
