//! The pages that reset a forgotten password: the request for the email, and the page that its link opens.

use std::sync::Arc;

use common::{
    accounts::{api_keys::KeyRecord, email::EmailAddress, password::Password, token::Token, users::User},
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{
        Call, DeclaredError, FormValues, Public, Route,
        page::{Field, Form, Page, visible, warning},
    },
    timestamp::Timestamp,
};
use maud::html;

use crate::app::App;

const TOKEN: (&str, &str) = ("token", "The token from the link in the email.");

const FIELDS: [(&str, &str); 3] = [
    TOKEN,
    ("newPassword", "The new password, from the form that the link opens."),
    ("email", "The address to send the reset email to, from the form that requests it."),
];

/// Opens the link in the email and shows the form for a new password. Without a token, shows the form that requests the
/// email.
pub(crate) fn show() -> Route<App> {
    Route::get("/reset-password", Public, |_, fields| Ok(fields.typed(&[TOKEN])), get_page).summary(
        "Shows the form to set a new password; the password reset email links to this page. Without a token, the page \
         shows a form to request the email.",
    )
}

pub(crate) fn submit() -> Route<App> {
    Route::post("/reset-password", Public, |_, fields| Ok(fields.typed(&FIELDS)), fill_in)
        .records(&[Action::PasswordReset, Action::SettingsChanged, Action::TwoFactorDisabled])
        .summary(
            "Handles the forms on the password reset page, with the same effect as the API calls: sending the email, \
             and setting a new password.",
        )
        .errors(&[DeclaredError::TooMany])
}

async fn get_page(app: Arc<App>, _: Call<()>, link: FormValues) -> Result<Page> {
    if !link.has("token") {
        return Ok(ask(&link, None));
    }
    match holder(&app, &link).await {
        Ok((_, token)) => Ok(choose(&token, None)),
        Err(error) => bad_link(error),
    }
}

async fn fill_in(app: Arc<App>, call: Call<(), Recorder>, form: FormValues) -> Result<Page> {
    if !form.has("token") {
        return request(&app, &call, &form).await;
    }
    let (user, token) = match holder(&app, &form).await {
        Ok(holder) => holder,
        Err(error) => return bad_link(error),
    };
    let new = match form.read(|fields| fields.text("newPassword", Password::parse)) {
        Ok(new) => new,
        Err(error) => return Ok(choose(&token, Some(error))),
    };
    let new = app.sign_ins.hasher().hash(new).await?;
    match app.resets.reset(&call.recorder, &user, &token, &new, &app.keys, &app.organizations, &call.base).await {
        Ok(kept) => Ok(changed(&kept)),
        Err(error) => bad_link(error),
    }
}

async fn request(app: &App, call: &Call<(), Recorder>, form: &FormValues) -> Result<Page> {
    let requested = async {
        let email = form.read(|fields| fields.text("email", EmailAddress::parse))?;
        app.resets.request(&email, call.client, &call.base, Timestamp::now()).await
    };
    match requested.await {
        Ok(()) => Ok(sent(form.get("email"))),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(ask(form, Some(error))),
    }
}

/// Returns the user whose password the link resets, and the link's token.
async fn holder(app: &App, link: &FormValues) -> Result<(User, Token)> {
    let token = Token::parse(link.get("token")).ok_or(Error::InvalidToken)?;
    Ok((app.resets.user(&token, Timestamp::now()).await?, token))
}

fn ask(form: &FormValues, error: Option<Error>) -> Page {
    let form = Form {
        button: "Send reset link",
        fields: &[Field::email("email", "Email", "username", form.get("email"))],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        p { "We will email you a link to choose a new password." }
        (form)
    };
    Page::new("Reset your password", content).refused(error)
}

/// The page after a request. It is the same for an address without an account.
fn sent(address: &str) -> Page {
    let content = html! {
        p {
            "If " strong { (visible(address.trim())) } " has an account, we sent it a link. The link works once and expires \
             in 1 hour."
        }
        p { a href="/reset-password" { "Use another address" } " or " a href="/signin" { "go back to the sign-in" } "." }
    };
    Page::new("Check your email", content).done()
}

fn choose(token: &Token, error: Option<Error>) -> Page {
    let form = Form {
        button: "Set new password",
        hidden: &[("token", token.reveal())],
        fields: &[Field::new_password("newPassword", "New password")],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        p { "Setting a new password ends all your sessions, and your personal API keys stop working." }
        (form)
    };
    Page::new("Choose a new password", content).refused(error)
}

/// The page after a reset, with the organization's keys that the user created, which still work.
fn changed(kept: &[KeyRecord]) -> Page {
    let content = html! {
        p { "All sessions of your account have ended, and your personal API keys no longer work." }
        @if !kept.is_empty() {
            (warning(html! {
                p {
                    "These API keys belong to your organization, were created with your account and still work. Sign in "
                    "and delete those that you do not recognize:"
                }
                ul { @for key in kept { li { (visible(key.name.as_str())) " (" (key.start) "…)" } } }
            }))
        }
        p { a href="/signin" { "Sign in with the new password" } }
    };
    Page::new("Password changed", content).done()
}

/// The page for an invalid link. Returns other errors.
fn bad_link(error: Error) -> Result<Page> {
    let Error::InvalidToken = error else { return Err(error) };
    let content = html! {
        p {
            "The link may be incomplete, more than 1 hour old, or already used, or you may have reset your password \
             with another link."
        }
        p { a href="/reset-password" { "Request a new link" } }
    };
    Ok(Page::new("This link is not valid", content).refused(Some(error)))
}
