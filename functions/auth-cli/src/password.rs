//! Changing a password.

use std::sync::Arc;

use common::{
    accounts::{
        attempts::PASSWORD_CHECK,
        password::{Checked, Guess, Password},
    },
    error::{Error, Result},
    http::{Call, Fault, Fields, Rejected, Route, Session, SignedIn, WithCookies, cookies::session_cookie},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{App, session::UserView};

pub(crate) fn change() -> Route<App> {
    Route::post("/api/auth/change-password", Session, Passwords::read, replace)
        .summary("Changes the password. All sessions end, and the caller gets a new one.")
        .faults(&[Fault::InvalidPassword, Fault::TooMany])
}

struct Passwords {
    current: Guess,
    new: Password,
}

impl Passwords {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let current = fields.text("currentPassword", |text| Ok(Guess::new(text)));
        let new = fields.text("newPassword", Password::parse);
        Ok(Self { current: current?, new: new? })
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Changed {
    token: String,
    user: UserView,
}

async fn replace(app: Arc<App>, call: Call<SignedIn>, input: Passwords) -> Result<WithCookies<Changed>> {
    let (user, now) = (call.caller.user.clone(), Timestamp::now());
    app.attempts.count(PASSWORD_CHECK, &user.id.to_string(), now).await?;
    let (_, old) = app.callers.users.credentials(Some(&user.email)).await?.ok_or(Error::Unauthorized)?;
    if matches!(app.hasher.check(input.current, Some(old.clone())).await?, Checked::Wrong) {
        return Err(Error::InvalidPassword);
    }
    let new = app.hasher.hash(input.new).await?;
    let token = app.callers.sessions.change_password(&user, (&old, &new), &call.device(), now).await?;
    let cookies = vec![session_cookie(&call.base, &token)];
    Ok(WithCookies { body: Changed { token: token.reveal().to_owned(), user: user.into() }, cookies })
}
