//! `fanfare settings`: the organization's email settings.

use api::{Email, team::ChangeSettings};

use crate::{
    args::Settings,
    calls::Api,
    failure::Failure,
    terminal::{cell, say, say_json},
};

/// Changes the given settings, and prints all of them.
pub(crate) async fn run(api: &Api, settings: Settings, is_json: bool) -> Result<(), Failure> {
    let change = ChangeSettings {
        debug_notification_email: settings.email.map(Email::from),
        disable_job_failure_notifications: settings.job_failures.map(|is_on| !is_on),
        // Only sessions can change it.
        require_two_factor: None,
    };
    let found = api.call(&change).await?;
    if is_json {
        return Ok(say_json(&found)?);
    }
    say(&format!("Emails about endpoints and jobs: {}", cell(&found.debug_notification_email)))?;
    Ok(say(&format!(
        "Emails about failed jobs: {}",
        if found.disable_job_failure_notifications { "off" } else { "on" }
    ))?)
}
