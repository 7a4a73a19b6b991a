//! The second factor: entering a code to finish a sign-in, or to enable the factor.

use std::sync::Arc;

use api::account;
use common::{
    accounts::{token::Token, two_factor::Entered, users::User},
    audit::{Action, Recorder},
    error::{Error, FactorProblem, Result},
    http::{
        Call, DeclaredError, Fields, Rejected, Route, SignedIn, Visitor, WithCookies,
        cookies::{finished_cookies, session_cookie},
    },
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

pub(crate) fn verify() -> Route<App> {
    Route::post("/api/auth/two-factor/verify-totp", Visitor, Code::read, enter_code)
        .before_two_factor()
        .records(&[Action::TwoFactorEnabled, Action::SessionCreated])
        .summary(
            "Finishes a sign-in with a code from the authenticator app. If the caller is already signed in, checks a \
             code instead; the first valid code enables the second factor.",
        )
        .description(
            "A sign-in can be finished within five minutes, with the cookie that `sign-in/email` set. Each code works \
             once. To allow for clock differences, the previous and the next code work, too. Enabling ends all \
             sessions, and the caller gets a new one. At most ten codes per client are checked each hour. Requests \
             with `trustDevice` are rejected with a 400.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::TwoFactor(FactorProblem::WrongCode),
            DeclaredError::TwoFactor(FactorProblem::NoSignIn),
            DeclaredError::TwoFactor(FactorProblem::NoSecret),
            DeclaredError::TooMany,
        ])
}

pub(crate) fn verify_backup() -> Route<App> {
    Route::post("/api/auth/two-factor/verify-backup-code", Visitor, Code::read, enter_backup_code)
        .before_two_factor()
        .records(&[Action::TwoFactorCodeUsed, Action::SessionCreated])
        .summary(
            "Finishes a sign-in with a backup code, which works once. If the caller is already signed in, checks \
                  a code instead and uses it up.",
        )
        .description(
            "The limits are the same as for `two-factor/verify-totp`. The user is notified by email. Requests with \
             `trustDevice` or `disableSession` are rejected with a 400.",
        )
        .errors(&[
            DeclaredError::TwoFactor(FactorProblem::WrongBackupCode),
            DeclaredError::TwoFactor(FactorProblem::NoSignIn),
            DeclaredError::TwoFactor(FactorProblem::NotEnabled),
            DeclaredError::TooMany,
        ])
}

struct Code(String);

impl Code {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let code = fields
            .about("The code. White space is ignored.")
            .example("123456")
            .text("code", |text| Ok(text.to_owned()));
        fields.refuse(&["trustDevice", "disableSession"])?;
        Ok(Self(code?))
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Verified {
    /// The session's secret, which the cookie also contains.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    token: String,
    /// The user.
    user: account::User,
}

async fn enter_code(
    app: Arc<App>,
    call: Call<Option<SignedIn>, Recorder>,
    Code(code): Code,
) -> Result<WithCookies<Verified>> {
    enter(&app, &call, Entered::Code(&code)).await
}

async fn enter_backup_code(
    app: Arc<App>,
    call: Call<Option<SignedIn>, Recorder>,
    Code(code): Code,
) -> Result<WithCookies<Verified>> {
    enter(&app, &call, Entered::BackupCode(&code)).await
}

/// Checks the code of the signed-in user. Without a session, the code finishes the sign-in that is waiting for it:
/// starting a sign-in clears the session cookie, so if a browser has both cookies, the session is newer.
async fn enter(
    app: &App,
    call: &Call<Option<SignedIn>, Recorder>,
    entered: Entered<'_>,
) -> Result<WithCookies<Verified>> {
    let (device, now) = (call.device(), Timestamp::now());
    let (Some(SignedIn { user, .. }), Some(current)) = (&call.caller, call.session()) else {
        let pending = call.pending_sign_in().ok_or(Error::TwoFactor(FactorProblem::NoSignIn))?;
        let (user, token) = app.two_factor.finish(&call.recorder, &pending, entered, &device, &call.base, now).await?;
        return Ok(WithCookies { cookies: finished_cookies(&call.base, &token), body: verified(&token, user) });
    };
    let enabled = app.two_factor.verify(&call.recorder, user, entered, None, &device, &call.base, now).await?;
    let cookies = enabled.iter().map(|token| session_cookie(&call.base, token)).collect();
    let user = User { has_two_factor: true, ..user.clone() };
    Ok(WithCookies { body: verified(&enabled.unwrap_or(current), user), cookies })
}

fn verified(token: &Token, user: User) -> Verified {
    Verified { token: token.reveal().to_owned(), user: user.into() }
}
