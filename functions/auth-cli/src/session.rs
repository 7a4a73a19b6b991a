//! Signing in and out, and who is signed in.

use common::{
    attempts::SIGN_IN,
    email::Email,
    error::{Error, Result},
    http::{Call, Reply},
    password::{Checked, Password},
    sessions::{Session, cleared_cookie, session_cookie},
    timestamp::Timestamp,
    token::Token,
    users::User,
};
use serde_json::{Value, json};

use crate::{App, Credential, caller};

/// `POST /api/auth/sign-in/email`: starts a session. A wrong password, an unknown address and a text that is no
/// address get one answer, after the same work.
pub(crate) async fn sign_in(app: &App, call: &Call) -> Result<Reply> {
    let (address, password) = call.input(|fields| {
        let address = fields.text("email", |text| Ok(text.to_owned()));
        let password = fields.text("password", |text| Ok(Password::parse(text).ok()));
        Ok((address?, password?))
    })?;
    let now = Timestamp::now();
    let email = Email::parse(&address).ok();
    // Attempts with any spelling of an address count together.
    let subject = email.as_ref().map_or(address.as_str(), Email::as_str);
    app.attempts.count(SIGN_IN, subject, now).await?;
    let (user, hash) = app.users.credentials(email.as_ref()).await?.unzip();
    let checked = app.hasher.check(password, hash.clone()).await?;
    let (Some(user), Some(hash), false) = (user, hash, matches!(checked, Checked::Wrong)) else {
        return Err(Error::WrongPassword);
    };
    if let Checked::Outdated(new) = &checked {
        app.users.rehash(user.id, &hash, new).await?;
    }
    app.attempts.forget(SIGN_IN, subject).await?;
    let (session, token) = (Session::start(user.id, now)?, Token::generate());
    app.sessions.store(&session, &token, now).await?;
    let body = json!({ "token": token.reveal(), "user": view(&user) });
    Ok(Reply::JsonWithCookie(body, session_cookie(&call.base, &token)))
}

/// `GET /api/auth/get-session`: who calls, or `null`. A key has no end, so `expiresAt` is `null` for one.
pub(crate) async fn get(app: &App, call: &Call) -> Result<Reply> {
    let Some((user, credential)) = caller(app, call, Timestamp::now()).await? else {
        return Ok(Reply::Json(Value::Null));
    };
    let session = match credential {
        Credential::Session(session) => json!({ "id": session.id, "expiresAt": session.expires_at.to_string() }),
        Credential::Key(holder) => json!({ "id": holder.key, "expiresAt": null }),
    };
    Ok(Reply::Json(json!({ "session": session, "user": view(&user) })))
}

/// `POST /api/auth/sign-out`: ends the session, everywhere and at once. Without one there is nothing to end.
pub(crate) async fn sign_out(app: &App, call: &Call) -> Result<Reply> {
    if let Some(token) = call.session() {
        app.sessions.end(&token).await?;
    }
    Ok(Reply::JsonWithCookie(json!({ "success": true }), cleared_cookie(&call.base)))
}

fn view(user: &User) -> Value {
    json!({ "id": user.id, "email": user.email, "name": user.name, "emailVerified": user.email_verified })
}
