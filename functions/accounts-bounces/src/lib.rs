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
    Bounce { bounce: Bounce },
    Complaint { complaint: Complaint },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounce {
    /// `Permanent`, `Transient` (such as a full mailbox) or `Undetermined`.
    bounce_type: String,
    bounced_recipients: Vec<Recipient>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Complaint {
    complained_recipients: Vec<Recipient>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recipient {
    email_address: String,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Bounces, ConfigError> {
    Ok(Bounces { suppressions: Suppressions::from_env(env, &Aws::new(env)?)? })
}

impl Bounces {
    /// Stores the addresses of a permanent bounce or a complaint.
    ///
    /// # Errors
    /// A write fails. Lambda retries the invocation.
    pub async fn handle(&self, event: LambdaEvent<Event>) -> Result<(), lambda_runtime::Error> {
        let (cause, metric, recipients) = match event.payload.detail {
            Detail::Bounce { bounce } if bounce.bounce_type != "Permanent" => return Ok(()),
            Detail::Bounce { bounce } => (Cause::Bounce, "MailBounced", bounce.bounced_recipients),
            Detail::Complaint { complaint } => (Cause::Complaint, "MailComplained", complaint.complained_recipients),
        };
        for recipient in recipients {
            self.suppressions.add(&recipient.email_address, cause, Timestamp::now()).await?;
            common::log!("email.returned", %cause);
            metrics::count(metric);
        }
        Ok(())
    }
}
