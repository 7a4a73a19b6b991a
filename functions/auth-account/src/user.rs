//! The name and the address of the signed-in user.

use std::sync::Arc;

use api::account::Status;
use common::{
    accounts::email::EmailAddress,
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{Call, DeclaredError, Fields, Rejected, Route, Session, SignedIn},
    issue::{Issue, Problem},
    name::Name,
    timestamp::Timestamp,
};

use crate::app::App;

pub(crate) fn update() -> Route<App> {
    Route::post("/api/auth/update-user", Session, NewName::read, rename)
        .records(&[Action::UserRenamed])
        .summary("Changes the caller's name.")
        .description("Requests with `image` or `email` are rejected with a 400.")
}

pub(crate) fn change_email() -> Route<App> {
    Route::post("/api/auth/change-email", Session, NewEmail::read, change)
        .records(&[Action::EmailRequested])
        .summary(
            "Sends a link to a new email address. Confirming on the page that it opens replaces the caller's address. The \
             response does not reveal whether the new address has an account.",
        )
        .description(
            "The link works once, within 24 hours, while the session of this call lasts. Confirming ends all other \
             sessions and sends an email to the old address. For 24 hours, a link in that email can undo the change, \
             which also ends all sessions and personal keys. During that time, no other account can use the old \
             address, even if this account is deleted. If the caller's current address is not verified yet, links sent \
             to it stop working, and confirming the new address replaces the current one, as on the welcome page. If \
             the organization requires a second factor and the caller has none, the link does not work. If the email \
             to the old address cannot be sent, only the service's operators can restore the address. \
             `callbackURL` has no effect.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::TooMany])
}

struct NewName {
    name: Name,
}

impl NewName {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        fields.refuse(&["image", "email"])?;
        Ok(Self { name: fields.about("The new name.").text("name", Name::parse)? })
    }
}

struct NewEmail {
    email: EmailAddress,
}

impl NewEmail {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let email = fields.about("The new address, which the link confirms.").text("newEmail", EmailAddress::parse)?;
        Ok(Self { email })
    }
}

async fn rename(app: Arc<App>, call: Call<SignedIn, Recorder>, input: NewName) -> Result<Status> {
    app.users.rename(&call.recorder, &call.caller.user, &input.name).await?;
    Ok(Status::DONE)
}

async fn change(app: Arc<App>, call: Call<SignedIn, Recorder>, input: NewEmail) -> Result<Status> {
    let (SignedIn { user, session }, email, now) = (&call.caller, input.email, Timestamp::now());
    if email == user.email {
        let Problem { code, message } = Problem::format("Is your address already");
        return Err(Error::Invalid(vec![Issue { code, path: vec!["newEmail".to_owned()], message }]));
    }
    app.email_changes.request(&call.recorder, user, session, &email, &call.base, now).await.map(|()| Status::DONE)
}
