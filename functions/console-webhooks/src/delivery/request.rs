//! Shows the request of an attempt, as it was sent.

use std::fmt::Write as _;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, Payload},
        destination::EndpointUrl,
        endpoints::Endpoint,
        request,
    },
};
use maud::{Markup, html};
use url::Position;

use super::content::scrolling;

/// The values that attempts at a delivery have in common.
pub(super) struct Requests<'a> {
    pub(super) delivery: &'a Delivery,
    /// The payload, if it is still stored.
    pub(super) payload: Option<&'a Payload>,
    /// The delivery's endpoint, if it exists.
    pub(super) endpoint: Option<&'a Endpoint>,
    /// When the endpoint was last changed.
    pub(super) changed_at: Option<Timestamp>,
}

impl Requests<'_> {
    /// Shows the request of an attempt, if it reached the receiver.
    pub(super) fn of(&self, attempt: &Attempt) -> Markup {
        let was_sent = attempt.status_code.is_some() || matches!(&*attempt.outcome, "timeout" | "protocol");
        let Some((url, headers)) = self.sent(attempt).filter(|_| was_sent) else { return html! {} };
        // A callback's URL may contain a secret of the job.
        let url = self.endpoint.map(|_| url);
        let is_changed = self.changed_at.is_some_and(|changed| attempt.at < changed);
        html! {
            details {
                summary { "Request" }
                (scrolling("Request", &head(url, &headers)))
                @if is_changed {
                    p .soft {
                        "The endpoint was changed after this attempt. If its URL, secret, headers or payload form changed, the "
                        "request was different."
                    }
                }
                p .soft { "As a command, with the payload in the file " code { "payload.json" } ":" }
                (scrolling("Command", &curl(url, &headers)))
            }
        }
    }

    /// The body of the latest attempts, byte for byte.
    pub(super) fn body(&self) -> Option<String> {
        let form = request::form(self.delivery, self.endpoint);
        self.payload.map(|payload| String::from_utf8_lossy(payload.body.in_form(form).0).into_owned())
    }

    /// The URL and the headers of an attempt; `None` if nothing is sent to the endpoint, or if it was deleted.
    fn sent(&self, attempt: &Attempt) -> Option<(&EndpointUrl, Vec<(String, String)>)> {
        let requests = request::RequestSource::of(self.delivery, self.payload?, self.endpoint)?;
        let (url, headers) = (requests.url?, requests.headers(attempt.at).ok()?);
        let shown = headers.iter().map(|(name, value)| {
            let value = if value.is_sensitive() { "(secret)" } else { value.to_str().unwrap_or_default() };
            (name.to_string(), value.to_owned())
        });
        Some((url, shown.collect()))
    }
}

/// The request line and the headers.
fn head(url: Option<&EndpointUrl>, headers: &[(String, String)]) -> String {
    let mut head = match url.map(EndpointUrl::url) {
        Some(url) => {
            format!("POST {}\nhost: {}", &url[Position::BeforePath..], &url[Position::BeforeHost..Position::AfterPort])
        }
        None => "POST (the URL of the job's callback)".to_owned(),
    };
    for (name, value) in headers {
        // Writing to a string succeeds.
        let _written = write!(head, "\n{name}: {value}");
    }
    head
}

/// The request as a command for a POSIX shell.
fn curl(url: Option<&EndpointUrl>, headers: &[(String, String)]) -> String {
    let mut command = format!("curl {}", quoted(url.map_or("CALLBACK_URL", |url| url.url().as_str())));
    for (name, value) in headers {
        let _written = write!(command, " \\\n  -H {}", quoted(&format!("{name}: {value}")));
    }
    command + " \\\n  --data-binary @payload.json"
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
