//! The settings of the caller's organization.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        organizations::{Organization, settings::SettingsChange},
        settings::Settings,
        users::User,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::Result,
    http::{Call, Fault, Fields, Function, Rejected, Route, Verified, Wire},
};
use schemars::JsonSchema;
use serde::Serialize;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let settings = Settings::from_env(env, &aws)?;
    Function::new(Wire::Envelope, env, &aws, settings, [route()])
}

/// A change of the address sends email, so callers must be verified: otherwise anyone could make the service send email
/// to any address.
fn route() -> Route<Settings> {
    Route::post("/v1/tenant/settings", Verified, Input::read, handle)
        .summary("Changes the given settings of the organization (owners only), and returns all settings.")
        .description(
            "Without fields, the route returns the settings to any member. Only owners, and API keys of owners, can \
             send a field, even with its current value.",
        )
        .faults(&[Fault::EmailNotVerified, Fault::OwnersOnly, Fault::TooMany])
}

/// The settings to change.
pub struct Input {
    change: SettingsChange,
}

impl Input {
    fn read(_: &Settings, fields: &mut Fields) -> Result<Self, Rejected> {
        let address = fields
            .about(
                "The new address for the emails about failing endpoints and failed jobs. Both the old and the new \
                 address are notified of the change by email.",
            )
            .optional_text("debug_notification_email", Email::parse);
        let disable = fields
            .about("`true` turns off the emails about failed jobs. Emails about failing endpoints are still sent.")
            .optional_bool("disable_job_failure_notifications");
        let change = SettingsChange { debug_notification_email: address?, disable_job_failure_notifications: disable? };
        Ok(Self { change })
    }
}

/// All settings of the organization.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    /// Always `false`.
    #[schemars(extend("const" = false))]
    code_sharing_enabled: bool,
    /// Whether the emails about failed jobs are turned off.
    disable_job_failure_notifications: bool,
    /// The address that receives the emails about failing endpoints and failed jobs.
    debug_notification_email: Email,
}

async fn handle(settings: Arc<Settings>, call: Call<User>, Input { change }: Input) -> Result<Output> {
    Ok(settings.change(&call.caller, change, &call.base).await?.into())
}

impl From<Organization> for Output {
    fn from(organization: Organization) -> Self {
        let Organization { debug_notification_email, disable_job_failure_notifications, .. } = organization;
        Self { code_sharing_enabled: false, disable_job_failure_notifications, debug_notification_email }
    }
}
