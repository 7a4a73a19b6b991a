//! Signing in, signing out, and the current session.

use std::sync::Arc;

use common::{
    accounts::{
        email::Email,
        password::{Checked, Guess},
        sessions::Session,
        token::Token,
        users::User,
    },
    error::{Error, Result},
    http::{
        AnyCaller, By, Call, Caller, Fault, Fields, Public, Rejected, Route, WithCookies,
        cookies::{cleared_cookie, session_cookie},
    },
    id::UserId,
    name::Name,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{App, Success, upkeep};

pub(crate) fn sign_in() -> Route<App> {
    Route::post("/api/auth/sign-in/email", Public, Credentials::read, start)
        .summary("Starts a session. All wrong credentials get the same answer, after the same work.")
        .faults(&[Fault::WrongPassword, Fault::TooMany])
}

pub(crate) fn get() -> Route<App> {
    Route::get("/api/auth/get-session", AnyCaller, |_, _| Ok(()), who)
        .summary("Returns the caller and their session, or null. A key does not expire, so its `expiresAt` is null.")
}

/// Only the session counts here: an API key cannot be signed out.
pub(crate) fn sign_out() -> Route<App> {
    Route::post("/api/auth/sign-out", Public, |_, _| Ok(()), end)
        .summary("Ends the session of the cookie, everywhere and at once.")
}

struct Credentials {
    address: String,
    password: Guess,
}

impl Credentials {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let address = fields.text("email", |text| Ok(text.to_owned()));
        let password = fields.text("password", |text| Ok(Guess::new(text)));
        Ok(Self { address: address?, password: password? })
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct SignedIn {
    token: String,
    user: UserView,
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Current {
    session: SessionView,
    user: UserView,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "Session")]
struct SessionView {
    id: String,
    expires_at: Option<Timestamp>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "User")]
struct UserView {
    id: UserId,
    email: Email,
    name: Name,
    email_verified: bool,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        let User { id, email, name, email_verified, .. } = user;
        Self { id, email, name, email_verified }
    }
}

async fn start(app: Arc<App>, call: Call<()>, input: Credentials) -> Result<WithCookies<SignedIn>> {
    let now = Timestamp::now();
    let email = Email::parse(&input.address).ok();
    // Attempts count together for all spellings of an address.
    let subject = email.as_ref().map_or(input.address.as_str(), Email::as_str);
    app.attempts.count_sign_in(subject, call.client, now).await?;
    let (user, hash) = app.callers.users.credentials(email.as_ref()).await?.unzip();
    let checked = app.hasher.check(input.password, hash.clone()).await?;
    let (Some(user), Some(hash), false) = (user, hash, matches!(checked, Checked::Wrong)) else {
        return Err(Error::WrongPassword);
    };
    let (session, token) = (Session::start(user.id, now)?, Token::generate());
    let rehash = async {
        match &checked {
            Checked::Outdated(new) => app.callers.users.rehash(user.id, &hash, new).await,
            _ => Ok(()),
        }
    };
    let (stored, rehashed, forgotten, remembered) = tokio::join!(
        app.callers.sessions.store(&session, &token, now),
        rehash,
        app.attempts.forget_sign_in(subject, call.client),
        app.attempts.remember_client(subject, call.client, now),
    );
    stored?;
    [rehashed, forgotten, remembered].into_iter().for_each(|outcome| upkeep("signing in", outcome));
    let cookies = vec![session_cookie(&call.base, &token)];
    Ok(WithCookies { body: SignedIn { token: token.reveal().to_owned(), user: user.into() }, cookies })
}

async fn who(_: Arc<App>, call: Call<Option<Caller>>, (): ()) -> Result<Option<Current>> {
    Ok(call.caller.map(|Caller { user, by }| {
        let session = match by {
            By::Session(session) => SessionView { id: session.id.to_string(), expires_at: Some(session.expires_at) },
            By::Key(holder) => SessionView { id: holder.key.to_string(), expires_at: None },
        };
        Current { session, user: user.into() }
    }))
}

async fn end(app: Arc<App>, call: Call<()>, (): ()) -> Result<WithCookies<Success>> {
    if let Some(token) = call.session() {
        app.callers.sessions.end(&token).await?;
    }
    Ok(WithCookies { body: Success::DONE, cookies: vec![cleared_cookie(&call.base)] })
}
