//! Verifying an email address.

use common::{
    attempts::VERIFICATION_MAIL,
    email::Email,
    error::Result,
    http::{Call, Page, Reply},
    mail::verification_mail,
    timestamp::Timestamp,
    token::Token,
};
use serde_json::json;

use crate::App;

/// `GET /api/auth/verify-email`: the link in the mail. Marks the email as verified, once.
pub(crate) async fn verify(app: &App, call: &Call) -> Result<Reply> {
    let verified = match call.query("token").and_then(Token::parse) {
        Some(token) => app.verifications.verify(&token, Timestamp::now()).await?,
        None => false,
    };
    let callback = call.query("callbackURL").and_then(|url| call.trusted_url(url, &app.trusted_origins));
    Ok(match callback {
        Some(url) if verified => Reply::Redirect(url),
        _ if verified => Reply::Page(Page {
            good: true,
            title: "Your email address is confirmed",
            text: "You can close this page and go back to where you signed up.".to_owned(),
            command: None,
        }),
        _ => Reply::Page(Page {
            good: false,
            title: "This link does not work",
            text: "It may be incomplete, older than 24 hours, or used before. If you have opened it before, your \
                   address is already confirmed; else ask for a new link where you signed up."
                .to_owned(),
            command: None,
        }),
    })
}

/// `POST /api/auth/send-verification-email`: another link. The answer does not tell who has an account.
pub(crate) async fn send_verification(app: &App, call: &Call) -> Result<Reply> {
    let email = call.input(|fields| fields.text("email", Email::parse))?;
    let now = Timestamp::now();
    app.attempts.count(VERIFICATION_MAIL, email.as_str(), now).await?;
    if let Some((user, _)) = app.users.credentials(Some(&email)).await?.filter(|(user, _)| !user.email_verified) {
        let token = app.verifications.issue(&user, now).await?;
        app.mailer.send(&user.email, verification_mail(&call.base, &user.name, &token), user.id).await;
    }
    Ok(Reply::Json(json!({ "status": true })))
}
