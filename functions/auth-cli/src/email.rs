//! The email that verifies an address.

use std::sync::Arc;

use api::account::Status;
use common::{
    accounts::{attempts::VERIFICATION_MAIL, email::Email, mail::unhurried, users::User},
    error::{Error, Result},
    http::{Call, Fault, Fields, Public, Rejected, Route},
    timestamp::Timestamp,
};

use crate::app::App;

pub(crate) fn send_verification() -> Route<App> {
    Route::post("/api/auth/send-verification-email", Public, Address::read, send)
        .summary("Sends another verification email. The response does not reveal whether the address has an account.")
        .faults(&[Fault::TooMany])
}

struct Address {
    email: Email,
}

impl Address {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            email: fields
                .about("The address to verify. If it has no account, the response is the same, and no email is sent.")
                .text("email", Email::parse)?,
        })
    }
}

async fn send(app: Arc<App>, call: Call<()>, input: Address) -> Result<Status> {
    let (email, now) = (input.email, Timestamp::now());
    app.attempts.count(VERIFICATION_MAIL, email.as_str(), now).await?;
    let send = async {
        match app.users.credentials(Some(&email)).await? {
            Some((user, _)) if !counts(&app, &user, &email, now).await? => Ok(()),
            Some((user, _)) => app.verifications.send_again(&user, &app.mailer, &call.base, now).await,
            None => Ok(()),
        }
    };
    unhurried(send).await.map(|()| Status::DONE)
}

/// Counts the email toward its recipient's limit, if the recipient is not the requested address. Returns `false` if the
/// recipient has reached the limit.
async fn counts(app: &App, user: &User, requested: &Email, now: Timestamp) -> Result<bool> {
    let to = user.email_to_verify();
    if to == requested {
        return Ok(true);
    }
    match app.attempts.count(VERIFICATION_MAIL, to.as_str(), now).await {
        Err(Error::TooMany { .. }) => Ok(false),
        counted => counted.map(|()| true),
    }
}
