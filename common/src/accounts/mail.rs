//! Emails to users, through SES.

use std::{fmt, io, net::IpAddr, time::Duration};

use aws_sdk_ses::{Client, primitives::Blob, types::RawMessage};
use mail_builder::{
    MessageBuilder,
    headers::{raw::Raw, url::URL},
};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use text::Untrusted;
use tokio::time::sleep;
use uuid::Uuid;

use crate::{
    accounts::{
        email::EmailAddress,
        suppressions::{Cause, Suppressions},
    },
    aws::failure,
    error::{Error, Result},
    name::ServiceName,
    telemetry::metrics,
    timestamp::Timestamp,
};

/// Long enough for two reads, a write and an email.
const ANSWER_AFTER: Duration = Duration::from_millis(500);

/// Runs `work`, which sends an email if an address has an account. Always takes at least half a second, so the duration
/// does not reveal whether the address has an account.
///
/// # Errors
/// `work` fails.
pub async fn unhurried(work: impl Future<Output = Result<()>>) -> Result<()> {
    let (done, ()) = tokio::join!(work, sleep(ANSWER_AFTER));
    done
}

crate::from_env! {
    /// Sends emails from the address in `MAIL_FROM`, under the service's name.
    #[derive(Clone)]
    pub struct Mailer {
        ses: Client,
        from: String = "MAIL_FROM",
        /// The configuration set through which SES reports bounces and complaints.
        configuration_set: String = "MAIL_CONFIGURATION_SET",
        service: ServiceName = ServiceName::from_env,
        suppressions: Suppressions,
    }
}

/// An email, as HTML and as plain text for clients that do not show HTML. Both are built from the same parts.
#[derive(Debug, PartialEq, Eq)]
pub struct EmailMessage {
    subject: String,
    text: String,
    html: String,
    is_requested: bool,
    /// The page that stops such emails.
    stop: Option<String>,
}

/// A part of an email's body.
pub enum Part {
    /// A paragraph of plain text. Line breaks are kept.
    Text(String),
    /// Names and values, one pair per line.
    Facts(Vec<(&'static str, String)>),
    /// The label and the URL of the email's main link. An email has at most one main link.
    Button(&'static str, String),
    /// The label and the URL of another link.
    Link(String, String),
    /// Text from outside the service, marked as a quotation on each line.
    Quote(String),
}

/// The style of the HTML part. Email programs that ignore it show plain text and links. Several programs, such as Gmail,
/// drop `overflow-wrap`, so `word-break` also keeps long words within the window.
const STYLE: &str = "\
    body{margin:0;padding:24px 16px;background:#fff;color:#1c1e21;font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}\
    main{max-width:36rem;margin:0 auto;overflow-wrap:break-word;word-break:break-word}\
    table{border-collapse:collapse;border-left:3px solid #d9dce1;margin:16px 0}\
    th{font-weight:400;text-align:left;vertical-align:top;padding:2px 16px 2px 12px;color:#565a61;white-space:nowrap}\
    td{padding:2px 0;vertical-align:top;overflow-wrap:anywhere;word-break:break-word}\
    @media(max-width:30rem){th,td{display:block;padding:0 0 0 12px}td{padding-bottom:8px}}\
    a{color:#1a56c4}footer{margin-top:32px;border-top:1px solid #d9dce1}\
    .button{display:inline-block;padding:8px 18px;border-radius:6px;background:#1a56c4;color:#fff;font-weight:600;text-decoration:none}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere;word-break:break-word;border-left:3px solid #d9dce1;padding-left:12px;font-size:14px}\
    .soft,footer p{font-size:14px;color:#565a61}\
    @media(prefers-color-scheme:dark){body{background:#16181b;color:#e6e6e6}a{color:#8ab4f8}\
    .button{background:#2563d9;color:#fff}th,.soft,footer p{color:#a9aeb6}table,pre,footer{border-color:#3a3f46}}";
/// Separates the plain-text body from the explanation of why the recipient gets the email.
const RULE: &str = "---";

impl Mailer {
    /// Sends `mail` to one address. A failure is only logged and counted: the recipient can request another email.
    pub async fn send(&self, to: &EmailAddress, mail: EmailMessage, about: impl fmt::Display) {
        if let Err(error) = self.try_send(to, mail, &about).await {
            crate::log!("email.failed", %about, ?error);
        }
    }

    /// Sends `mail` to one address, and counts whether it was sent. An address on the suppression list gets only
    /// requested emails. Any other email to it is not sent but logged, with `about`, the id of the email's subject.
    ///
    /// # Errors
    /// SES rejected the email or did not respond, or the suppression list could not be read.
    pub async fn try_send(&self, to: &EmailAddress, mail: EmailMessage, about: impl fmt::Display) -> Result<()> {
        if !mail.is_requested
            && let Some(cause) = self.suppressed(to).await?
        {
            crate::log!("email.suppressed", %about, %cause);
            metrics::count("MailSuppressed");
            return Ok(());
        }
        let sent = self.call(to, mail).await;
        metrics::count(if sent.is_ok() { "MailSent" } else { "MailFailed" });
        sent
    }

    /// Returns why `address` gets only requested emails, or `None` if it gets all of them.
    pub async fn suppressed(&self, address: &EmailAddress) -> Result<Option<Cause>> {
        self.suppressions.cause(address, Timestamp::now()).await
    }

    async fn call(&self, to: &EmailAddress, mail: EmailMessage) -> Result<()> {
        let doing = "sending an email";
        let message = self.message(to, mail).map_err(Error::internal(doing))?;
        self.ses
            .send_raw_email()
            .configuration_set_name(&self.configuration_set)
            .destinations(to.as_str())
            .raw_message(RawMessage::builder().data(Blob::new(message)).build().map_err(Error::internal(doing))?)
            .send()
            .await
            .map_err(failure(doing))?;
        Ok(())
    }

    /// Builds the message in the format of RFC 5322. No line of it is longer than 78 bytes, except the header fields with
    /// an address: long lines of the content are encoded. SES would break them, or send them as they are.
    fn message(&self, to: &EmailAddress, mail: EmailMessage) -> io::Result<Vec<u8>> {
        let domain = self.from.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
        let mut message = MessageBuilder::new()
            .from((self.service.as_str(), self.from.as_str()))
            .to(to.as_str())
            // Email programs would decode an encoded word (RFC 2047), and with it hidden characters and addresses.
            .subject(format!("{}: {}", self.service, mail.subject).replace("=?", "= ?"))
            .message_id(format!("{}@{domain}", Uuid::now_v7()))
            // Programs that answer emails, such as absence notices, do not answer this one (RFC 3834).
            .header("Auto-Submitted", Raw::new("auto-generated"));
        if let Some(stop) = mail.stop {
            // Email programs show a button that posts to this page (RFC 8058).
            message = message
                .header("List-Unsubscribe", URL::new(stop))
                .header("List-Unsubscribe-Post", Raw::new("List-Unsubscribe=One-Click"));
        }
        message.text_body(mail.text).html_body(mail.html).write_to_vec()
    }
}

impl Part {
    /// A paragraph of plain text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Returns the part with its text in the form for emails. Only buttons and links have an address that works.
    fn shown(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(Untrusted::new(text).mail().into_owned()),
            Self::Facts(facts) => {
                let line = |text: &str| match text.parse::<IpAddr>() {
                    // No program turns it into a link, but its colons could be those of one.
                    Ok(_) => text.to_owned(),
                    Err(_) => Untrusted::new(text).mail_line().into_owned(),
                };
                Self::Facts(facts.iter().map(|(name, value)| (*name, line(value))).collect())
            }
            Self::Button(label, url) => Self::Button(label, url.clone()),
            Self::Link(label, url) => Self::Link(short(label), url.clone()),
            Self::Quote(text) => Self::Quote(Untrusted::new(text).mail().into_owned()),
        }
    }

    fn plain(&self) -> String {
        match self {
            Self::Text(text) => format!("{text}\n"),
            Self::Facts(facts) => facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect(),
            Self::Button(label, url) => format!("{label}:\n{url}\n"),
            Self::Link(label, url) => format!("{label}:\n{url}\n"),
            Self::Quote(text) => text.lines().map(|line| format!("> {line}\n")).collect(),
        }
    }
}

impl Render for Part {
    fn render(&self) -> Markup {
        html! {
            @match self {
                Self::Text(text) => p {
                    @for (number, line) in text.lines().enumerate() {
                        @if number > 0 { br; }
                        (line)
                    }
                },
                Self::Facts(facts) => table {
                    @for (name, value) in facts { tr { th scope="row" { (name) ":" } td { (value) } } }
                },
                // The URL is also shown as text, so readers can see where the button leads.
                Self::Button(label, url) => {
                    p { a .button href=(url) { (label) } }
                    p .soft { a href=(url) { (url) } }
                },
                Self::Link(label, url) => p { a href=(url) { (label) } },
                Self::Quote(text) => pre { (text) },
            }
        }
    }
}

/// Shortens untrusted text for a subject to one line of at most 60 characters.
pub fn short(text: &str) -> String {
    const MAX_LINE_LENGTH: usize = 60;
    let line = Untrusted::new(text).mail_line();
    let line = line.trim();
    match line.char_indices().nth(MAX_LINE_LENGTH) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line.to_owned(),
    }
}

impl EmailMessage {
    /// Builds an email from these parts; `why` explains why the recipient gets it. All arguments may contain untrusted
    /// text.
    pub fn new(subject: &str, parts: &[Part], why: &[Part]) -> Self {
        let subject = Untrusted::new(subject).mail_line();
        let [parts, why] = [parts, why].map(|parts| parts.iter().map(Part::shown).collect::<Vec<_>>());
        let rule = std::iter::once(format!("{RULE}\n"));
        let text: Vec<_> = parts.iter().map(Part::plain).chain(rule).chain(why.iter().map(Part::plain)).collect();
        let html = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (subject) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        @for part in &parts { (part) }
                        footer { @for part in &why { (part) } }
                    }
                }
            }
        };
        Self {
            subject: subject.into_owned(),
            text: text.join("\n"),
            html: html.into_string(),
            is_requested: false,
            stop: None,
        }
    }

    /// Builds an email that its recipient did not ask for, and can stop on the page `stop`, without an account.
    pub fn unrequested(subject: &str, parts: &[Part], mut why: Vec<Part>, stop: String) -> Self {
        why.push(Part::Link("Unsubscribe".to_owned(), stop.clone()));
        Self { stop: Some(stop), ..Self::new(subject, parts, &why) }
    }

    /// Marks the email as requested by its recipient, so it is also sent to an address on the suppression list.
    pub fn requested(self) -> Self {
        Self { is_requested: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{password_reset::reset_mail, token::Token, verification::verification_mail};

    #[test]
    fn the_link_stands_alone_on_a_line() {
        let token = Token::generate();
        let base = "https://api.example.com".parse().expect("a base URL");
        for (mail, path) in
            [(verification_mail(&base, &token), "verify-email"), (reset_mail(&base, &token), "reset-password")]
        {
            let link = format!("https://api.example.com/{path}?token={}", token.reveal());
            assert!(mail.text.lines().any(|line| line == link));
            assert!(mail.html.contains(&format!("<a class=\"button\" href=\"{link}\">")));
            assert!(mail.html.contains(&format!("<a href=\"{link}\">{link}</a>")), "readers can see the target");
        }
    }

    /// The text of an HTML part, without markup.
    fn words(html: &str) -> Vec<String> {
        let body = html.split_once("<body>").expect("a body").1;
        let text: String =
            body.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| format!(" {text}")).collect();
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        text.split_whitespace().map(|word| word.trim_end_matches(':').to_owned()).collect()
    }

    #[test]
    fn text_and_html_have_the_same_content_and_markup_stays_text() {
        let parts = [
            Part::text("<b> & \"more\"\na second line"),
            Part::Facts(vec![("Workflow", "<i>\nb".to_owned()), ("Job", "7".to_owned())]),
            Part::Button("View job", "https://a.example/?b=1&c=2".to_owned()),
            Part::Quote("<a href=\"x\">\n  no</a>".to_owned()),
        ];
        let link = Part::Link("Open\n<settings>".to_owned(), "https://a.example/settings".to_owned());
        let mail = EmailMessage::new("A subject", &parts, &[Part::text("You own this."), link]);
        assert_eq!(
            mail.text,
            "<b> & \"more\"\na second line\n\nWorkflow: <i> b\nJob: 7\n\nView job:\nhttps://a.example/?b=1&c=2\n\n\
             > <a href=\"x\">\n>   no</a>\n\n---\n\nYou own this.\n\nOpen <settings>:\nhttps://a.example/settings\n"
        );
        for says in [
            "<p>&lt;b&gt; &amp; &quot;more&quot;<br>a second line</p>",
            "<th scope=\"row\">Workflow:</th><td>&lt;i&gt; b</td>",
            "<a class=\"button\" href=\"https://a.example/?b=1&amp;c=2\">View job</a>",
            "<a href=\"https://a.example/?b=1&amp;c=2\">https://a.example/?b=1&amp;c=2</a></p>",
            "&lt;a href=&quot;x&quot;&gt;\n  no&lt;/a&gt;</pre>",
            "<footer><p>You own this.</p><p><a href=\"https://a.example/settings\">Open &lt;settings&gt;</a></p>",
        ] {
            assert!(mail.html.contains(says), "{}", mail.html);
        }
        // The HTML part shows only a link's label.
        let text = mail.text.lines().filter(|line| ![RULE, "https://a.example/settings"].contains(line));
        let text = text.map(|line| line.strip_prefix("> ").unwrap_or(line));
        let text: Vec<_> =
            text.flat_map(str::split_whitespace).map(|word| word.trim_end_matches(':').to_owned()).collect();
        assert_eq!(text, words(&mail.html));
    }

    #[test]
    fn no_part_of_an_email_shows_hidden_characters() {
        let parts = [
            Part::text("An\u{ad}n\u{202e}a\r\nجو\u{200c}"),
            Part::Quote("\u{e0041}a\u{feff}\n👩\u{200d}🚀".to_owned()),
        ];
        let mail = EmailMessage::new("Two\n\u{200b}lines", &parts, &[Part::text("w\u{ad}y")]);
        assert_eq!(mail.subject, "Two  lines");
        assert_eq!(mail.text, "An n a\nجو\u{200c}\n\n>  a \n> 👩\u{200d}🚀\n\n---\n\nw y\n");
        assert!(mail.html.contains("<p>An n a<br>جو\u{200c}</p>"), "{}", mail.html);
        assert!(mail.html.contains("> a \n👩\u{200d}🚀</pre>"), "{}", mail.html);
    }

    #[test]
    fn a_long_name_is_cut_in_a_subject() {
        assert_eq!(short(" import\nusers "), "import users");
        assert_eq!(short(&"ü".repeat(60)), "ü".repeat(60));
        assert_eq!(short(&"ü".repeat(61)), format!("{}…", "ü".repeat(60)));
    }
}
