//! The page after a sign-up, until the email address is confirmed. Pages that need a confirmed address lead here.

use std::sync::Arc;

use common::{
    accounts::users::User,
    error::Result,
    http::{
        Call, DID, Fault, Person, Reply, Route, SignedIn, Typed,
        page::{Form, Page},
    },
};
use maud::html;

use crate::{
    account,
    app::App,
    frame::{NO_FORM, Sent},
};

const HERE: &str = "/console/welcome";

const DONE: [(&str, &str); 1] =
    [("mailed", "Email sent. Its link works for 24 hours, and earlier links no longer work.")];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID])), open)
        .summary(
            "Shows where the confirmation email was sent. If the address is confirmed, it redirects to the console.",
        )
        .redirects()
}

pub(crate) fn submit() -> Route<App> {
    let fields =
        |_: &App, fields: &mut common::http::Fields| Ok(fields.typed(&[("action", "The submitted form: `verify`.")]));
    Route::post(HERE, Person, fields, act)
        .summary("Handles the button of the welcome page, which sends the confirmation email again.")
        .faults(&[Fault::NotFound, Fault::TooMany])
        .redirects()
}

async fn open(_: Arc<App>, call: Call<SignedIn>, link: Typed) -> Result<Reply> {
    Ok(page(&call.caller.user, Sent::link(link)))
}

async fn act(app: Arc<App>, call: Call<SignedIn>, form: Typed) -> Result<Reply> {
    if form.get("action") != "verify" {
        return Err(NO_FORM);
    }
    match account::verify(&app, &call, HERE).await {
        Ok(reply) => Ok(reply),
        Err(error) => Ok(page(&call.caller.user, Sent::refused(form, error)?)),
    }
}

fn page(user: &User, sent: Sent) -> Reply {
    if user.email_verified {
        return Reply::Redirect { to: "/console".to_owned(), cookies: Vec::new() };
    }
    let content = html! {
        (sent.news(&DONE, &[]))
        p { "Your account is created, and you are signed in. We sent a link to " strong { (user.email) } "." }
        p { "Open it to confirm your address. After that, you can add endpoints, create API keys and invite teammates." }
        p { "If it has not arrived after a few minutes, look into the spam folder, or:" }
        (Form { button: "Resend confirmation email", is_secondary: true, hidden: &[("action", "verify")], ..Form::default() })
        details {
            summary { "Wrong address?" }
            p {
                a href="/console/account" { "Delete this account" } " with your password. Then sign up again with the right \
                 address."
            }
        }
        p { "Confirmed? " a href="/console" { "Open the console" } }
    };
    Page::new("Confirm your email address", content).refused(sent.refused).into()
}
