//! Deleting one's account, and with the last one the organization.

use std::sync::Arc;

use common::{
    accounts::{
        api_keys::ApiKeys,
        members::{MemberIdOrEmail, Members},
        password::{Guess, Hasher},
        sign_in::SignIns,
        users::User,
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    http::{
        Call, Fault, Fields, Function, Rejected, Route, Session, SignedIn, Wire, WithCookies, cookies::cleared_cookie,
    },
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{endpoints::Endpoints, log::Retention},
};
use schemars::JsonSchema;
use serde::Serialize;

/// The dependencies of the route.
pub struct App {
    keys: ApiKeys,
    endpoints: Endpoints,
    members: Members,
    retention: Retention,
    sign_ins: SignIns,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Function, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        keys: ApiKeys::from_env(env, &aws)?,
        endpoints: Endpoints::from_env(env, &aws)?,
        members: Members::from_env(env, &aws)?,
        retention: Retention::from_env(env)?,
        sign_ins: SignIns::from_env(env, &aws, Hasher::from_env(env)?)?,
    };
    Function::new(Wire::Plain, env, &aws, app, [route()])
}

fn route() -> Route<App> {
    Route::post("/api/auth/delete-user", Session, Input::read, handle)
        .summary(
            "Deletes the caller's account; sessions and keys end at once. The last member takes the organization along, \
             with all that it has.",
        )
        .faults(&[Fault::InvalidPassword, Fault::TooMany, Fault::Conflict("last_owner")])
}

/// The password, once more.
pub struct Input {
    password: Guess,
}

impl Input {
    /// Better Auth's clients may also send a `callbackURL` or a `token`, which are ignored: the password is what confirms.
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { password: fields.text("password", |text| Ok(Guess::new(text)))? })
    }
}

/// What was done, as Better Auth says it.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Output {
    success: bool,
    message: &'static str,
}

async fn handle(app: Arc<App>, call: Call<SignedIn>, input: Input) -> Result<WithCookies<Output>> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    app.sign_ins.confirm(user, input.password, now).await?;
    end(&app, user, now).await.map_err(|error| match error {
        // They were removed meanwhile, or the same call was made twice.
        Error::NotFound(_) => Error::Unauthorized,
        error => error,
    })?;
    let body = Output { success: true, message: "User deleted" };
    Ok(WithCookies { body, cookies: vec![cleared_cookie(&call.base)] })
}

/// Deletes the account, and with the last one the organization. What of it is not deleted here has ended all the same, and
/// `accounts-purge` deletes it.
async fn end(app: &App, user: &User, now: Timestamp) -> Result<()> {
    let organization = &user.organization;
    let cleaned_up = match app.members.remove(user, &MemberIdOrEmail::Id(user.id)).await {
        Err(Error::Conflict(Conflict::LastOwner)) => {
            app.members.delete_with_organization(user, now).await?;
            app.endpoints.delete_all(organization, app.retention.end(now)).await.map(drop)
        }
        removed => {
            removed?;
            app.keys.delete_all_of(organization, user.id).await
        }
    };
    metrics::upkeep("deleting an account", cleaned_up);
    Ok(())
}
