//! The email that verifies an address.

use std::sync::Arc;

use api::account::Status;
use common::{
    accounts::{email::EmailAddress, mail::unhurried, rate_limits::VERIFICATION_MAIL},
    error::Result,
    http::{Call, DeclaredError, Fields, Public, Rejected, Route},
    timestamp::Timestamp,
};

use crate::app::App;

pub(crate) fn send_verification() -> Route<App> {
    Route::post("/api/auth/send-verification-email", Public, EmailInput::read, send)
        .summary("Sends another verification email. The response does not reveal whether the address has an account.")
        .errors(&[DeclaredError::TooMany])
}

struct EmailInput {
    email: EmailAddress,
}

impl EmailInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            email: fields
                .about("The address to verify. If it has no account, the response is the same, and no email is sent.")
                .text("email", EmailAddress::parse)?,
        })
    }
}

async fn send(app: Arc<App>, call: Call<()>, input: EmailInput) -> Result<Status> {
    let (email, now) = (input.email, Timestamp::now());
    app.rate_limits.count(VERIFICATION_MAIL, email.as_str(), now).await?;
    let send = async {
        let Some((user, _)) = app.users.credentials(Some(&email)).await? else { return Ok(()) };
        let to = user.email_to_verify();
        // The requested address is already counted.
        if *to == email || app.rate_limits.may_send(VERIFICATION_MAIL, to, now).await? {
            app.verifications.send_again(&user, &app.mailer, &call.base, now).await?;
        }
        Ok(())
    };
    unhurried(send).await.map(|()| Status::DONE)
}
