//! The page that the link in an invitation email opens, with the form that accepts the invitation.

use std::sync::Arc;

use common::{
    error::{Conflict, Error, Result},
    http::{
        Call, Fault, Reason, Reply, Route, SignedIn, Typed, Visitor,
        cookies::session_cookie,
        page::{Field, Form, Page, facts, warning},
    },
    id::InvitationId,
    name::{Name, Slug},
    presentation::sign_up,
    timestamp::Timestamp,
};
use maud::html;

use crate::{app::App, frame::role_name};

const LINK: [(&str, &str); 3] = [
    ("tenantSlug", "The slug of the organization, from the link in the email."),
    ("invitationId", "The id of the invitation, from the link in the email."),
    ("token", "The token from the link in the email, which proves access to the mailbox."),
];

/// The fields of the form.
const FIELDS: [(&str, &str); 5] = [
    ("tenantSlug", "The slug of the organization, from the link in the email."),
    ("invitationId", "The id of the invitation, from the link in the email."),
    ("token", "The token from the link in the email, which proves access to the mailbox."),
    ("name", "The name of the user."),
    ("password", "The password of the user."),
];

/// The link in the email. Command-line clients print the same link with `accept=1`, which has no effect.
pub(crate) fn show() -> Route<App> {
    Route::get("/invite", Visitor, |_, fields| Ok(fields.typed(&LINK)), open).summary(
        "Shows the form to accept an invitation; the invitation email links to this page. Opening the page changes \
         nothing.",
    )
}

pub(crate) fn submit() -> Route<App> {
    Route::post("/invite", Visitor, |_, fields| Ok(fields.typed(&FIELDS)), accept)
        .summary(
            "Handles the form of the invitation page: creates the account, as `acceptInviteAndSignup` does, and signs \
             the user in.",
        )
        .faults(&[Fault::Conflict(Reason::EmailTaken)])
        .redirects()
}

async fn open(app: Arc<App>, call: Call<Option<SignedIn>>, link: Typed) -> Result<Page> {
    page(&app, call.caller.as_ref(), &link, None).await
}

async fn accept(app: Arc<App>, call: Call<Option<SignedIn>>, form: Typed) -> Result<Reply> {
    let joined = async {
        let invitee = form.read(sign_up::invitee)?;
        app.invitations.join(invitee, call.device(), &app.hasher).await
    };
    match joined.await {
        Ok(new) => {
            new.welcome(&app.attempts, &app.mailer, &call.base, Timestamp::now()).await;
            let to = if new.user.email_verified { "/console" } else { "/console/welcome" };
            let cookies = vec![session_cookie(&call.base, &new.session_token)];
            Ok(Reply::Redirect { to: to.to_owned(), cookies })
        }
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(page(&app, call.caller.as_ref(), &form, Some(error)).await?.into()),
    }
}

/// The page with the form, if the invitation can be accepted. It reveals no more than the email and the API.
async fn page(app: &App, visitor: Option<&SignedIn>, link: &Typed, error: Option<Error>) -> Result<Page> {
    let (slug, id) = (Slug::parse(link.get("tenantSlug")), InvitationId::parse(link.get("invitationId")));
    let (Ok(slug), Ok(id)) = (slug, id) else { return Ok(no_invitation()) };
    let invitation = match app.invitations.pending(id, &slug, Timestamp::now()).await {
        Ok(invitation) => invitation,
        Err(Error::NotFound(_) | Error::Conflict(Conflict::InvitationUsed | Conflict::InvitationExpired)) => {
            return Ok(no_invitation());
        }
        Err(error) => return Err(error),
    };
    let organization = app.organizations.get(&invitation.organization).await?;
    let names = app.users.names(&invitation.organization, [invitation.inviter]).await?;
    let inviter = names.get(&invitation.inviter).map_or("A former member", Name::as_str);
    let (id, email) = (id.to_string(), invitation.email.to_string());
    let form = Form {
        button: "Create account and join",
        is_secondary: false,
        hidden: &[("tenantSlug", slug.as_str()), ("invitationId", &id), ("token", link.get("token"))],
        fields: &[
            Field::text("name", "Your name", "name", link.get("name")),
            Field::new_password("password", "Password"),
        ],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        p { "Create an account to join this organization." }
        (facts(&[
            ("Organization", organization.name.as_str()),
            ("Invited by", inviter),
            ("Your role", role_name(invitation.role)),
            ("Your email", &email),
        ]))
        @if let Some(visitor) = visitor {
            (warning(html! {
                p {
                    "In this browser, " strong { (visitor.user.email) } " is signed in. The invitation is for another \
                     address: joining creates a new account and signs you in with it."
                }
            }))
        }
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
