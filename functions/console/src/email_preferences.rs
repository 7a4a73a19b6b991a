//! The page that links in an organization's emails open. Its buttons agree to the emails or stop them, without an account.
//! Email programs that show a button of their own post to it (RFC 8058).

use std::sync::Arc;

use common::{
    accounts::{consent::Recipient, organizations::Organization},
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{
        Call, FormValues, Public, Route,
        page::{Form, Page, visible},
    },
    timestamp::Timestamp,
};
use maud::{Markup, html};
use text::unlinked;

use crate::app::App;

const PATH: &str = "/email-preferences/{token}";

const TOKEN: (&str, &str) = ("token", "The token from the link in the email.");
/// The action of the button that agrees. Every other submission stops the emails: email programs send
/// `List-Unsubscribe=One-Click`, some as `multipart/form-data`, which is not read.
const AGREE: &str = "agree";
const STOP: &str = "stop";

pub(crate) fn show() -> Route<App> {
    Route::get(PATH, Public, |_, fields| Ok(fields.typed(&[TOKEN])), ask).summary(
        "Shows the buttons to agree to an organization's emails, or to stop them; these emails link to this page. Opening \
         the page changes nothing.",
    )
}

pub(crate) fn submit() -> Route<App> {
    const FIELDS: [(&str, &str); 2] =
        [TOKEN, ("action", "`agree` agrees to the emails. Any other value, or none, stops them.")];
    Route::post(PATH, Public, |_, fields| Ok(fields.typed(&FIELDS)), answer)
        .records(&[Action::SettingsChanged])
        .summary(
            "Handles the buttons on the page for an organization's emails, and the one-click unsubscribe of email programs \
             (RFC 8058). Repeating a call changes nothing.",
        )
}

/// Finds the recipient and the organization of the email with this link.
async fn find(app: &App, link: &FormValues) -> Result<Option<(Recipient, Organization)>> {
    let found = app.consents.recipient(link.get("token"), Timestamp::now()).await?;
    let Some(recipient) = found else { return Ok(None) };
    let organization = app.organizations.find(&recipient.organization).await?;
    Ok(organization.map(|organization| (recipient, organization)))
}

async fn ask(app: Arc<App>, _: Call<()>, link: FormValues) -> Result<Page> {
    let Some((recipient, organization)) = find(&app, &link).await? else { return Ok(bad_link()) };
    let answer = app.consents.answer(&recipient.organization, &recipient.address).await?;
    let names = names(&recipient, &organization);
    let content = html! {
        @match answer {
            Some(false) => {
                p { "Emails of " (names) " are stopped." }
                (button(AGREE, "Receive emails again", false))
            },
            Some(true) => {
                p { "Emails of " (names) " contain details, because you agreed." }
                (button(STOP, "Stop all emails", true))
            },
            None => {
                p {
                    "Owners of " (named(&organization)) " may send emails to "
                    strong { (visible(recipient.address.as_str())) }
                    " about failures of endpoints and jobs, and invitations. If you agree, the emails contain details, such \
                     as a job's error."
                }
                (button(AGREE, "Receive emails with details", false))
                (button(STOP, "Stop all emails", true))
            },
        }
    };
    Ok(Page::new("Choose emails", content))
}

async fn answer(app: Arc<App>, call: Call<(), Recorder>, form: FormValues) -> Result<Page> {
    let Some((recipient, organization)) = find(&app, &form).await? else { return Ok(bad_link()) };
    let agrees = form.get("action") == AGREE;
    app.consents.set(&call.recorder, &recipient, &organization, agrees, Timestamp::now()).await?;
    let names = names(&recipient, &organization);
    let content = html! {
        @if agrees {
            p { "Emails of " (names) " contain details from now on. Each one has a link to stop them." }
            (button(STOP, "Stop all emails", true))
        } @else {
            p { "No more emails of " (names) " are sent. Its owners see that you stopped them." }
            (button(AGREE, "Receive emails again", true))
        }
    };
    Ok(Page::new(if agrees { "You receive emails" } else { "Emails are stopped" }, content).done())
}

/// The organization and the address.
fn names(recipient: &Recipient, organization: &Organization) -> Markup {
    html! { (named(organization)) " to " strong { (visible(recipient.address.as_str())) } }
}

/// The organization. A stranger may have chosen its name.
fn named(organization: &Organization) -> Markup {
    html! { "the organization " strong { (visible(&unlinked(organization.name.as_str()))) } }
}

fn button(action: &str, label: &str, is_secondary: bool) -> Markup {
    html! { (Form { action, button: label, is_secondary, ..Form::default() }) }
}

fn bad_link() -> Page {
    let content = html! {
        p {
            "The link may be incomplete or more than a year old, or the organization was deleted. Use the link in the \
             latest email."
        }
    };
    Page::new("This link is not valid", content).refused(Some(Error::InvalidToken))
}
