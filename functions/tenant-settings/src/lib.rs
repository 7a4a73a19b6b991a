//! The settings of the caller's organization.

use std::sync::Arc;

use common::{
    accounts::{
        attempts::Attempts,
        email::Email,
        mail::Mailer,
        organizations::{
            Organization, Organizations,
            settings::{SettingsChange, address_mails},
        },
        users::{Role, User},
    },
    aws::clients::Aws,
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Refusal, Result},
    http::{Call, Fault, Fields, Function, Rejected, Route, Verified, Wire},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The dependencies of the route.
pub struct App {
    attempts: Attempts,
    mailer: Mailer,
    organizations: Organizations,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        attempts: Attempts::from_env(env, &aws)?,
        mailer: Mailer::from_env(env, &aws)?,
        organizations: Organizations::from_env(env, &aws)?,
    };
    Function::new(Wire::Envelope, env, &aws, app, [route()])
}

/// A change of the address sends mail, so that callers have to be verified: otherwise anybody could make us send mail to
/// anybody.
fn route() -> Route<App> {
    Route::post("/v1/tenant/settings", Verified, Input::read, handle)
        .summary("Returns the organization's settings, changed where a field is given. Only owners change them.")
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::TooMany])
}

/// The settings to change.
pub struct Input {
    change: SettingsChange,
}

impl Input {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let address = fields.optional_text("debug_notification_email", Email::parse);
        let disable = fields.optional_bool("disable_job_failure_notifications");
        let change = SettingsChange { debug_notification_email: address?, disable_job_failure_notifications: disable? };
        Ok(Self { change })
    }
}

/// The settings.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always false.
    #[schemars(extend("const" = false))]
    code_sharing_enabled: bool,
    disable_job_failure_notifications: bool,
    debug_notification_email: Email,
}

async fn handle(app: Arc<App>, call: Call<User>, Input { change }: Input) -> Result<Output> {
    let User { organization: id, role, .. } = &call.caller;
    if !change.is_empty() && *role != Role::Owner {
        return Err(Error::Forbidden(Refusal::OwnersOnly));
    }
    let current = app.organizations.get(id).await?;
    let change = change.left_of(&current);
    if change.is_empty() {
        return Ok(current.into());
    }
    if let Some(address) = &change.debug_notification_email {
        app.attempts.count_notified(id, address, Timestamp::now()).await?;
    }
    let before = app.organizations.change_settings(id, &change).await?;
    let after = before.clone().changed(change);
    tell(&app.mailer, &call.base, &before, &after).await;
    Ok(after.into())
}

/// Tells both addresses if another one gets notifications from now on.
async fn tell(mailer: &Mailer, base: &BaseUrl, before: &Organization, after: &Organization) {
    let (old, new) = (&before.debug_notification_email, &after.debug_notification_email);
    if old == new {
        return;
    }
    let [to_old, to_new] = address_mails(base, after);
    tokio::join!(mailer.send(old, to_old, &after.id), mailer.send(new, to_new, &after.id));
}

impl From<Organization> for Output {
    fn from(organization: Organization) -> Self {
        let Organization { debug_notification_email, disable_job_failure_notifications, .. } = organization;
        Self { code_sharing_enabled: false, disable_job_failure_notifications, debug_notification_email }
    }
}
