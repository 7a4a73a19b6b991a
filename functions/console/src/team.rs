//! The page for the organization's members and pending invitations. Every member sees the members; owners manage them.

use std::sync::Arc;

use common::{
    accounts::{
        email::EmailAddress,
        invitations::{InvitationStatus, Invited},
        members::{Member, MemberIdOrEmail},
        users::{Role, User, parse_role},
    },
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{
        Call, DID, DeclaredError, FormValues, MAX_LISTED, Person, Reason, Reply, Route, SignedIn,
        page::{Choice, Field, Page, visible},
    },
    id::{InvitationId, UserId},
    paging::{Order, Paging},
    presentation::times,
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::{
    app::App,
    frame::{
        FormRequest, NO_FORM, RowForm, columns, console, invited as invitations, received, redirect_to, role_name,
        unverified,
    },
};

const PART: (&str, &str) = ("part", "The page of the member list to show. The default is the first.");

const HERE: &str = "/console/team";

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 5] = [
    ("action", "The submitted form: `role`, `remove`, `invite` or `cancel`."),
    ("memberId", "`role` and `remove`: the id of the member."),
    ("role", "`role` and `invite`: the role, `owner` or `member`."),
    ("email", "`invite`: the email address to invite."),
    ("invitationId", "`cancel`: the id of the invitation."),
];

const DONE: [(&str, &str); 5] = [
    ("joined", "You are a member of this organization now."),
    ("role", "Role changed."),
    (
        "removed",
        "Member removed. Their account was deleted, and their sessions and personal API keys no longer work. \
      Organization keys that they created still work: the page “API keys” lists them.",
    ),
    ("invited", "Invitation sent. It expires in 7 days, and replaces an earlier one to the same address."),
    ("canceled", "Invitation canceled."),
];

const ROLES: [Choice<'_>; 2] = [
    Choice { value: "member", label: "Member", hint: "Uses the API, and manages endpoints and their own API keys" },
    Choice { value: "owner", label: "Owner", hint: "Also manages members, all API keys and settings" },
];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID, PART])), get_page)
        .summary("Shows the organization's members and, for owners, its pending invitations.")
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, Person, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .records(&[
            Action::MemberRoleChanged,
            Action::MemberRemoved,
            Action::MemberLeft,
            Action::InvitationCreated,
            Action::InvitationCanceled,
        ])
        .summary(
            "Handles the forms on the team page, with the same effect as the API calls: changing a role, removing a \
             member, inviting an email address, and canceling an invitation. Owners only.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::OwnersOnly,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::LastOwner),
            DeclaredError::Conflict(Reason::AlreadyAMember),
            DeclaredError::Conflict(Reason::EmailSuppressed),
            DeclaredError::Conflict(Reason::InvitationUsed),
            DeclaredError::TooMany,
        ])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<SignedIn>, link: FormValues) -> Result<Page> {
    page(&app, &call.caller.user, FormRequest::link(link)).await
}

/// The caller has a session, so they may make members owners, which an API key may not.
async fn post_form(app: Arc<App>, call: Call<SignedIn, Recorder>, form: FormValues) -> Result<Reply> {
    let owner = &call.caller.user;
    let done = match (owner.check_verified_owner(), form.get("action")) {
        (Err(error), _) => Err(error),
        (Ok(()), "role") => change_role(&app, &call.recorder, owner, &form).await,
        (Ok(()), "remove") => remove(&app, &call.recorder, owner, &form).await,
        (Ok(()), "invite") => invite(&app, &call, &form).await,
        (Ok(()), "cancel") => cancel(&app, &call.recorder, owner, &form).await,
        (Ok(()), _) => Err(NO_FORM),
    };
    match done {
        Ok(did) => Ok(redirect_to(HERE, did)),
        Err(error) => Ok(page(&app, owner, FormRequest::refused(form, error)?).await?.into()),
    }
}

async fn change_role(app: &App, recorder: &Recorder, owner: &User, form: &FormValues) -> Result<&'static str> {
    let (member, role) = form.read(|fields| {
        let member = fields.text("memberId", UserId::parse);
        let role = fields.text("role", parse_role);
        Ok((member?, role?))
    })?;
    app.members.change_role(recorder, owner, &MemberIdOrEmail::Id(member), role).await?;
    Ok("role")
}

async fn remove(app: &App, recorder: &Recorder, owner: &User, form: &FormValues) -> Result<&'static str> {
    let member = form.read(|fields| fields.text("memberId", UserId::parse))?;
    let organization = app.organizations.get(&owner.organization).await?;
    let removed = app.departures.remove(recorder, owner, &MemberIdOrEmail::Id(member)).await?;
    app.alerts.removed(owner, &removed.user, &organization, Timestamp::now()).await;
    Ok("removed")
}

async fn invite(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<&'static str> {
    let (email, role) = form.read(|fields| {
        let email = fields.text("email", EmailAddress::parse);
        let role = fields.text("role", parse_role);
        Ok((email?, role?))
    })?;
    app.inviting.invite(&call.recorder, &call.caller.user, &email, role, &call.base).await?;
    Ok("invited")
}

async fn cancel(app: &App, recorder: &Recorder, owner: &User, form: &FormValues) -> Result<&'static str> {
    let invitation = form.read(|fields| fields.text("invitationId", InvitationId::parse))?;
    app.invitations.cancel(recorder, owner, invitation).await?;
    Ok("canceled")
}

/// The data that the page shows.
struct Team<'a> {
    user: &'a User,
    /// Whether the user may manage the organization, or why not.
    manages: Result<()>,
    members: Vec<Member>,
    total: usize,
    invited: Vec<Invited>,
}

/// Shows invitations only to owners, because an invitation's id is enough to accept it.
async fn page(app: &App, user: &User, sent: FormRequest) -> Result<Page> {
    let (id, manages, most) = (&user.organization, user.check_verified_owner(), usize::from(MAX_LISTED));
    let invited = async {
        match &manages {
            Ok(()) => {
                app.invitations.list(id, Paging::first(most), |one| one.status == InvitationStatus::Pending).await
            }
            Err(_refusal) => Ok(Vec::new()),
        }
    };
    let members = app.members.list(id, Paging { limit: most, offset: sent.part() * most }, Order::Ascending);
    let (frame, (members, total), invited, received) =
        tokio::try_join!(console(app, user, HERE), members, invited, received(app, user))?;
    let content = html! {
        (invitations(&received))
        (Team { user, manages, members, total, invited }.html(&sent, most))
    };
    Ok(Page::new("Team", content).within(frame).refused(sent.refused))
}

impl Team<'_> {
    fn html(&self, sent: &FormRequest, most: usize) -> Markup {
        let part = sent.part();
        html! {
            (sent.news(&DONE, if self.manages.is_ok() { &["invite"] } else { &[] }))
            (self.listed())
            @if self.total > most {
                p {
                    "There are " (self.total) " members. "
                    @if part > 0 { a href={ "?part=" (part - 1) } { "Earlier members" } " " }
                    @if (part + 1) * most < self.total { a href={ "?part=" (part + 1) } { "Later members" } }
                }
            }
            @match &self.manages {
                Ok(()) => {
                    p { a href="/console/audit" { "View the audit log" } }
                    h2 { "Pending invitations" }
                    (self.invitations())
                    @if self.invited.len() >= most { p { "Only the newest " (most) " are shown." } }
                    h2 { "Invite a teammate" }
                    (invite_form(sent))
                },
                Err(Error::Forbidden(_)) if self.user.role == Role::Owner => {
                    (unverified("invite teammates and manage the team"))
                },
                Err(_) => p { "Only owners can invite and remove members." },
            }
        }
    }

    fn listed(&self) -> Markup {
        let now = Timestamp::now();
        html! {
            table .cards {
                (columns(if self.manages.is_ok() { &["Name", "Email", "Role", "Joined", ""] } else { &["Name", "Email", "Role", "Joined"] }))
                tbody {
                    @for Member { user, joined_at } in &self.members {
                        tr {
                            td data-label="Name" {
                                (visible(user.name.as_str())) @if user.id == self.user.id { " " span .soft { "(you)" } }
                            }
                            td data-label="Email" { (user.email) }
                            td data-label="Role" { (badge(user.role)) }
                            td data-label="Joined" { (times::ago(*joined_at, now)) }
                            @if self.manages.is_ok() { td { (self.forms(user)) } }
                        }
                    }
                }
            }
        }
    }

    /// The forms in a member's row. The user's own row has no form for removal, because users leave through the account
    /// page. The only owner cannot become a member.
    fn forms(&self, member: &User) -> Markup {
        let (id, about) = (member.id.to_string(), member.email.to_string());
        let (fold, says, role) = match member.role {
            Role::Owner => {
                ("Change to member", "Members cannot manage members, settings or other people's keys.", "member")
            }
            Role::Member => ("Change to owner", "Owners manage members, all keys and settings.", "owner"),
        };
        let hidden = [("action", "role"), ("memberId", &*id), ("role", role)];
        let change = RowForm { fold, about: &about, says, button: "Change role", is_danger: false, hidden: &hidden };
        let remove = RowForm {
            fold: "Remove",
            about: &about,
            says: "This deletes their account, and their sessions and personal API keys stop working. Organization \
                   keys that they created keep working.",
            button: "Remove member",
            is_danger: true,
            hidden: &[("action", "remove"), ("memberId", &id)],
        };
        let is_own = member.id == self.user.id;
        html! { @if !is_own || self.may_step_down() { (change) } @if !is_own { (remove) } }
    }

    /// Whether there may be another owner. Owners on other pages of the list are not known here.
    fn may_step_down(&self) -> bool {
        let is_other = |member: &Member| member.user.role == Role::Owner && member.user.id != self.user.id;
        self.total > self.members.len() || self.members.iter().any(is_other)
    }

    fn invitations(&self) -> Markup {
        let now = Timestamp::now();
        html! {
            @if self.invited.is_empty() { p { "No pending invitations. Invite a teammate below." } }
            @else {
                table .cards {
                    (columns(&["Email", "Role", "Sent", "Expires", ""]))
                    tbody {
                        @for invited in &self.invited {
                            tr {
                                td data-label="Email" { (invited.invitation.email) }
                                td data-label="Role" { (badge(invited.invitation.role)) }
                                td data-label="Sent" { (times::ago(invited.created_at, now)) }
                                td data-label="Expires" {
                                    (times::ago(invited.expires_at, now))
                                    @if invited.expires_at <= now { " " span .state.bad { "✕ Expired" } }
                                }
                                td { (cancel_form(invited)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn badge(role: Role) -> Markup {
    html! {
        @match role {
            Role::Owner => span .state.good { "★ " (role_name(role)) },
            Role::Member => span .state { "○ " (role_name(role)) },
        }
    }
}

fn cancel_form(invited: &Invited) -> Markup {
    let (id, about) = (invited.invitation.id.to_string(), invited.invitation.email.to_string());
    RowForm {
        fold: "Cancel",
        about: &about,
        says: "The link in the email stops working.",
        button: "Cancel invitation",
        is_danger: true,
        hidden: &[("action", "cancel"), ("invitationId", &id)],
    }
    .render()
}

fn invite_form(sent: &FormRequest) -> Markup {
    let role = Some(sent.typed("invite", "role")).filter(|role| !role.is_empty()).unwrap_or("member");
    let fields = [
        Field::email("email", "Email", "off", sent.typed("invite", "email"))
            .hint("The invited person creates an account, or moves an existing account to your organization"),
        Field::radios("role", "Role", &ROLES, role),
    ];
    sent.form("invite", "Send invitation", &fields).render()
}
