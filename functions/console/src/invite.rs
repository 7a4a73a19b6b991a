//! The page that the link in an invitation email opens. People accept by creating an account; if the invited address
//! already has one, that account moves to the organization.

use std::sync::Arc;

use common::{
    accounts::{
        invitations::{Invitation, PendingInvitation},
        organizations::Organization,
        token::Token,
        users::User,
    },
    audit::{Action, Recorder},
    error::{Conflict, Error, Result},
    http::{
        Call, DeclaredError, FormValues, Reason, Reply, Route, SignedIn, Visitor,
        cookies::session_cookie,
        page::{Field, Form, Page, TICKED, facts, visible, warning},
    },
    id::InvitationId,
    name::{Name, Slug},
    presentation::sign_up,
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};
use text::unlinked;
use url::form_urlencoded;

use crate::{
    app::App,
    frame::{redirect_to, role_name, sign_out, tick},
};

const LINK: [(&str, &str); 3] = [
    ("tenantSlug", "The organization's slug, from the link in the email."),
    ("invitationId", "The id of the invitation, from the link in the email."),
    ("token", "The token from the link in the email, which proves access to the mailbox."),
];

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 10] = [
    ("action", "The submitted form: `sign-up` (the default), `join` or `decline`."),
    ("tenantSlug", "The organization's slug, from the link in the email."),
    ("invitationId", "The id of the invitation, from the link in the email."),
    ("token", "The token from the link in the email, which proves access to the mailbox."),
    ("name", "`sign-up`: the name of the user."),
    ("password", "`sign-up`: the password of the user."),
    (
        "leaves",
        "`join`: the id of the organization shown on the page, which the user leaves. If the user has joined another one \
         since, the page is shown again.",
    ),
    (
        "deleteOrganization",
        "`join`: `yes` from the checkbox that deletes the organization when its last member leaves.",
    ),
    ("step", "`join`: `confirm` from the second page, which asks again before an organization is deleted."),
    ("sure", "`join`: `yes` from the checkbox that confirms the move."),
];

/// The checkbox that permits deleting the organization that the user is leaving.
const DELETES: &str = "deleteOrganization";

/// Opens the link in the email. Command-line clients print the same link with `accept=1`, which has no effect.
pub(crate) fn show() -> Route<App> {
    Route::get("/invite", Visitor, |_, fields| Ok(fields.typed(&LINK)), get_page)
        .summary(
            "Shows the form to accept an invitation; the invitation email links to this page. Opening the page changes \
         nothing.",
        )
        .redirects()
}

pub(crate) fn submit() -> Route<App> {
    Route::post("/invite", Visitor, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .records(&[
            Action::MemberJoined,
            Action::MemberLeft,
            Action::OrganizationDeleted,
            Action::InvitationRejected,
            Action::SessionCreated,
        ])
        .summary(
            "Handles the forms on the invitation page: creates the account, moves it, or declines, as \
             `acceptInviteAndSignup`, `accept-invitation` and `reject-invitation` do.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::NotTheRecipient,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::EmailTaken),
            DeclaredError::Conflict(Reason::InvitationUsed),
            DeclaredError::Conflict(Reason::LastOwner),
            DeclaredError::Conflict(Reason::LastMember),
            DeclaredError::Conflict(Reason::OrganizationChanged),
        ])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<Option<SignedIn>>, link: FormValues) -> Result<Page> {
    page(&app, call.caller.as_ref(), &link, None).await
}

async fn post_form(app: Arc<App>, call: Call<Option<SignedIn>, Recorder>, form: FormValues) -> Result<Reply> {
    let done = match (form.get("action"), &call.caller) {
        ("join", Some(visitor)) => join(&app, &call, &visitor.user, &form).await,
        ("decline", Some(visitor)) => decline(&app, &call.recorder, &visitor.user, &form).await,
        // The session ended after the page was opened.
        ("join" | "decline", None) => Ok(page(&app, None, &form, None).await?.into()),
        _ => sign_up(&app, &call, &form).await,
    };
    match done {
        Ok(reply) => Ok(reply),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(page(&app, call.caller.as_ref(), &form, Some(error)).await?.into()),
    }
}

async fn sign_up(app: &App, call: &Call<Option<SignedIn>, Recorder>, form: &FormValues) -> Result<Reply> {
    let invitee = form.read(sign_up::invitee)?;
    let new = app.invitations.join(&call.recorder, invitee, call.device(), app.sign_ins.hasher()).await?;
    new.welcome(&app.rate_limits, &app.mailer, &call.base, Timestamp::now()).await;
    let to = if new.user.email_verified { "/console" } else { "/console/welcome" };
    Ok(Reply::Redirect { to: to.to_owned(), cookies: vec![session_cookie(&call.base, &new.session_token)] })
}

/// Moves the account of `user`. If this deletes their organization, a second page asks for confirmation.
async fn join(app: &App, call: &Call<Option<SignedIn>, Recorder>, user: &User, form: &FormValues) -> Result<Reply> {
    let from = app.organizations.get(&user.organization).await?;
    if from.slug.as_str() == form.get("tenantSlug") {
        // The form was submitted twice, and the first submission moved the account.
        return Ok(redirect_to("/console/team", "joined"));
    }
    if from.id.as_str() != form.get("leaves") {
        return Ok(page(app, call.caller.as_ref(), form, None).await?.into());
    }
    let may_end = match app.members.check_leaves(user).await {
        Ok(()) => false,
        Err(Error::Conflict(Conflict::LastMember)) => true,
        Err(error) => return Err(error),
    };
    if may_end {
        form.read(|fields| fields.text(DELETES, tick))?;
    }
    let sure = form.read(|fields| fields.text("sure", tick));
    match sure {
        Err(_) if may_end && form.get("step") != "confirm" => return Ok(confirm(app, user, form, None).await?.into()),
        Err(error) if may_end => return Ok(confirm(app, user, form, Some(error)).await?.into()),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let id = form.read(|fields| fields.text("invitationId", InvitationId::parse))?;
    app.moving.accept(&call.recorder, user, id, may_end, &call.device(), &call.base, Timestamp::now()).await?;
    Ok(redirect_to("/console/team", "joined"))
}

async fn decline(app: &App, recorder: &Recorder, user: &User, form: &FormValues) -> Result<Reply> {
    let id = form.read(|fields| fields.text("invitationId", InvitationId::parse))?;
    app.invitations.reject(recorder, user, id).await?;
    let content = html! {
        p { "The invitation can no longer be accepted. You stay in your organization." }
        p { a .button href="/console" { "Open the console" } }
    };
    Ok(Page::new("Invitation declined", content).done().into())
}

/// Finds the invitation that a link or form names, with its organization, if it can be accepted.
async fn find(app: &App, link: &FormValues) -> Result<Option<(PendingInvitation, Organization)>> {
    let (slug, id) = (Slug::parse(link.get("tenantSlug")), InvitationId::parse(link.get("invitationId")));
    let (Ok(slug), Ok(id)) = (slug, id) else { return Ok(None) };
    let pending = match app.invitations.pending(id, &slug, Timestamp::now()).await {
        Ok(pending) => pending,
        Err(Error::NotFound(_) | Error::Conflict(Conflict::InvitationUsed | Conflict::InvitationExpired)) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let organization = app.organizations.find(&pending.invitation.organization).await?;
    Ok(organization.map(|organization| (pending, organization)))
}

/// The page with the forms, if the invitation can be accepted. The page reveals no more than the email and the API do:
/// only a visitor with the link's token learns whether the address has an account.
async fn page(app: &App, visitor: Option<&SignedIn>, link: &FormValues, error: Option<Error>) -> Result<Page> {
    let Some((pending, organization)) = find(app, link).await? else { return Ok(no_invitation()) };
    let invitation = &pending.invitation;
    let names = app.users.names(&invitation.organization, [invitation.inviter]).await?;
    let inviter = names.get(&invitation.inviter).map_or("A former member", Name::as_str);
    let email = invitation.email.to_string();
    // Strangers may have chosen both names.
    let about = facts(&[
        ("Organization", &unlinked(organization.name.as_str())),
        ("Invited by", &unlinked(inviter)),
        ("Your role", role_name(invitation.role)),
        ("Your email", &email),
    ]);
    let content = match visitor {
        Some(SignedIn { user, .. }) if user.email == invitation.email => {
            let forms = recipient(app, user, invitation, &organization, error.as_ref()).await?;
            html! { (about) (forms) }
        }
        Some(visitor) => html! {
            p { "Create an account to join this organization." }
            (about)
            (another_account(&visitor.user, &organization.slug, invitation.id))
            (sign_up_form(link, &organization.slug, invitation.id, error.as_ref()))
        },
        None => {
            let token = Token::parse(link.get("token"));
            let has_account = pending.is_proven_by(token.as_ref()) && app.users.has_account(&invitation.email).await?;
            let sign_in = sign_in_address(&organization.slug, invitation.id);
            html! {
                @if has_account {
                    p { "You have an account with this address. Sign in to accept the invitation." }
                    (about)
                    p { a .button href=(sign_in) { "Sign in" } }
                } @else {
                    p { "Create an account to join this organization." }
                    (about)
                    (sign_up_form(link, &organization.slug, invitation.id, error.as_ref()))
                    p { "Already have an account with this address? " a href=(sign_in) { "Sign in" } }
                }
            }
        }
    };
    Ok(Page::new("You are invited", content).refused(error))
}

fn sign_up_form(link: &FormValues, slug: &Slug, id: InvitationId, error: Option<&Error>) -> Markup {
    let id = id.to_string();
    Form {
        button: "Create account and join",
        hidden: &[("tenantSlug", slug.as_str()), ("invitationId", &id), ("token", link.get("token"))],
        fields: &[
            Field::text("name", "Your name", "name", link.get("name")),
            Field::new_password("password", "Password"),
        ],
        error,
        ..Form::default()
    }
    .render()
}

/// Returns this page's address without the token, which a signed-in user does not need.
fn address(slug: &Slug, id: InvitationId) -> String {
    format!("/invite?tenantSlug={slug}&invitationId={id}")
}

fn sign_in_address(slug: &Slug, id: InvitationId) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix("/signin?".to_owned(), "/signin?".len());
    query.append_pair("next", &address(slug, id));
    query.finish()
}

fn another_account(user: &User, slug: &Slug, id: InvitationId) -> Markup {
    let next = address(slug, id);
    html! {
        (warning(html! {
            p {
                "In this browser, " strong { (user.email) } " is signed in, but the invitation is for another address. "
                "If that address has an account, sign out and sign in to that account. Otherwise, create one below, "
                "which also signs you in to it."
            }
        }))
        (Form { hidden: &[("next", &next)], ..sign_out() })
    }
}

/// The forms for the account that has the invited address.
async fn recipient(
    app: &App,
    user: &User,
    invitation: &Invitation,
    to: &Organization,
    error: Option<&Error>,
) -> Result<Markup> {
    if user.organization == to.id {
        return Ok(html! {
            p { "You are already a member of this organization." }
            p { a .button href="/console" { "Open the console" } }
        });
    }
    if !user.email_verified {
        return Ok(html! {
            (warning(html! { p { "Confirm your email address first, then open this page again." } }))
            p { a .button href="/console/welcome" { "Confirm email address" } }
        });
    }
    let from = app.organizations.get(&user.organization).await?;
    let names = (visible(from.name.as_str()), visible(to.name.as_str()));
    let consequences = match app.members.check_leaves(user).await {
        Ok(()) => html! {
            p {
                "An account belongs to one organization, so joining means leaving " strong { (names.0) } ". Its \
                 endpoints and deliveries stay there. Your personal API keys stop working, and you stay signed in."
            }
            (join_form(&from, to, invitation.id, false, error))
        },
        Err(Error::Conflict(Conflict::LastMember)) => html! {
            (warning(html! {
                p {
                    strong { "You are the only member of " (names.0) ", so joining deletes it. " }
                    "Its endpoints, deliveries, API keys, settings and invitations are lost permanently. To keep it, make \
                     another person an owner first: " a href="/console/team" { "Invite a teammate" } "."
                }
            }))
            (join_form(&from, to, invitation.id, true, error))
        },
        Err(Error::Conflict(Conflict::LastOwner)) => html! {
            (warning(html! {
                p {
                    "You are the only owner of " strong { (names.0) } ", which has other members. Before you can join, make \
                     another member an owner: " a href="/console/team" { "View team" } "."
                }
            }))
        },
        Err(error) => return Err(error),
    };
    let id = invitation.id.to_string();
    let decline = Form {
        action: "decline",
        button: "Decline invitation",
        is_secondary: true,
        hidden: &[("tenantSlug", to.slug.as_str()), ("invitationId", &id)],
        ..Form::default()
    };
    Ok(html! { (consequences) (decline) })
}

fn join_form(
    from: &Organization,
    to: &Organization,
    id: InvitationId,
    is_deletion: bool,
    error: Option<&Error>,
) -> Markup {
    let (verb, tick) = match is_deletion {
        true => ("Delete", Field::tick(DELETES, "Delete my current organization")),
        false => ("Leave", Field::tick("sure", "Leave my current organization")),
    };
    let (id, names) = (id.to_string(), (visible(from.name.as_str()), visible(to.name.as_str())));
    let button = format!("{verb} {} and join {}", names.0, names.1);
    Form {
        button: &button,
        is_danger: is_deletion,
        hidden: &[
            ("action", "join"),
            ("tenantSlug", to.slug.as_str()),
            ("invitationId", &id),
            ("leaves", from.id.as_str()),
        ],
        fields: &[tick],
        error,
        ..Form::default()
    }
    .render()
}

/// The page that asks for confirmation before deleting the organization of `user`, its last member. The page shows how
/// much data would be lost.
async fn confirm(app: &App, user: &User, form: &FormValues, error: Option<Error>) -> Result<Page> {
    let Some((pending, to)) = find(app, form).await? else { return Ok(no_invitation()) };
    let (from, endpoints, keys) = tokio::try_join!(
        app.organizations.get(&user.organization),
        app.endpoints.list(&user.organization),
        app.keys.managed(&user.organization, None),
    )?;
    let (id, names) = (pending.invitation.id, (visible(from.name.as_str()), visible(to.name.as_str())));
    let (text, button) = (id.to_string(), format!("Delete {} and join {}", names.0, names.1));
    let join = Form {
        button: &button,
        is_danger: true,
        hidden: &[
            ("action", "join"),
            ("step", "confirm"),
            ("tenantSlug", to.slug.as_str()),
            ("invitationId", &text),
            ("leaves", from.id.as_str()),
            (DELETES, TICKED),
        ],
        fields: &[Field::tick("sure", "I understand that this cannot be undone")],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        p { "You are the only member of " strong { (names.0) } ". Joining " strong { (names.1) } " permanently deletes:" }
        ul {
            li { (counted(endpoints.len(), "endpoint")) ", with all deliveries" }
            li { (counted(keys.len(), "API key")) }
            li { "the settings, the pending invitations and the slug " strong { (from.slug) } }
        }
        p { "Stop the jobs of " strong { (names.0) } " first: their events no longer reach an endpoint." }
        (join)
        p { a href=(address(&to.slug, id)) { "Keep my organization" } }
    };
    Ok(Page::new("Delete your organization?", content).refused(error))
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn no_invitation() -> Page {
    let content = html! {
        p { "It may have expired, been accepted, declined or canceled, or been replaced. Ask for a new invitation." }
        p { "If you already accepted it, " a href="/signin" { "sign in" } "." }
    };
    Page::new("This invitation is not valid", content).refused(Some(Error::InvalidToken))
}
