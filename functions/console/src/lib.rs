//! The pages for accounts and organizations, one module each. The API has a route for each action on a page, and both
//! call the same functions in `common`.

use common::{
    config::{ConfigError, Env},
    http::Function,
};

mod account;
mod app;
mod audit;
mod email_preferences;
mod fallback;
mod frame;
mod health;
mod home;
mod invite;
mod keys;
mod reset_password;
mod settings;
mod signin;
mod team;
mod two_factor;
mod verify_email;
mod welcome;

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let routes = [
        home::show(),
        health::show(),
        signin::show(),
        signin::submit(),
        verify_email::show(),
        verify_email::show_old(),
        verify_email::submit("/verify-email"),
        verify_email::submit("/api/auth/verify-email"),
        email_preferences::show(),
        email_preferences::submit(),
        reset_password::show(),
        reset_password::submit(),
        invite::show(),
        invite::submit(),
        keys::show(),
        keys::submit(),
        team::show(),
        team::submit(),
        audit::show(),
        settings::show(),
        settings::submit(),
        account::show(),
        account::submit(),
        two_factor::show(),
        two_factor::submit(),
        welcome::show(),
        welcome::submit(),
        fallback::icon(),
        fallback::show(),
    ];
    Function::of_pages(env, routes)
}
