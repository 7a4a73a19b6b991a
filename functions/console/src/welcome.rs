//! The page after a sign-up, until the email address is confirmed. Pages that require a confirmed address redirect
//! here. The page works even if the user lacks a required second factor, because setting one up requires a confirmed
//! address.

use std::sync::Arc;

use common::{
    accounts::{
        email::EmailAddress,
        users::{Role, User},
    },
    audit::{Action, Recorder},
    error::Result,
    http::{
        Call, DID, DeclaredError, FormValues, Person, Reply, Route, SignedIn,
        page::{Field, Form, Page},
    },
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::{
    account,
    app::App,
    frame::{FormRequest, NO_FORM, redirect_to, sign_out},
};

const HERE: &str = "/console/welcome";

/// The notice for a visitor who tries to continue without a confirmed address.
const UNCONFIRMED: &str = "unconfirmed";

const DONE: [(&str, &str); 2] = [
    ("mailed", "Email sent. Its link works for 24 hours."),
    ("replaced", "Email sent to the new address. Links sent to the earlier address no longer work."),
];

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 2] = [
    ("action", "The submitted form: `verify` or `replace`."),
    ("email", "`replace`: the address that replaces the unconfirmed one."),
];

/// The action of the form for entering a different address.
const REPLACE: &str = "replace";

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID])), get_page)
        .before_two_factor()
        .summary(
            "Shows where the confirmation email was sent, or redirects to the console if the address is confirmed.",
        )
        .redirects()
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, Person, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .before_two_factor()
        .records(&[Action::EmailRequested])
        .summary(
            "Handles the forms on the welcome page: sends the confirmation email again, or to another address. Another \
             address replaces the original one once it is confirmed. The response does not reveal whether that address \
             has an account.",
        )
        .errors(&[DeclaredError::NotFound, DeclaredError::TooMany])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<SignedIn>, link: FormValues) -> Result<Reply> {
    let is_early = link.get("did") == UNCONFIRMED;
    Ok(page(&app, &call.caller.user, is_early, FormRequest::link(link)))
}

async fn post_form(app: Arc<App>, call: Call<SignedIn, Recorder>, form: FormValues) -> Result<Reply> {
    let done = match form.get("action") {
        "verify" => account::verify(&app, &call, HERE).await,
        REPLACE => replace(&app, &call, &form).await,
        _ => Err(NO_FORM),
    };
    let Err(error) = done else { return done };
    Ok(page(&app, &call.caller.user, false, FormRequest::refused(form, error)?))
}

/// Sends the confirmation email to a different address. The response and its timing are the same whether or not that
/// address has an account.
async fn replace(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    let email = form.read(|fields| fields.text("email", EmailAddress::parse))?;
    if user.email_verified || !user.chose_email {
        return Ok(redirect_to(HERE, "confirmed"));
    }
    app.email_changes.request(&call.recorder, user, &call.caller.session, &email, &call.base, now).await?;
    Ok(redirect_to(HERE, "replaced"))
}

fn page(app: &App, user: &User, is_early: bool, sent: FormRequest) -> Reply {
    if user.email_verified {
        return Reply::redirect("/console");
    }
    let to = user.email_to_verify();
    let content = html! {
        (sent.news(&DONE, &[REPLACE]))
        @if is_early {
            div .notice.bad role="status" { p { "Your address is not confirmed yet. Open the link in the email first." } }
        }
        p { "Your account has been created, and you are signed in. We sent a link to " strong { (to) } "." }
        p {
            "Open it to confirm your address. After that, you can add endpoints"
            @if user.role == Role::Owner { ", create API keys and invite teammates." } @else { " and create API keys." }
        }
        @if *to != user.email { p { "Until then, sign in with " strong { (user.email) } "." } }
        p { a .button href={ "?did=" (UNCONFIRMED) } { "Continue after confirming" } }
        h2 { "No email?" }
        p { "If the email has not arrived after a few minutes, check your spam folder or have it sent again:" }
        (Form { action: "verify", button: "Resend confirmation email", is_secondary: true, ..Form::default() })
        details open[sent.error(REPLACE).is_some()] {
            summary { "Wrong address?" }
            @if user.chose_email { (replace_form(&sent)) }
            @else { p { "Ask the person who invited you to send an invitation to the correct address." } }
        }
        p { a href=(app.docs.as_str()) { "Documentation" } }
        (sign_out())
    };
    Page::new("Confirm your email address", content).refused(sent.refused).into()
}

fn replace_form(sent: &FormRequest) -> Markup {
    let fields = [Field::email("email", "Email", "email", sent.typed(REPLACE, "email"))];
    Form { is_secondary: true, ..sent.form(REPLACE, "Change address", &fields) }.render()
}
