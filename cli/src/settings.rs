//! `fanfare settings`: the organization's name and settings.

use api::{
    EmailAddress, Extensible, Name,
    team::{self, ChangeOrganization, ChangeSettings, NewName, NotificationEmailStatus},
};
use serde::Serialize;

use crate::{
    approval::with_session,
    args::Settings,
    calls::Api,
    failure::Failure,
    terminal::{cell, print_json, print_line},
};

/// The output for programs.
#[derive(Serialize)]
struct Changed {
    #[serde(flatten)]
    settings: team::Settings,
    /// The organization's name, if it was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Name>,
}

/// Changes the given settings, and prints all of them.
pub(crate) async fn run(api: &Api, settings: Settings, is_json: bool) -> Result<(), Failure> {
    let change = ChangeSettings {
        debug_notification_email: settings.email.map(EmailAddress::from),
        disable_job_failure_notifications: settings.job_failures.map(|is_on| !is_on),
        require_two_factor: settings.require_two_factor,
    };
    let found = match settings.require_two_factor {
        // Only a session can change this setting.
        Some(_) => {
            with_session(api, !settings.no_browser, is_json, async |session| session.call(&change).await).await?
        }
        None => api.call(&change).await?,
    };
    let renamed = match settings.name {
        Some(name) => Some(api.call(&ChangeOrganization::new(NewName::new(Name::from(name)))).await?),
        None => None,
    };
    let name = renamed.map(|organization| organization.name);
    if is_json {
        return Ok(print_json(&Changed { settings: found, name })?);
    }
    if let Some(name) = name {
        print_line(&format!("Name: {}", cell(&name)))?;
    }
    let status = match &found.notification_email_status {
        Extensible::Known(NotificationEmailStatus::Ok) => String::new(),
        Extensible::Known(NotificationEmailStatus::Unconfirmed) => {
            " (unconfirmed: without details until its owner agrees)".to_owned()
        }
        Extensible::Known(NotificationEmailStatus::Stopped) => " (stopped by its owner: no emails are sent)".to_owned(),
        status => format!(" ({}: choose another address)", cell(status)),
    };
    print_line(&format!("Emails about endpoints and jobs: {}{status}", cell(&found.debug_notification_email)))?;
    let job_failures = if found.disable_job_failure_notifications { "off" } else { "on" };
    print_line(&format!("Emails about failed jobs: {job_failures}"))?;
    let second_factor = if found.require_two_factor { "required of all members" } else { "optional" };
    Ok(print_line(&format!("Second factor: {second_factor}"))?)
}
