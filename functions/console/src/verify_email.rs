//! The page that the link in an email opens. Its button confirms an email address: the one used to sign up, a new one,
//! or the old one, which undoes a change.

use std::sync::Arc;

use common::{
    accounts::{email_change::Purpose, token::Token, verification::LinkState},
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{
        Call, DeclaredError, FormValues, Public, Reply, Route,
        page::{Form, Page},
    },
    timestamp::Timestamp,
};
use maud::html;
use url::Url;

use crate::{app::App, frame::invited};

const LINK: [(&str, &str); 2] = [
    ("token", "The token from the link in the email."),
    ("callbackURL", "The URL that the browser continues to. URLs outside the trusted origins are ignored."),
];

/// Opens the link in the email. Email clients and scanners open links automatically, so this page only shows a button.
pub(crate) fn show() -> Route<App> {
    Route::get("/verify-email", Public, |_, fields| Ok(fields.typed(&LINK)), ask).summary(
        "Shows a button to verify the email address, to change it, or to undo a change; emails link to this page. Opening \
         the page changes nothing.",
    )
}

/// The page's former path. Clients of the authentication flow expect this route to verify the email address, and would
/// mistake a page's 200 for success.
pub(crate) fn show_old() -> Route<App> {
    Route::get("/api/auth/verify-email", Public, |_, fields| Ok(fields.typed(&LINK)), ask_person)
        .summary("Shows the same page to browsers. Programs are rejected, because only a person can confirm.")
        .errors(&[DeclaredError::ConfirmationRequired])
}

/// Handles the button.
pub(crate) fn submit(path: &'static str) -> Route<App> {
    Route::post(path, Public, |_, fields| Ok(fields.typed(&LINK)), confirm)
        .records(&[
            Action::EmailVerified,
            Action::EmailChanged,
            Action::EmailRestored,
            Action::SettingsChanged,
            Action::TwoFactorDisabled,
        ])
        .summary(
            "Handles the button on the verification page, which verifies or changes the email address, or undoes \
             a change. A link works once.",
        )
        .redirects()
}

/// The address to redirect to after the confirmation, if it is trusted.
fn callback<R>(call: &Call<(), R>, link: &FormValues) -> Option<Url> {
    call.trusted_url(link.get("callbackURL"))
}

async fn ask(app: Arc<App>, call: Call<()>, link: FormValues) -> Result<Page> {
    let Some(token) = Token::parse(link.get("token")) else { return Ok(bad_link()) };
    let user = match app.verifications.link(&token, Timestamp::now()).await? {
        LinkState::Valid(user) => user,
        LinkState::Used => return Ok(used_link()),
        LinkState::Invalid => return ask_about_change(&app, &token).await,
    };
    let callback = callback(&call, &link);
    let form = Form {
        button: "Confirm email address",
        hidden: &[("token", token.reveal()), ("callbackURL", callback.as_ref().map_or("", Url::as_str))],
        ..Form::default()
    };
    let content = html! {
        p {
            "If you just signed up as " strong { (user.email_to_verify()) } ", confirm your address. If not, close this page \
             and nothing will happen."
        }
        (form)
    };
    let origin = callback.as_ref().map(|url| url.origin().ascii_serialization());
    Ok(Page::new("Confirm your email address", content).redirects_to(origin))
}

async fn ask_person(app: Arc<App>, call: Call<()>, link: FormValues) -> Result<Page> {
    if call.takes_html() {
        return ask(app, call, link).await;
    }
    Err(Error::ConfirmationRequired { page: format!("{}/verify-email", call.base) })
}

async fn confirm(app: Arc<App>, call: Call<(), Recorder>, link: FormValues) -> Result<Reply> {
    let Some(token) = Token::parse(link.get("token")) else { return Ok(bad_link().into()) };
    let user = match app.verifications.verify(&call.recorder, &token, &app.organizations, Timestamp::now()).await {
        Ok(LinkState::Valid(user)) => user,
        Ok(LinkState::Used) => return Ok(used_link().into()),
        Ok(LinkState::Invalid) => return change(&app, &call, &token).await,
        Err(Error::Conflict(_)) => return Ok(taken().into()),
        Err(error) => return Err(error),
    };
    // The link has proved that the visitor owns the address, so they may see its invitations.
    let received = app.invitations.received_at(user.email_to_verify(), &app.organizations, Timestamp::now()).await?;
    let done = html! {
        (invited(&received))
        p { "You can close this page and return to the page where you signed up, or open the console." }
        p { a .button href="/console" { "Open the console" } }
    };
    Ok(match callback(&call, &link) {
        Some(url) => Reply::redirect(url),
        None => Page::new("Your email address is confirmed", done).done().into(),
    })
}

/// The page for a link that changes an account's address, or undoes a change.
async fn ask_about_change(app: &App, token: &Token) -> Result<Page> {
    let Some(link) = app.email_changes.link(token, Timestamp::now()).await? else { return Ok(bad_link()) };
    let hidden = [("token", token.reveal())];
    let form = |button| Form { button, hidden: &hidden, ..Form::default() };
    Ok(match link.purpose {
        Purpose::Change => {
            let content = html! {
                p {
                    "If you want to use " strong { (link.email) } " for your account, confirm it. All sessions except \
                     the one that requested the change will end. If you did not request it, close this page and nothing \
                     will happen."
                }
                (form("Confirm email address"))
            };
            Page::new("Confirm your new email address", content)
        }
        Purpose::Undo => {
            let content = html! {
                p {
                    "This restores the address " strong { (link.email) } ". All sessions and personal API keys end, \
                     later address changes are undone as well, and you choose a new password."
                }
                (form("Undo the change"))
            };
            Page::new("Undo the change to your email address?", content)
        }
    })
}

/// Handles that page's button.
async fn change(app: &App, call: &Call<(), Recorder>, token: &Token) -> Result<Reply> {
    let now = Timestamp::now();
    let Some(link) = app.email_changes.link(token, now).await? else { return Ok(bad_link().into()) };
    let done = match link.purpose {
        Purpose::Change => app
            .email_changes
            .change(&call.recorder, token, &app.organizations, &call.device(), &call.base, now)
            .await
            .map(|link| {
                link.map(|link| {
                    let content = html! {
                        p {
                            "Sign in with " strong { (link.email) } " from now on. For 24 hours, you can undo the "
                            "change with a link that we emailed to the old address."
                        }
                        p { a .button href="/console" { "Open the console" } }
                    };
                    Page::new("Your email address is changed", content).done().into()
                })
            }),
        Purpose::Undo => {
            match app.email_changes.undo(&call.recorder, token, &app.organizations, app.sign_ins.hasher(), now).await {
                Ok(Some(user)) => {
                    let reset = app.resets.issue(&user, now).await?;
                    let to = format!("/reset-password?token={}", reset.reveal());
                    Ok(Some(Reply::redirect(to)))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            }
        }
    };
    match done {
        Ok(reply) => Ok(reply.unwrap_or_else(|| bad_link().into())),
        Err(Error::Conflict(_)) => Ok(taken().into()),
        Err(error) => Err(error),
    }
}

/// The page for a link that was already used, for example after a reload or a second click.
fn used_link() -> Page {
    let content = html! {
        p { "This link was already used to confirm your address, and works only once." }
        p { a .button href="/console" { "Open the console" } }
    };
    Page::new("Your email address is already confirmed", content).refused(Some(Error::InvalidToken)).done()
}

/// The page for an address that another account now uses.
fn taken() -> Page {
    let content = html! {
        p { "Another account now uses this address. " a href="/signin" { "Sign in" } " with it, or choose another \
             address." }
    };
    Page::new("This address has an account", content).refused(Some(Error::InvalidToken))
}

fn bad_link() -> Page {
    let content = html! {
        p {
            "The link may be incomplete, already used, more than 24 hours old, or sent to an address that you have \
             since replaced. A link to a new address works only while you stay signed in where you requested it, and \
             not before you have set up a second factor that your organization requires."
        }
        p { a href="/console/welcome" { "Sign in and request a new link" } }
    };
    Page::new("This link is not valid", content).refused(Some(Error::InvalidToken))
}
