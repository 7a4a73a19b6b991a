//! The second factor: setting one up, changing it and disabling it, with the password.

use std::sync::Arc;

use api::account::Status;
use common::{
    accounts::{password::Guess, two_factor::Enrollment},
    audit::{Action, Recorder},
    error::{FactorProblem, Result},
    http::{Call, DeclaredError, Fields, Rejected, Route, Session, SignedIn, WithCookies, cookies::session_cookie},
    issue::Problem,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

pub(crate) fn enable() -> Route<App> {
    Route::post("/api/auth/two-factor/enable", Session, Enabling::read, enroll)
        .before_two_factor()
        .summary("Issues a secret for an authenticator app, and backup codes. They are shown only once.")
        .description(
            "The second factor takes effect once `two-factor/verify-totp` has been called with a code from the app. \
             Until then, another call replaces the secret and the codes. The email must be verified first. API keys \
             work without a second factor. Requests with `issuer` are rejected with a 400.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::InvalidPassword,
            DeclaredError::TwoFactor(FactorProblem::Enabled),
            DeclaredError::TooMany,
        ])
}

pub(crate) fn link() -> Route<App> {
    Route::post("/api/auth/two-factor/get-totp-uri", Session, Confirmation::read, show_link)
        .before_two_factor()
        .summary("Returns the link that adds the account to another authenticator app.")
        .description("If the second factor is enabled, the user is notified by email.")
        .errors(&[
            DeclaredError::InvalidPassword,
            DeclaredError::TwoFactor(FactorProblem::NoSecret),
            DeclaredError::TooMany,
        ])
}

pub(crate) fn renew_codes() -> Route<App> {
    Route::post("/api/auth/two-factor/generate-backup-codes", Session, Confirmation::read, renew)
        .records(&[Action::TwoFactorCodesGenerated])
        .summary("Replaces the backup codes. The new ones are shown only once.")
        .description("The user is notified by email.")
        .errors(&[
            DeclaredError::InvalidPassword,
            DeclaredError::TwoFactor(FactorProblem::NotEnabled),
            DeclaredError::TooMany,
        ])
}

pub(crate) fn disable() -> Route<App> {
    Route::post("/api/auth/two-factor/disable", Session, Confirmation::read, end)
        .before_two_factor()
        .records(&[Action::TwoFactorDisabled, Action::SessionCreated])
        .summary("Disables the second factor. All sessions end, and the caller gets a new one.")
        .description(
            "If the organization requires a second factor, the new session can only set one up. If no second factor is \
             enabled, the call cancels an unfinished setup.",
        )
        .errors(&[DeclaredError::InvalidPassword, DeclaredError::TooMany])
}

struct Confirmation {
    password: Guess,
}

impl Confirmation {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let password = fields.about("The current password.").text("password", |text| Ok(Guess::new(text)));
        Ok(Self { password: password? })
    }
}

struct Enabling(Confirmation);

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum Method {
    Totp,
}

impl Enabling {
    fn read(app: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let method = fields.about("The kind of second factor. Only `totp` is supported.");
        let method = method.optional_text("method", Method::parse);
        let refused = fields.refuse(&["issuer"]);
        let confirmation = Confirmation::read(app, fields);
        method?;
        refused?;
        Ok(Self(confirmation?))
    }
}

impl Method {
    fn parse(name: &str) -> Result<Self, Vec<Problem>> {
        if name == "totp" { Ok(Self::Totp) } else { Err(vec![Problem::format("Must be totp")]) }
    }
}

/// The link for an authenticator app, and backup codes to use if the app is lost.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Enrolled {
    /// The kind of second factor, always `totp`.
    #[schemars(extend("const" = "totp"))]
    method: &'static str,
    /// The link to open with an authenticator app, or to show as a QR code. It contains the secret.
    #[serde(rename = "totpURI")]
    #[schemars(extend("examples" = ["otpauth://totp/fanfare:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=fanfare"]))]
    totp_uri: String,
    /// Ten codes. Each one works for one sign-in without the app.
    #[serde(rename = "backupCodes")]
    #[schemars(extend("examples" = [["k3vd-8m2q-xw7t-hn5c"]]))]
    backup_codes: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Link {
    /// The link to open with an authenticator app, or to show as a QR code. It contains the secret.
    #[serde(rename = "totpURI")]
    #[schemars(extend("examples" = ["otpauth://totp/fanfare:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=fanfare"]))]
    totp_uri: String,
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Renewed {
    /// Always `true`; failures are returned as errors.
    status: bool,
    /// Ten codes. Earlier codes no longer work.
    #[serde(rename = "backupCodes")]
    #[schemars(extend("examples" = [["k3vd-8m2q-xw7t-hn5c"]]))]
    backup_codes: Vec<String>,
}

async fn enroll(app: Arc<App>, call: Call<SignedIn>, Enabling(input): Enabling) -> Result<Enrolled> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    let Enrollment { link, codes, .. } = app.two_factor.enroll(user, &app.sign_ins, input.password, now).await?;
    Ok(Enrolled { method: "totp", totp_uri: link.to_string(), backup_codes: codes.reveal().to_vec() })
}

async fn show_link(app: Arc<App>, call: Call<SignedIn>, input: Confirmation) -> Result<Link> {
    let (user, device, now) = (&call.caller.user, call.device(), Timestamp::now());
    let link = app.two_factor.link(user, &app.sign_ins, input.password, &device, &call.base, now).await?;
    Ok(Link { totp_uri: link.to_string() })
}

async fn renew(app: Arc<App>, call: Call<SignedIn, Recorder>, input: Confirmation) -> Result<Renewed> {
    let (user, device, now) = (&call.caller.user, call.device(), Timestamp::now());
    let codes = app
        .two_factor
        .renew_codes(&call.recorder, user, &app.sign_ins, input.password, &device, &call.base, now)
        .await?;
    Ok(Renewed { status: true, backup_codes: codes.reveal().to_vec() })
}

async fn end(app: Arc<App>, call: Call<SignedIn, Recorder>, input: Confirmation) -> Result<WithCookies<Status>> {
    let (user, device, now) = (&call.caller.user, call.device(), Timestamp::now());
    let token =
        app.two_factor.disable(&call.recorder, user, &app.sign_ins, input.password, &device, &call.base, now).await?;
    let cookies = token.iter().map(|token| session_cookie(&call.base, token)).collect();
    Ok(WithCookies { body: Status::DONE, cookies })
}
