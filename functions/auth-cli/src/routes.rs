//! The handlers of the flow.

use common::{
    api_keys::PREFIX,
    error::{Error, Refusal, Result},
    http::{Call, Page, Reply},
    name::Name,
    token::Token,
    user::User,
};
use serde_json::{Value, json};

use crate::App;

/// `GET /api/auth/verify-email`: the link in the mail. Marks the email as verified, once.
pub(crate) async fn verify_email(app: &App, call: &Call) -> Result<Reply> {
    let verified = match call.query("token").and_then(Token::parse) {
        Some(token) => app.verifications.verify(&token, jiff::Timestamp::now()).await?,
        None => false,
    };
    let callback = call.query("callbackURL").filter(|url| call.is_trusted(url, &app.trusted_origins));
    Ok(match callback {
        Some(url) if verified => Reply::Redirect(url.to_owned()),
        _ if verified => Reply::Page(Page {
            good: true,
            title: "Your email address is confirmed",
            text: "You can close this page and go back to where you signed up.",
        }),
        _ => Reply::Page(Page {
            good: false,
            title: "This link does not work",
            text: "It may be incomplete, older than 24 hours, or used before. If you have opened it before, your \
                   address is already confirmed; else ask for a new link.",
        }),
    })
}

/// `GET /api/auth/get-session`: who is signed in, or `null`.
pub(crate) async fn get_session(app: &App, call: &Call) -> Result<Reply> {
    let Some(token) = call.session() else { return Ok(Reply::Json(Value::Null)) };
    let found = app.sessions.find(&token, jiff::Timestamp::now()).await?;
    Ok(Reply::Json(found.map_or(Value::Null, |(session, user)| {
        json!({
            "session": { "id": session.id, "expiresAt": format!("{:.3}", session.expires_at) },
            "user": user_view(&user),
        })
    })))
}

/// `POST /api/auth/api-key/create`: issues a key for the caller's organization. Needs a session, not a key: a
/// key that leaked must not be able to make others that outlive it.
pub(crate) async fn create_api_key(app: &App, call: &Call) -> Result<Reply> {
    call.check_origin(&app.trusted_origins)?;
    let token = call.session().ok_or(Error::Unauthorized)?;
    let now = jiff::Timestamp::now();
    let (_, user) = app.sessions.find(&token, now).await?.ok_or(Error::Unauthorized)?;
    if !user.email_verified {
        return Err(Error::Forbidden(Refusal::EmailNotVerified));
    }
    let name = call.input(|fields| fields.text("name", Name::parse))?;
    let issued = app.keys.issue(&user, &name, now).await?;
    Ok(Reply::Json(json!({
        "id": issued.id,
        "name": name,
        "prefix": PREFIX,
        "start": issued.key.start(),
        "key": issued.key.reveal(),
        "enabled": true,
        "createdAt": format!("{:.3}", issued.created_at),
    })))
}

fn user_view(user: &User) -> Value {
    json!({ "id": user.id, "email": user.email, "name": user.name, "emailVerified": user.email_verified })
}
