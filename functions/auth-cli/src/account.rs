//! Deleting one's account.

use std::sync::Arc;

use common::{
    accounts::{members::MemberIdOrEmail, password::Guess, users::User},
    error::{Conflict, Error, Result},
    http::{Call, Fault, Fields, Rejected, Route, Session, SignedIn, WithCookies, cookies::cleared_cookie},
    telemetry::metrics,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{App, password};

pub(crate) fn delete() -> Route<App> {
    Route::post("/api/auth/delete-user", Session, Confirmation::read, delete_user)
        .summary(
            "Deletes the caller's account; sessions and keys end at once. The last member takes the organization along, \
             with all that it has.",
        )
        .faults(&[Fault::InvalidPassword, Fault::TooMany, Fault::Conflict("last_owner")])
}

struct Confirmation {
    password: Guess,
}

impl Confirmation {
    /// Better Auth's clients may also send a `callbackURL` or a `token`, which are ignored: the password is what confirms.
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { password: fields.text("password", |text| Ok(Guess::new(text)))? })
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Deleted {
    success: bool,
    message: &'static str,
}

async fn delete_user(app: Arc<App>, call: Call<SignedIn>, input: Confirmation) -> Result<WithCookies<Deleted>> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    password::confirm(&app, user, input.password, now).await?;
    end(&app, user, now).await.map_err(|error| match error {
        // They were removed meanwhile, or the same call was made twice.
        Error::NotFound(_) => Error::Unauthorized,
        error => error,
    })?;
    let body = Deleted { success: true, message: "User deleted" };
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
            app.callers.keys.delete_all_of(organization, user.id).await
        }
    };
    metrics::upkeep("deleting an account", cleaned_up);
    Ok(())
}
