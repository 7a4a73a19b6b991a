//! Emails to users, through SES.

use std::{fmt, time::Duration};

use aws_sdk_ses::{
    Client,
    types::{Body, Content, Destination, Message},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use maud::{DOCTYPE, html};
use text::Untrusted;
use tokio::time::sleep;

use crate::{
    accounts::email::Email,
    aws::{clients::Aws, failure},
    config::{ConfigError, Env},
    error::{Error, Result},
    name::ServiceName,
    telemetry::metrics,
};

/// Longer than two reads, a write and an email take.
const ANSWER_AFTER: Duration = Duration::from_millis(500);

/// Runs `work`, which sends an email if an address has an account. It takes at least half a second, so that its
/// duration does not reveal whether the address has an account.
///
/// # Errors
/// `work` fails.
pub async fn unhurried(work: impl Future<Output = Result<()>>) -> Result<()> {
    let (done, ()) = tokio::join!(work, sleep(ANSWER_AFTER));
    done
}

/// Sends emails from the address in `MAIL_FROM`, in the name of the service.
#[derive(Clone)]
pub struct Mailer {
    ses: Client,
    from: String,
    service: ServiceName,
}

/// An email, as HTML and as plain text for clients that do not show HTML. Both are made of the same parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Mail {
    subject: String,
    text: String,
    html: String,
}

/// A part of an email.
pub enum Part {
    /// A paragraph of plain text. Line breaks are kept.
    Text(String),
    /// A link, alone on a line.
    Link(String),
    /// Text from outside the service, marked as a quotation on each line.
    Quote(String),
}

impl Mailer {
    /// Builds a mailer over SES, named after the service.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        let service = ServiceName::from_env(env)?;
        let from = format!("{} <{}>", display_name(service.as_str()), env.required("MAIL_FROM")?);
        Ok(Self { ses: aws.ses(), from, service })
    }

    /// Sends `mail` to one address. A failure is only logged and counted: the recipient can request another.
    pub async fn send(&self, to: &Email, mail: Mail, about: impl fmt::Display) {
        if let Err(error) = self.try_send(to, mail).await {
            crate::log!("email.failed", %about, ?error);
        }
    }

    /// Sends `mail` to one address, and counts whether it was sent.
    ///
    /// # Errors
    /// SES refused the email, or did not answer.
    pub async fn try_send(&self, to: &Email, mail: Mail) -> Result<()> {
        let sent = self.call(to, mail).await;
        metrics::count(if sent.is_ok() { "MailSent" } else { "MailFailed" });
        sent
    }

    async fn call(&self, to: &Email, mail: Mail) -> Result<()> {
        let doing = "sending an email";
        let content =
            |data: String| Content::builder().charset("UTF-8").data(data).build().map_err(Error::internal(doing));
        let body = Body::builder().text(content(mail.text)?).html(content(mail.html)?).build();
        self.ses
            .send_email()
            .source(&self.from)
            .destination(Destination::builder().to_addresses(to.as_str()).build())
            .message(
                Message::builder().subject(content(format!("{}: {}", self.service, mail.subject))?).body(body).build(),
            )
            .send()
            .await
            .map_err(failure(doing))?;
        Ok(())
    }
}

/// A display name before an address. SES takes only ASCII there: other text has to be in encoded words of at most 75
/// characters (RFC 2047, 2). A quoted name needs no escapes, because [`ServiceName`] excludes such characters.
fn display_name(name: &str) -> String {
    const MOST_BYTES: usize = 45;
    if name.is_ascii() {
        return format!("\"{name}\"");
    }
    let (mut words, mut rest) = (Vec::new(), name);
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.floor_char_boundary(MOST_BYTES));
        words.push(format!("=?UTF-8?B?{}?=", STANDARD.encode(word)));
        rest = behind;
    }
    words.join(" ")
}

impl Part {
    /// A paragraph of plain text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The part as an email shows it. Links are percent-encoded.
    fn shown(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(Untrusted::new(text).mail().into_owned()),
            Self::Link(url) => Self::Link(url.clone()),
            Self::Quote(text) => Self::Quote(Untrusted::new(text).mail().into_owned()),
        }
    }
}

impl Mail {
    /// Builds an email from these parts. All of it may contain untrusted text.
    #[must_use]
    pub fn new(subject: &str, parts: &[Part]) -> Self {
        let subject = Untrusted::new(subject).mail_line();
        let parts: Vec<_> = parts.iter().map(Part::shown).collect();
        let text = parts.iter().map(|part| match part {
            Part::Text(text) | Part::Link(text) => format!("{text}\n"),
            Part::Quote(text) => text.lines().map(|line| format!("> {line}\n")).collect(),
        });
        let text = text.collect::<Vec<_>>();
        let html = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (subject) }
                }
                body style="max-width: 36rem; font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere" {
                    @for part in &parts {
                        @match part {
                            Part::Text(text) => p {
                                @for (number, line) in text.lines().enumerate() {
                                    @if number > 0 { br; }
                                    (line)
                                }
                            },
                            // The text is the URL itself, so that the reader can see where the link leads.
                            Part::Link(url) => p { a href=(url) { (url) } },
                            Part::Quote(text) => pre style="white-space: pre-wrap; border-left: 3px solid #999; \
                                                            padding-left: 1em; font-size: 14px" { (text) },
                        }
                    }
                }
            }
        };
        Self { subject: subject.into_owned(), text: text.join("\n"), html: html.into_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{password_reset::reset_mail, token::Token, verification::verification_mail};

    #[test]
    fn a_name_before_an_address_is_ascii() {
        assert_eq!(display_name("Doe & Co, Ltd."), "\"Doe & Co, Ltd.\"");
        assert_eq!(display_name("Bürger"), "=?UTF-8?B?QsO8cmdlcg==?=");
        let long = display_name(&"ß".repeat(60));
        assert!(long.split(' ').count() == 3 && long.split(' ').all(|word| word.len() <= 75), "{long}");
    }

    #[test]
    fn the_link_stands_alone_on_a_line() {
        let token = Token::generate();
        let base = "https://api.example.com".parse().expect("a base URL");
        for (mail, path) in
            [(verification_mail(&base, &token), "verify-email"), (reset_mail(&base, &token), "reset-password")]
        {
            let link = format!("https://api.example.com/{path}?token={}", token.reveal());
            assert!(mail.text.lines().any(|line| line == link));
            assert!(mail.html.contains(&format!("<a href=\"{link}\">{link}</a>")));
        }
    }

    #[test]
    fn text_and_html_say_the_same_and_markup_stays_text() {
        let parts = [
            Part::text("Hello,"),
            Part::text("<b> & \"more\"\na second line"),
            Part::Link("https://a.example/?b=1&c=2".to_owned()),
            Part::Quote("<a href=\"x\">\n  no</a>".to_owned()),
        ];
        let mail = Mail::new("A subject", &parts);
        assert_eq!(
            mail.text,
            "Hello,\n\n<b> & \"more\"\na second line\n\nhttps://a.example/?b=1&c=2\n\n> <a href=\"x\">\n>   no</a>\n"
        );
        for says in [
            "<p>Hello,</p>",
            "<p>&lt;b&gt; &amp; &quot;more&quot;<br>a second line</p>",
            "<p><a href=\"https://a.example/?b=1&amp;c=2\">https://a.example/?b=1&amp;c=2</a></p>",
            "&lt;a href=&quot;x&quot;&gt;\n  no&lt;/a&gt;</pre>",
        ] {
            assert!(mail.html.contains(says), "{}", mail.html);
        }
    }

    #[test]
    fn no_part_of_an_email_shows_hidden_characters() {
        let parts = [
            Part::text("An\u{ad}n\u{202e}a\r\nجو\u{200c}"),
            Part::Quote("\u{e0041}a\u{feff}\n👩\u{200d}🚀".to_owned()),
        ];
        let mail = Mail::new("Two\n\u{200b}lines", &parts);
        assert_eq!(mail.subject, "Two  lines");
        assert_eq!(mail.text, "An n a\nجو\u{200c}\n\n>  a \n> 👩\u{200d}🚀\n");
        assert!(mail.html.contains("<p>An n a<br>جو\u{200c}</p>"), "{}", mail.html);
        assert!(mail.html.contains("> a \n👩\u{200d}🚀</pre>"), "{}", mail.html);
    }
}
