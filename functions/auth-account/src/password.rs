//! Changes the password of the signed-in user.

use std::sync::Arc;

use api::account::User;
use common::{
    accounts::password::{Guess, Password},
    audit::{Action, Recorder},
    error::Result,
    http::{Call, DeclaredError, Fields, Rejected, Route, Session, SignedIn, WithCookies, cookies::session_cookie},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

pub(crate) fn change() -> Route<App> {
    Route::post("/api/auth/change-password", Session, Passwords::read, replace)
        .records(&[Action::PasswordChanged, Action::SessionCreated])
        .summary("Changes the password. All sessions end, and the caller gets a new one.")
        .description("The other sessions end regardless of `revokeOtherSessions`. API keys remain valid.")
        .errors(&[DeclaredError::InvalidPassword, DeclaredError::TooMany])
}

struct Passwords {
    current: Guess,
    new: Password,
}

impl Passwords {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let current = fields.about("The current password.").text("currentPassword", |text| Ok(Guess::new(text)));
        let new = fields.about("The new password.").text("newPassword", Password::parse);
        Ok(Self { current: current?, new: new? })
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Changed {
    /// The new session's secret, which the cookie also contains.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    token: String,
    /// The user.
    user: User,
}

async fn replace(app: Arc<App>, call: Call<SignedIn, Recorder>, input: Passwords) -> Result<WithCookies<Changed>> {
    let (user, now) = (call.caller.user.clone(), Timestamp::now());
    let device = call.device();
    let token = app.sign_ins.change_password(&call.recorder, &user, input.current, input.new, &device, now).await?;
    app.alerts.password_changed(&user, &device, &call.base, now).await;
    let cookies = vec![session_cookie(&call.base, &token)];
    Ok(WithCookies { body: Changed { token: token.reveal().to_owned(), user: user.into() }, cookies })
}
