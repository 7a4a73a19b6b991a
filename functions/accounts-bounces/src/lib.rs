//! Stores bounces and complaints that SES reports through EventBridge. These addresses then get only requested emails.
//!
//! Storing an event twice has no additional effect, so Lambda can safely retry an invocation. Event format:
//! <https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html>.

use common::{
    accounts::suppressions::{Cause, Suppressions},
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    telemetry::metrics,
    timestamp::Timestamp,
};
use lambda_runtime::LambdaEvent;
use serde::Deserialize;

/// The function, ready to handle events. Cloning is cheap.
#[derive(Clone)]
pub struct Bounces {
    suppressions: Suppressions,
}

/// An event from SES, as EventBridge sends it.
#[derive(Debug, Deserialize)]
pub struct Event {
    detail: Detail,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "eventType")]
enum Detail {
    Bounce { bounce: Bounce, mail: Option<Mail> },
    Complaint { complaint: Complaint, mail: Option<Mail> },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounce {
    /// `Permanent`, `Transient` (such as a full mailbox) or `Undetermined`.
    bounce_type: String,
    bounced_recipients: Vec<Recipient>,
    /// When the email bounced, in RFC 3339.
    timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mail {
    /// The id of the email in SES.
    #[serde(default)]
    message_id: String,
    /// The addresses that the email was sent to: the service sends each email to only one.
    #[serde(default)]
    destination: Vec<String>,
}

impl Mail {
    /// The address that `recipient` belongs to. In a bounce, a recipient has the address that the last server reports, which
    /// is another one if the mailbox forwards its emails.
    fn sent_to<'a>(&'a self, recipient: &'a Recipient) -> &'a str {
        match &self.destination[..] {
            [address] => address,
            _ => &recipient.email_address,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Complaint {
    complained_recipients: Vec<Recipient>,
    /// The kind of report, as in RFC 5965, such as `abuse`.
    complaint_feedback_type: Option<String>,
}

impl Complaint {
    /// Whether no recipient objects: the recipient said that the email is not spam, or a server reports that it could not
    /// authenticate the email (RFC 6591). SES calls these reports complaints as well.
    fn is_harmless(&self) -> bool {
        matches!(self.complaint_feedback_type.as_deref(), Some("not-spam" | "auth-failure"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recipient {
    /// In a bounce with a report of the receiving server, the `Final-Recipient` of the report.
    email_address: String,
    /// The status of the receiving server, as in RFC 3463.
    status: Option<String>,
}

impl Recipient {
    /// Whether the receiving server said that the mailbox or its domain does not exist or is disabled. SES calls some of
    /// these bounces transient. A full mailbox or a rejected sender is none.
    fn is_missing(&self) -> bool {
        let status = self.status.as_deref().unwrap_or_default();
        status.starts_with("5.1.") || ["5.2.1", "5.4.4"].contains(&status)
    }
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Bounces, ConfigError> {
    Ok(Bounces { suppressions: Suppressions::from_env(env, &Aws::new(env)?)? })
}

impl Bounces {
    /// Stores the addresses of a permanent bounce or a complaint, and those of the third bounce within a week that SES calls
    /// transient although the mailbox does not exist.
    ///
    /// # Errors
    /// A write fails. Lambda retries the invocation.
    pub async fn handle(&self, event: LambdaEvent<Event>) -> Result<(), lambda_runtime::Error> {
        let (cause, metric, recipients, mail) = match event.payload.detail {
            Detail::Bounce { bounce, mail } if bounce.bounce_type != "Permanent" => {
                return self.note_passing(bounce, mail.unwrap_or_default()).await;
            }
            Detail::Complaint { complaint, .. } if complaint.is_harmless() => return Ok(()),
            Detail::Bounce { bounce, mail } => (Cause::Bounce, "MailBounced", bounce.bounced_recipients, mail),
            Detail::Complaint { complaint, mail } => {
                (Cause::Complaint, "MailComplained", complaint.complained_recipients, mail)
            }
        };
        let mail = mail.unwrap_or_default();
        for recipient in recipients {
            self.suppressions.add(mail.sent_to(&recipient), cause, Timestamp::now()).await?;
            common::log!("email.returned", %cause);
            metrics::count(metric);
        }
        Ok(())
    }

    async fn note_passing(&self, bounce: Bounce, mail: Mail) -> Result<(), lambda_runtime::Error> {
        let now = Timestamp::now();
        let at = bounce.timestamp.and_then(|time| time.parse().ok()).unwrap_or(now);
        for recipient in bounce.bounced_recipients.iter().filter(|recipient| recipient.is_missing()) {
            if self.suppressions.add_passing(mail.sent_to(recipient), &mail.message_id, at, now).await? {
                common::log!("email.returned", cause = %Cause::Bounce);
                metrics::count("MailBounced");
            }
        }
        Ok(())
    }
}
