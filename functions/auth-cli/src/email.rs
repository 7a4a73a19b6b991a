//! Verifying an email address.

use std::borrow::Cow;

use common::{
    attempts::VERIFICATION_MAIL,
    email::Email,
    error::Result,
    http::{Call, Form, Page, Reply},
    mail::verification_mail,
    timestamp::Timestamp,
    token::Token,
};
use serde_json::json;

use crate::App;

const CONFIRMED: Page = Page {
    good: true,
    title: "Your email address is confirmed",
    text: Cow::Borrowed("You can close this page and go back to where you signed up."),
    command: None,
    form: None,
};

const BAD_LINK: Page = Page {
    good: false,
    title: "This link does not work",
    text: Cow::Borrowed(
        "It may be incomplete, older than 24 hours, or used before. If you have pressed the button before, your address \
         is already confirmed. Otherwise ask for a new link where you signed up.",
    ),
    command: None,
    form: None,
};

/// `GET /api/auth/verify-email`: the link in the mail. A page with a button, and no change: mail programs and scanners
/// open links on their own.
pub(crate) async fn ask_to_verify(app: &App, call: &Call) -> Result<Reply> {
    let token = call.query("token").and_then(|text| Token::parse(&text));
    let token = match token {
        Some(token) if app.verifications.holds(&token, Timestamp::now()).await? => token,
        _ => return Ok(Reply::Page(BAD_LINK)),
    };
    let callback = call.query("callbackURL").and_then(|url| call.trusted_url(&url));
    let mut fields = vec![("token", token.reveal().to_owned())];
    fields.extend(callback.as_ref().map(|url| ("callbackURL", url.to_string())));
    Ok(Reply::Page(Page {
        good: true,
        title: "Confirm your email address",
        text: "If you have just signed up, press the button. If not, close this page: nothing happens.".into(),
        command: None,
        form: Some(Form {
            button: "Confirm",
            fields,
            redirects_to: callback.map(|url| url.origin().ascii_serialization()),
        }),
    }))
}

/// `POST /api/auth/verify-email`: the button of that page. Marks the email as verified, once.
pub(crate) async fn verify(app: &App, call: &Call) -> Result<Reply> {
    let verified = match call.form("token").and_then(|text| Token::parse(&text)) {
        Some(token) => app.verifications.verify(&token, Timestamp::now()).await?,
        None => false,
    };
    if !verified {
        return Ok(Reply::Page(BAD_LINK));
    }
    let callback = call.form("callbackURL").and_then(|url| call.trusted_url(&url));
    Ok(callback.map_or(Reply::Page(CONFIRMED), |url| Reply::Redirect(url.into())))
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
