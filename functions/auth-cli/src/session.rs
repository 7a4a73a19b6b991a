//! Sign-in, sign-out, and the user's sessions.

use std::sync::Arc;

use api::{
    Call as _,
    account::{SignOut, Status, Success, User},
};
use common::{
    accounts::{
        password::Guess,
        sessions::{IdOrToken, Session},
        sign_in::SignIn,
    },
    audit::{Action, Recorder},
    error::Result,
    http::{
        self, AnyCaller, By, Call, Caller, DeclaredError, Fields, Public, Rejected, Route, SignedIn, WithCookies,
        cookies::{cleared_cookie, pending_cookies, session_cookie},
    },
    id::{SessionId, UserId},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;

pub(crate) fn sign_in() -> Route<App> {
    Route::post("/api/auth/sign-in/email", Public, Credentials::read, start)
        .records(&[Action::SessionCreated])
        .summary("Starts a session. Wrong credentials always get the same response, after the same amount of work.")
        .description(
            "If the user has a second factor, no session starts: the response is `twoFactorRedirect`, with a cookie \
             that is valid for five minutes. `two-factor/verify-totp` or `two-factor/verify-backup-code` then finishes \
             the sign-in.",
        )
        .errors(&[DeclaredError::WrongPassword, DeclaredError::TooMany])
}

pub(crate) fn get() -> Route<App> {
    Route::get("/api/auth/get-session", AnyCaller, |_, _| Ok(()), current)
        .before_two_factor()
        .any_scope()
        .summary(
            "Returns the caller and their session, or `null` for an unauthenticated caller. With a key, `expiresAt` \
             is `null`.",
        )
        .description(
            "With a key, `session.id` is the id of the key. An organization key has no user, so the response is `null`. \
             Every call reads the session from the table, and calls do not extend the session, so `disableCookieCache` \
             and `disableRefresh` have no effect.",
        )
}

/// Ignores the caller's API key, because a key cannot sign out.
pub(crate) fn sign_out() -> Route<App> {
    Route::post(SignOut::PATH, Public, |_, _| Ok(()), end)
        .records(&[Action::SessionEnded])
        .summary("Immediately ends the cookie's session.")
}

pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/list-sessions", http::Session, |_, _| Ok(()), sessions)
        .summary("Lists the caller's sessions, newest first. A new session may take a moment to appear.")
        .description("The list contains at most the newest 100 sessions.")
}

pub(crate) fn revoke() -> Route<App> {
    Route::post("/api/auth/revoke-session", http::Session, RevokeInput::read, end_one)
        .records(&[Action::SessionEnded])
        .summary("Immediately ends one of the caller's sessions.")
        .errors(&[DeclaredError::NotFound])
}

pub(crate) fn revoke_others() -> Route<App> {
    Route::post("/api/auth/revoke-other-sessions", http::Session, |_, _| Ok(()), end_others)
        .records(&[Action::SessionsEnded])
        .summary("Immediately ends all of the caller's sessions except the current one.")
}

pub(crate) fn revoke_all() -> Route<App> {
    Route::post("/api/auth/revoke-sessions", http::Session, |_, _| Ok(()), end_all)
        .records(&[Action::SessionsEnded])
        .summary("Immediately ends all of the caller's sessions, including the current one.")
}

struct RevokeInput {
    session: IdOrToken,
}

impl RevokeInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            session: fields
                .about("The session to end: the `token` that `list-sessions` returned, or a session's secret.")
                .text("token", IdOrToken::parse)?,
        })
    }
}

struct Credentials {
    address: String,
    password: Guess,
}

impl Credentials {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let address = fields
            .about("The email address of the account.")
            .example("ada@example.com")
            .text("email", |text| Ok(text.to_owned()));
        let password = fields.about("The password of the account.").text("password", |text| Ok(Guess::new(text)));
        Ok(Self { address: address?, password: password? })
    }
}

#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
#[schemars(inline)]
enum SignedInOrNot {
    Started(Started),
    NeedsCode(NeedsCode),
}

/// The password is correct, and a second factor is required.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, inline)]
struct NeedsCode {
    /// Always `true`: no session has started yet.
    two_factor_redirect: bool,
    /// The user's second factors, always `totp`. Backup codes work, too.
    #[schemars(extend("examples" = [["totp"]]))]
    two_factor_methods: [&'static str; 1],
}

/// A session has started.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Started {
    /// The session's secret, which the cookie also contains.
    #[schemars(extend("examples" = ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"]))]
    token: String,
    /// The user who signed in.
    user: User,
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Current {
    /// The call's session or API key.
    session: SessionView,
    /// The user.
    user: User,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Session")]
struct SessionView {
    /// The id of the session or, for a call with a key, of the key.
    #[schemars(extend("examples" = ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"]))]
    id: String,
    /// When the session ends; `null` for a call with a key.
    expires_at: Option<Timestamp>,
}

/// A session in the list. Callers end a session by its id, because its secret is not stored.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "ListedSession")]
struct ListedSession {
    /// The id of the session.
    id: SessionId,
    /// The id of the session again, as the `token` for `revoke-session`. A session's secret is not stored.
    token: SessionId,
    /// The id of the session's user.
    user_id: UserId,
    /// When the session started.
    created_at: Timestamp,
    /// The start of the UTC day on which the session was last used.
    updated_at: Timestamp,
    /// When the session ends.
    expires_at: Timestamp,
    /// The IP address from which the session was started; `null` if it is unknown.
    #[schemars(extend("examples" = ["192.0.2.7"]))]
    ip_address: Option<String>,
    /// The `user-agent` header of the client that started the session; `null` if the client sent none.
    #[schemars(extend("examples" = ["curl/8.5.0"]))]
    user_agent: Option<String>,
}

impl From<Session> for ListedSession {
    fn from(session: Session) -> Self {
        let Session { id, user, created_at, seen_on, expires_at, address, agent, .. } = session;
        Self {
            id,
            token: id,
            user_id: user,
            created_at,
            updated_at: seen_on,
            expires_at,
            ip_address: address,
            user_agent: agent,
        }
    }
}

async fn start(app: Arc<App>, call: Call<(), Recorder>, input: Credentials) -> Result<WithCookies<SignedInOrNot>> {
    Ok(
        match app
            .sign_ins
            .sign_in(&call.recorder, &input.address, input.password, &call.device(), Timestamp::now())
            .await?
        {
            SignIn::Done(user, token) => {
                let body = Started { token: token.reveal().to_owned(), user: (*user).into() };
                let cookies = vec![session_cookie(&call.base, &token)];
                WithCookies { body: SignedInOrNot::Started(body), cookies }
            }
            SignIn::NeedsCode(pending) => {
                let body = NeedsCode { two_factor_redirect: true, two_factor_methods: ["totp"] };
                WithCookies { body: SignedInOrNot::NeedsCode(body), cookies: pending_cookies(&call.base, &pending) }
            }
        },
    )
}

async fn current(_: Arc<App>, call: Call<Option<Caller>>, (): ()) -> Result<Option<Current>> {
    Ok(call.caller.and_then(|Caller { by, .. }| match by {
        By::Session { user, session } => {
            let session = SessionView { id: session.id.to_string(), expires_at: Some(session.expires_at) };
            Some(Current { session, user: user.into() })
        }
        By::Key { user, key } => {
            Some(Current { session: SessionView { id: key.key.to_string(), expires_at: None }, user: user.into() })
        }
        By::OrganizationKey(_) => None,
    }))
}

async fn end(app: Arc<App>, call: Call<(), Recorder>, (): ()) -> Result<WithCookies<Success>> {
    if let Some(token) = call.session() {
        app.sessions.end(&call.recorder, &token, Timestamp::now()).await?;
    }
    Ok(WithCookies { body: Success::DONE, cookies: vec![cleared_cookie(&call.base)] })
}

async fn sessions(app: Arc<App>, call: Call<SignedIn>, (): ()) -> Result<Vec<ListedSession>> {
    let sessions = app.sessions.list(&call.caller.user, Timestamp::now()).await?;
    Ok(sessions.into_iter().map(ListedSession::from).collect())
}

async fn end_one(app: Arc<App>, call: Call<SignedIn, Recorder>, input: RevokeInput) -> Result<Status> {
    app.sessions.revoke(&call.recorder, &call.caller.user, &input.session).await?;
    Ok(Status::DONE)
}

async fn end_others(app: Arc<App>, call: Call<SignedIn, Recorder>, (): ()) -> Result<Status> {
    let SignedIn { user, session } = call.caller;
    app.sessions.revoke_others(&call.recorder, &user, &session).await?;
    Ok(Status::DONE)
}

async fn end_all(app: Arc<App>, call: Call<SignedIn, Recorder>, (): ()) -> Result<WithCookies<Status>> {
    app.sessions.revoke_all(&call.recorder, &call.caller.user).await?;
    Ok(WithCookies { body: Status::DONE, cookies: vec![cleared_cookie(&call.base)] })
}
