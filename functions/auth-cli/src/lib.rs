//! The command-line authentication flow: what a client calls after sign-up, from verifying the email to
//! inviting teammates. Plain JSON, a session cookie, one table of routes and a handler each.

use common::{
    api_keys::{ApiKeys, KeyHolder},
    attempts::Attempts,
    aws::Aws,
    config::{ConfigError, Env},
    error::{Error, Result},
    http::{Call, Caller, Function, Origins, Route},
    invitations::Invitations,
    mail::Mailer,
    organizations::Organizations,
    password::Hasher,
    sessions::{Session, Sessions},
    timestamp::Timestamp,
    users::{User, Users},
    verification::Verifications,
};

mod api_key;
mod email;
mod organization;
mod session;

/// The method and path, as the template maps them.
pub const ROUTE: &str = "ANY /api/auth/{proxy+}";

/// What the routes need.
pub struct App {
    attempts: Attempts,
    hasher: Hasher,
    invitations: Invitations,
    keys: ApiKeys,
    mailer: Mailer,
    organizations: Organizations,
    sessions: Sessions,
    users: Users,
    verifications: Verifications,
}

/// The function, with the settings in `env`.
///
/// # Errors
/// A setting is missing or does not parse.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        attempts: Attempts::from_env(env, &aws)?,
        hasher: Hasher::from_env(env)?,
        invitations: Invitations::from_env(env, &aws)?,
        keys: ApiKeys::from_env(env, &aws)?,
        mailer: Mailer::from_env(env, &aws)?,
        organizations: Organizations::from_env(env, &aws)?,
        sessions: Sessions::from_env(env, &aws)?,
        users: Users::from_env(env, &aws)?,
        verifications: Verifications::from_env(env, &aws)?,
    };
    Ok(Function::plain(app, Origins::from_env(env)?, ROUTES))
}

macro_rules! routes {
    ($($method:literal $path:literal $handle:path;)*) => {
        &[$(Route {
            method: $method,
            path: concat!("/api/auth/", $path),
            handle: |app, call| Box::pin($handle(app, call)),
        }),*]
    };
}

const ROUTES: &[Route<App>] = routes! {
    "GET" "verify-email" email::ask_to_verify;
    "POST" "verify-email" email::verify;
    "POST" "send-verification-email" email::send_verification;
    "POST" "sign-in/email" session::sign_in;
    "GET" "get-session" session::get;
    "POST" "sign-out" session::sign_out;
    "GET" "organization/list" organization::list;
    "POST" "organization/invite-member" organization::invite;
    "GET" "organization/invitation" organization::show_invitation;
    "POST" "api-key/create" api_key::create;
    "GET" "api-key/list" api_key::list;
    "POST" "api-key/delete" api_key::delete;
};

/// What a user called with.
enum Credential {
    Session(Session),
    Key(KeyHolder),
}

/// Who calls, by cookie or key; `None` for nobody that we know.
async fn caller(app: &App, call: &Call, now: Timestamp) -> Result<Option<(User, Credential)>> {
    let credential = match call.caller() {
        Some(Caller::ApiKey(key)) => app.keys.holder(&key).await?.map(Credential::Key),
        Some(Caller::Session(token)) => app.sessions.find(&token, now).await?.map(Credential::Session),
        None => None,
    };
    let Some(credential) = credential else { return Ok(None) };
    let id = match &credential {
        Credential::Session(session) => session.user,
        Credential::Key(holder) => holder.user,
    };
    Ok(app.users.find(id).await?.map(|user| (user, credential)))
}

/// The user who calls, by cookie or key.
async fn user(app: &App, call: &Call) -> Result<User> {
    let found = caller(app, call, Timestamp::now()).await?;
    found.map(|(user, _)| user).ok_or(Error::Unauthorized)
}

/// The user who is signed in. A key will not do: one that leaked must not be able to make others that outlive it.
async fn signed_in(app: &App, call: &Call) -> Result<User> {
    match caller(app, call, Timestamp::now()).await? {
        Some((user, Credential::Session(_))) => Ok(user),
        Some((_, Credential::Key(_))) => Err(Error::SessionRequired),
        None => Err(Error::Unauthorized),
    }
}
