//! Mail to users, through SES.

use std::{fmt, time::Duration};

use aws_sdk_ses::{
    Client,
    types::{Body, Content, Destination, Message},
};
use html_escape::encode_safe;
use tokio::time::sleep;

use crate::{
    accounts::{email::Email, invitations::Invitation, organizations::Organization, token::Token},
    aws::{clients::Aws, failure},
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Result},
    name::Name,
    telemetry::metrics,
};

/// More than two reads, a write and the mail take.
const ANSWER_AFTER: Duration = Duration::from_millis(500);

/// Does `work`, which sends a mail if an address has an account. It ends no earlier where there is nothing to send, so that
/// its time does not reveal who has one.
///
/// # Errors
/// The work fails.
pub async fn unhurried(work: impl Future<Output = Result<()>>) -> Result<()> {
    let (done, ()) = tokio::join!(work, sleep(ANSWER_AFTER));
    done
}

/// Sends mail from the address in `MAIL_FROM`.
#[derive(Clone)]
pub struct Mailer {
    ses: Client,
    from: String,
}

/// A mail, as HTML and as plain text for clients that do not show HTML.
#[derive(Debug, PartialEq, Eq)]
pub struct Mail {
    subject: String,
    text: String,
    html: String,
}

impl Mailer {
    /// The mailer over SES.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { ses: aws.ses(), from: env.required("MAIL_FROM")? })
    }

    /// Sends `mail` to one address. What the mail is about is already stored, so a failure is only logged and counted,
    /// and the recipient can ask for another mail.
    pub async fn send(&self, to: &Email, mail: Mail, about: impl fmt::Display) {
        if let Err(error) = self.try_send(to, mail).await {
            tracing::error!(%about, ?error, "a mail was not sent");
        }
    }

    /// Sends `mail` to one address, and counts that.
    ///
    /// # Errors
    /// It was not sent, or no answer came.
    pub async fn try_send(&self, to: &Email, mail: Mail) -> Result<()> {
        let sent = self.call(to, mail).await;
        metrics::count(if sent.is_ok() { "MailSent" } else { "MailFailed" });
        sent
    }

    async fn call(&self, to: &Email, mail: Mail) -> Result<()> {
        let doing = "sending a mail";
        let content =
            |data: String| Content::builder().charset("UTF-8").data(data).build().map_err(Error::internal(doing));
        let body = Body::builder().text(content(mail.text)?).html(content(mail.html)?).build();
        self.ses
            .send_email()
            .source(&self.from)
            .destination(Destination::builder().to_addresses(to.as_str()).build())
            .message(Message::builder().subject(content(mail.subject)?).body(body).build())
            .send()
            .await
            .map_err(failure(doing))?;
        Ok(())
    }
}

impl Mail {
    /// A mail of paragraphs of plain text. A line stays a line.
    #[must_use]
    pub fn plain(subject: &str, paragraphs: &[String]) -> Self {
        let html = paragraphs.iter().map(|text| format!("<p>{}</p>\n", encode_safe(text).replace('\n', "<br>")));
        Self { subject: subject.to_owned(), text: paragraphs.join("\n\n") + "\n", html: html.collect() }
    }
}

/// The mail with the link to join an organization. The names are the inviter's words to somebody who may not know them,
/// so they appear only in the body, attributed to the inviter, and never in the subject.
#[must_use]
pub fn invitation_mail(base: &BaseUrl, inviter: &Name, organization: &Organization, invitation: &Invitation) -> Mail {
    let (id, slug) = (invitation.id, &organization.slug);
    let link = format!("{base}/api/auth/organization/invitation?id={id}&slug={slug}");
    let (inviter, name) = (inviter.as_str(), organization.name.as_str());
    let text = format!(
        "Hello,\n\n{inviter} invites you to join the organization {name}. Within 7 days you can accept with a new \
         account; this page says how:\n\n{link}\n\nOrganization slug: {slug}\nInvitation id: {id}\n\nIf you do not \
         know {inviter}, you can ignore this mail.\n"
    );
    let (inviter_html, name_html, href) = (encode_safe(inviter), encode_safe(name), encode_safe(&link));
    let html = format!(
        "<p>Hello,</p>\n<p>{inviter_html} invites you to join the organization {name_html}. Within 7 days you can \
         accept with a new account; this page says how:</p>\n<p><a href=\"{href}\">{href}</a></p>\n<p>Organization \
         slug: {slug}<br>Invitation id: {id}</p>\n<p>If you do not know {inviter_html}, you can ignore this mail.</p>\n"
    );
    Mail { subject: "You are invited to join an organization".to_owned(), text, html }
}

/// The mail with the link that verifies an address. It has no name in it: anybody can sign up with any address, and would
/// be writing to its owner.
#[must_use]
pub fn verification_mail(base: &BaseUrl, token: &Token) -> Mail {
    let link = format!("{base}/api/auth/verify-email?token={}", token.reveal());
    let text = format!(
        "Hello,\n\nplease confirm your email address by opening this link. It works once, within 24 hours:\n\n\
         {link}\n\nIf you did not create an account, you can ignore this mail.\n"
    );
    let href = encode_safe(&link);
    let html = format!(
        "<p>Hello,</p>\n<p>please confirm your email address by opening this link. It works once, within 24 \
         hours:</p>\n<p><a href=\"{href}\">{href}</a></p>\n<p>If you did not create an account, you can ignore this \
         mail.</p>\n"
    );
    Mail { subject: "Confirm your email address".to_owned(), text, html }
}

/// The mail with the link that resets a password. It has no name in it, for the same reason.
#[must_use]
pub fn reset_mail(base: &BaseUrl, token: &Token) -> Mail {
    let link = format!("{base}/reset-password?token={}", token.reveal());
    let text = format!(
        "Hello,\n\nsomebody asked for a new password for your account. If it was you, open this link and choose one. It \
         works once, within an hour:\n\n{link}\n\nIf it was not you, you can ignore this mail: nothing has changed.\n"
    );
    let href = encode_safe(&link);
    let html = format!(
        "<p>Hello,</p>\n<p>somebody asked for a new password for your account. If it was you, open this link and choose \
         one. It works once, within an hour:</p>\n<p><a href=\"{href}\">{href}</a></p>\n<p>If it was not you, you can \
         ignore this mail: nothing has changed.</p>\n"
    );
    Mail { subject: "Choose a new password".to_owned(), text, html }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_stands_alone_on_a_line() {
        let token = Token::generate();
        let base = "https://api.example.com".parse().expect("a base URL");
        for (mail, path) in
            [(verification_mail(&base, &token), "api/auth/verify-email"), (reset_mail(&base, &token), "reset-password")]
        {
            let link = format!("https://api.example.com/{path}?token={}", token.reveal());
            assert!(mail.text.lines().any(|line| line == link));
            assert!(mail.html.contains(&format!(">{}</a>", encode_safe(&link))));
        }
    }
}
