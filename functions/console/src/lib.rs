//! The pages for people, one module each. Nothing is done on a page that the API cannot do, and both do it by the same
//! functions of `common`.

use common::{
    accounts::{
        cli_logins::CliLogins, invitations::Invitations, mail::Mailer, organizations::Organizations, password::Hasher,
        password_reset::PasswordResets, sign_in::SignIns, signup::Accounts, verification::Verifications,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    http::{Callers, Function, Origins, Wire},
};

mod home;
mod invite;
mod reset_password;
mod signin;
mod verify_email;

/// The dependencies of the pages.
pub struct App {
    accounts: Accounts,
    callers: Callers,
    docs: Option<home::Docs>,
    hasher: Hasher,
    invitations: Invitations,
    logins: CliLogins,
    mailer: Mailer,
    organizations: Organizations,
    resets: PasswordResets,
    sign_ins: SignIns,
    verifications: Verifications,
}

/// Builds the function with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let hasher = Hasher::from_env(env)?;
    let app = App {
        accounts: Accounts::from_env(env, &aws)?,
        callers: Callers::from_env(env, &aws)?,
        docs: home::Docs::from_env(env)?,
        invitations: Invitations::from_env(env, &aws)?,
        logins: CliLogins::from_env(env, &aws)?,
        mailer: Mailer::from_env(env, &aws)?,
        organizations: Organizations::from_env(env, &aws)?,
        resets: PasswordResets::from_env(env, &aws)?,
        sign_ins: SignIns::from_env(env, &aws, hasher.clone())?,
        hasher,
        verifications: Verifications::from_env(env, &aws)?,
    };
    let routes = [
        home::show(),
        signin::show(),
        signin::submit(),
        verify_email::show(),
        verify_email::show_old(),
        verify_email::submit("/verify-email"),
        verify_email::submit("/api/auth/verify-email"),
        reset_password::show(),
        reset_password::submit(),
        invite::show(),
        invite::submit(),
    ];
    Ok(Function::new(Wire::Page, app, Origins::from_env(env)?, routes))
}

impl AsRef<Callers> for App {
    fn as_ref(&self) -> &Callers {
        &self.callers
    }
}
