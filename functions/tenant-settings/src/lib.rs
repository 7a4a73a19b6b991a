//! The settings of the caller's organization.

use std::sync::Arc;

use api::{
    Call as _,
    team::{ChangeSettings, NotificationEmailStatus, Settings as Output},
};
use common::{
    accounts::{
        consent::Consent, email::EmailAddress, organizations::settings::SettingsChange, permissions::Scope,
        settings::Settings,
    },
    audit::{Action, Recorder},
    config::{ConfigError, Env},
    error::{Error, ForbiddenReason, Result},
    http::{BodyFormat, By, Call, Caller, DeclaredError, Fields, Function, Rejected, Route, Verified},
};

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    Function::new(BodyFormat::Envelope, env, [route()])
}

/// Requires a verified caller, because a new address gets an email: otherwise, anyone could make the service email any
/// address.
fn route() -> Route<Settings> {
    Route::post(ChangeSettings::PATH, Verified, Input::read, handle)
        .records(&[Action::SettingsChanged])
        .scope(Scope::SettingsRead)
        .also_scope(Scope::SettingsWrite, "to send a field")
        .summary("Changes the given organization settings (owners only) and returns all settings.")
        .description(
            "Any member can read the settings by calling this without fields. Only owners, their API keys and \
             organization keys can send a field, even with its current value.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly, DeclaredError::TooMany])
}

/// The settings to change.
pub struct Input {
    change: SettingsChange,
}

impl Input {
    fn read(_: &Settings, fields: &mut Fields) -> Result<Self, Rejected> {
        let address = fields
            .about(
                "The new address for emails about failing endpoints and failed jobs. Both the old and the new address \
                 are notified of the change by email. Unless the address is that of a verified member, its owner has to \
                 agree before emails contain details of jobs. Your own address agrees with this call, also after you \
                 have stopped the emails.",
            )
            .optional_text(ChangeSettings::NAMES.debug_notification_email, EmailAddress::parse);
        let disable = fields
            .about("`true` turns off emails about failed jobs. Emails about failing endpoints are still sent.")
            .optional_bool(ChangeSettings::NAMES.disable_job_failure_notifications);
        let require = fields
            .about(
                "`true` requires a second factor for all members. Members without one can use their sessions only to \
                 set one up; other calls return the `data.reason` `two_factor_required`. API keys are not affected. \
                 Only an owner who has a second factor can change this setting, and only with a session. If the call \
                 fails, repeat it: the change may not have reached all members.",
            )
            .optional_bool(ChangeSettings::NAMES.require_two_factor);
        let change = SettingsChange {
            debug_notification_email: address?,
            disable_job_failure_notifications: disable?,
            require_two_factor: require?,
        };
        Ok(Self { change })
    }
}

async fn handle(settings: Arc<Settings>, call: Call<Caller, Recorder>, Input { change }: Input) -> Result<Output> {
    let caller = &call.caller;
    if !change.is_empty() {
        caller.check_scope(Scope::SettingsWrite)?;
        caller.check_owner()?;
    }
    if change.require_two_factor.is_some() {
        check_protected(caller)?;
    }
    let organization =
        settings.change(&call.recorder, &caller.organization, caller.any_user(), change, &call.base).await?;
    let status = match (settings.suppressed(&organization).await?, settings.consent(&organization).await?) {
        (Some(cause), _) => cause.into(),
        (None, Consent::Stopped) => NotificationEmailStatus::Stopped,
        (None, Consent::Unanswered) => NotificationEmailStatus::Unconfirmed,
        (None, Consent::Agreed) => NotificationEmailStatus::Ok,
    };
    Ok(Output {
        code_sharing_enabled: false,
        disable_job_failure_notifications: organization.disable_job_failure_notifications,
        debug_notification_email: organization.debug_notification_email.into(),
        notification_email_status: status.into(),
        require_two_factor: organization.require_two_factor,
    })
}

/// Checks that the caller is signed in and has a second factor. A leaked key must not weaken the members' sign-in, and
/// owners cannot require a second factor that they lack themselves.
fn check_protected(caller: &Caller) -> Result<()> {
    match &caller.by {
        By::Session { user, .. } if user.has_two_factor => Ok(()),
        By::Session { .. } => Err(Error::Forbidden(ForbiddenReason::TwoFactorRequired)),
        By::Key { .. } | By::OrganizationKey(_) => Err(Error::SessionRequired),
    }
}
