//! The page that the link in an invitation email opens, with the form that accepts the invitation.

use std::sync::Arc;

use common::{
    error::{Conflict, Error, Result},
    http::{
        Call, Fault, Public, Reason, Reply, Route, Typed,
        cookies::session_cookie,
        page::{Field, Form, Page, facts},
    },
    id::InvitationId,
    name::Slug,
    presentation::sign_up,
    timestamp::Timestamp,
};
use maud::html;

use crate::app::App;

const LINK: [(&str, &str); 2] = [
    ("tenantSlug", "The slug of the organization, from the link in the email."),
    ("invitationId", "The id of the invitation, from the link in the email."),
];

/// The fields of the form.
const FIELDS: [(&str, &str); 4] = [
    ("tenantSlug", "The slug of the organization, from the link in the email."),
    ("invitationId", "The id of the invitation, from the link in the email."),
    ("name", "The name of the user."),
    ("password", "The password of the user."),
];

/// The link in the email. Command-line clients print the same link with `accept=1`, which has no effect.
pub(crate) fn show() -> Route<App> {
    Route::get("/invite", Public, |_, fields| Ok(fields.typed(&LINK)), open).summary(
        "Shows the form to accept an invitation; the invitation email links to this page. Opening the page changes \
         nothing.",
    )
}

pub(crate) fn submit() -> Route<App> {
    Route::post("/invite", Public, |_, fields| Ok(fields.typed(&FIELDS)), accept)
        .summary(
            "Handles the form of the invitation page: creates the account, as `acceptInviteAndSignup` does, and signs \
             the user in.",
        )
        .faults(&[Fault::Conflict(Reason::EmailTaken)])
        .redirects()
}

async fn open(app: Arc<App>, _: Call<()>, link: Typed) -> Result<Page> {
    page(&app, (link.get("tenantSlug"), link.get("invitationId")), "", None).await
}

async fn accept(app: Arc<App>, call: Call<()>, form: Typed) -> Result<Reply> {
    let joined = async {
        let invitee = form.read(sign_up::invitee)?;
        app.invitations.join(invitee, call.device(), &app.hasher).await
    };
    match joined.await {
        Ok(new) => {
            new.welcome(&app.attempts, &app.mailer, &call.base, Timestamp::now()).await;
            let cookies = vec![session_cookie(&call.base, &new.session_token)];
            Ok(Reply::Redirect { to: "/console/welcome".to_owned(), cookies })
        }
        Err(error) if error.is_ours() => Err(error),
        Err(error) => {
            let link = (form.get("tenantSlug"), form.get("invitationId"));
            Ok(page(&app, link, form.get("name"), Some(error)).await?.into())
        }
    }
}

/// The page with the form, if the invitation can be accepted. It reveals no more than the email and the API.
async fn page(app: &App, (slug, id): (&str, &str), name: &str, error: Option<Error>) -> Result<Page> {
    let (Ok(slug), Ok(id)) = (Slug::parse(slug), InvitationId::parse(id)) else { return Ok(no_invitation()) };
    let invitation = match app.invitations.pending(id, &slug, Timestamp::now()).await {
        Ok(invitation) => invitation,
        Err(Error::NotFound(_) | Error::Conflict(Conflict::InvitationUsed | Conflict::InvitationExpired)) => {
            return Ok(no_invitation());
        }
        Err(error) => return Err(error),
    };
    let organization = app.organizations.get(&invitation.organization).await?;
    let id = id.to_string();
    let form = Form {
        button: "Create account and join",
        is_secondary: false,
        hidden: &[("tenantSlug", slug.as_str()), ("invitationId", &id)],
        fields: &[Field::text("name", "Your name", "name", name), Field::new_password("password", "Password")],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        p { "Create an account to join this organization." }
        (facts(&[("Organization", organization.name.as_str()), ("Your email", &invitation.email.to_string())]))
        (form)
    };
    Ok(Page::new("You are invited", content).refused(error))
}

fn no_invitation() -> Page {
    let content = html! {
        p { "It may have expired, been accepted or canceled, or been replaced. Ask for a new invitation." }
        p { "If you already accepted it, " a href="/signin" { "sign in" } "." }
    };
    Page::new("This invitation is not valid", content).refused(Some(Error::InvalidToken))
}
