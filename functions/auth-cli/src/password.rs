//! Changing a password, and resetting a forgotten one.

use std::{borrow::Cow, sync::Arc};

use common::{
    accounts::{
        attempts::PASSWORD_CHECK,
        password::{Checked, Guess, Password, PasswordHash},
        token::Token,
        users::User,
    },
    error::{Error, Result},
    http::{
        Call, Fault, Fields, Form, Input, Page, Public, Rejected, Route, Session, SignedIn, WithCookies,
        cookies::session_cookie,
    },
    telemetry::metrics,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{App, Status, session::UserView};

pub(crate) fn change() -> Route<App> {
    Route::post("/api/auth/change-password", Session, Passwords::read, replace)
        .summary("Changes the password. All sessions end, and the caller gets a new one.")
        .faults(&[Fault::InvalidPassword, Fault::TooMany])
}

pub(crate) fn request_reset() -> Route<App> {
    Route::post("/api/auth/request-password-reset", Public, Address::read, request)
        .summary("Sends a mail to reset a password with. The answer does not reveal who has an account.")
        .faults(&[Fault::TooMany])
}

pub(crate) fn reset() -> Route<App> {
    Route::post("/api/auth/reset-password", Public, Reset::read, choose)
        .summary("Sets another password with the token of that mail, once. All sessions and keys of the user end.")
        .faults(&[Fault::InvalidToken])
}

/// The link in the mail. Like that of a verification, it only shows a form.
pub(crate) fn show_reset() -> Route<App> {
    Route::get("/reset-password", Public, Link::read, ask)
        .summary("The link in the mail to reset a password with: a page with a form; it changes nothing.")
}

/// The form on that page.
pub(crate) fn submit_reset() -> Route<App> {
    Route::post_form("/reset-password", Public, Filled::read, submit)
        .summary("The form of that page: sets another password, as `/api/auth/reset-password` does.")
}

const DONE: Page = Page {
    good: true,
    title: "Your password is changed",
    text: Cow::Borrowed(
        "You can close this page and sign in with it. Nobody is signed in to your account any more, and the API keys that \
         you had issued have ended.",
    ),
    command: None,
    form: None,
};
const BAD_LINK: Page = Page {
    good: false,
    title: "This link does not work",
    text: Cow::Borrowed(
        "It may be incomplete, older than an hour, or used before, or you have reset your password with another one since. \
         Ask for a new link where you sign in.",
    ),
    command: None,
    form: None,
};

/// The page with the form.
fn form(token: &Token, good: bool, text: &'static str) -> Page {
    const NEW_PASSWORD: Input = Input {
        label: "New password",
        name: "newPassword",
        attributes: "type=\"password\" autocomplete=\"new-password\" minlength=\"8\"",
    };
    Page {
        good,
        title: "Choose a new password",
        text: text.into(),
        command: None,
        form: Some(Form {
            button: "Set password",
            fields: vec![("token", token.reveal().to_owned())],
            inputs: &[NEW_PASSWORD],
            redirects_to: None,
        }),
    }
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

/// Any text is accepted, as an address that nobody has.
struct Address {
    text: String,
}

impl Address {
    /// Better Auth's clients also send a `redirectTo`, which is ignored: the page behind the link is ours.
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { text: fields.text("email", |text| Ok(text.to_owned()))? })
    }
}

struct Reset {
    token: Option<Token>,
    new: Password,
}

impl Reset {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let token = fields.text("token", |text| Ok(text.to_owned()));
        let new = fields.text("newPassword", Password::parse);
        Ok(Self { token: Token::parse(&token?), new: new? })
    }
}

/// The parameters of a link. Any text is accepted here and in the form, because people should get a page and not a list of
/// issues.
struct Link {
    token: Option<Token>,
}

impl Link {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let token = fields.optional_text("token", |text| Ok(text.to_owned()))?;
        Ok(Self { token: token.as_deref().and_then(Token::parse) })
    }
}

struct Filled {
    link: Link,
    new: Option<Password>,
}

impl Filled {
    fn read(app: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let link = Link::read(app, fields);
        let new = fields.optional_text("newPassword", |text| Ok(Guess::new(text)));
        Ok(Self { link: link?, new: new?.and_then(Guess::password) })
    }
}

/// Whether there is such an account, the answer does not say.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Requested {
    status: bool,
    message: &'static str,
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct Changed {
    token: String,
    user: UserView,
}

async fn replace(app: Arc<App>, call: Call<SignedIn>, input: Passwords) -> Result<WithCookies<Changed>> {
    let (user, now) = (call.caller.user.clone(), Timestamp::now());
    let old = confirm(&app, &user, input.current, now).await?;
    let new = app.hasher.hash(input.new).await?;
    let token = app.callers.sessions.change_password(&user, (&old, &new), &call.device(), now).await?;
    let cookies = vec![session_cookie(&call.base, &token)];
    Ok(WithCookies { body: Changed { token: token.reveal().to_owned(), user: user.into() }, cookies })
}

/// Checks the password of somebody who is signed in, and returns its hash. Each try is counted.
pub(crate) async fn confirm(app: &App, user: &User, guess: Guess, now: Timestamp) -> Result<PasswordHash> {
    app.attempts.count(PASSWORD_CHECK, &user.id.to_string(), now).await?;
    let (_, hash) = app.callers.users.credentials(Some(&user.email)).await?.ok_or(Error::Unauthorized)?;
    match app.hasher.check(guess, Some(hash.clone())).await? {
        Checked::Wrong => Err(Error::InvalidPassword),
        Checked::Right | Checked::Outdated(_) => Ok(hash),
    }
}

async fn request(app: Arc<App>, call: Call<()>, input: Address) -> Result<Requested> {
    app.resets.request(&input.text, call.client, &call.base, Timestamp::now()).await?;
    Ok(Requested { status: true, message: "If this address has an account, a mail with a link is on its way" })
}

async fn choose(app: Arc<App>, _: Call<()>, input: Reset) -> Result<Status> {
    let token = input.token.ok_or(Error::InvalidToken)?;
    set(&app, &token, input.new).await?;
    Ok(Status::DONE)
}

async fn ask(app: Arc<App>, _: Call<()>, link: Link) -> Result<Page> {
    let Some(token) = link.token else { return Ok(BAD_LINK) };
    let holds = app.resets.user(&token, Timestamp::now()).await;
    let text = "It needs 8 to 128 characters. When it is set, everybody who is signed in to your account is signed out, and \
                your API keys end.";
    page(holds.map(|_| form(&token, true, text)))
}

async fn submit(app: Arc<App>, _: Call<()>, input: Filled) -> Result<Page> {
    let Some(token) = input.link.token else { return Ok(BAD_LINK) };
    let Some(new) = input.new else {
        let holds = app.resets.user(&token, Timestamp::now()).await;
        let text = "That one was not set. A password needs 8 to 128 characters.";
        return page(holds.map(|_| form(&token, false, text)));
    };
    page(set(&app, &token, new).await.map(|()| DONE))
}

/// A page, also for a token that is not valid.
fn page(page: Result<Page>) -> Result<Page> {
    match page {
        Err(Error::InvalidToken) => Ok(BAD_LINK),
        page => page,
    }
}

/// The token is looked up before the costly hash; the transaction is what decides.
async fn set(app: &App, token: &Token, new: Password) -> Result<()> {
    let user = app.resets.user(token, Timestamp::now()).await?;
    let new = app.hasher.hash(new).await?;
    app.resets.reset(&user, token, &new, Timestamp::now()).await?;
    metrics::upkeep("resetting a password", app.callers.keys.delete_ended(&user).await);
    Ok(())
}
