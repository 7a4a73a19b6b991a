//! `fanfare team`: members and invitations.

mod transfer;

use api::{
    EmailAddress,
    account::{InvitationStatus, Member},
    team::{CancelInvitation, ChangeRole, Invitation, Invitations, Invite, Members, MembersListed, RemoveMember},
};
use serde_json::json;

use crate::{
    args::Team,
    calls::{Api, MAX_PAGE_SIZE},
    clock,
    config::Config,
    failure::Failure,
    input::confirm,
    table::{self, Column},
    terminal::{cell, print_json, print_result},
};

const COLUMNS: &[Column] = &[
    Column::new("EMAIL").shrinks_to(16),
    Column::new("NAME").shrinks_to(8).left_out(1),
    Column::new("ROLE"),
    Column::new("STATE"),
];

pub(crate) async fn run(api: &Api, config: &mut Config, command: Team, is_json: bool) -> Result<(), Failure> {
    match command {
        Team::List => list(api, is_json).await,
        Team::Invitations { no_browser } => transfer::list(api, !no_browser, is_json).await,
        Team::Accept { invitation, delete_organization, yes, no_browser } => {
            let invitation = invitation.as_deref();
            transfer::accept(api, config, invitation, delete_organization, yes, !no_browser, is_json).await
        }
        Team::Decline { invitation, no_browser } => {
            transfer::decline(api, invitation.as_deref(), !no_browser, is_json).await
        }
        Team::Invite { email, role } => {
            let invited = api.call(&Invite::new(EmailAddress::from(email), role)).await?;
            let expires = clock::short(&invited.expires_at);
            let meaning =
                format!("Invited {} as {role}. The invitation expires at {expires} UTC.", cell(&invited.email));
            Ok(print_result(&invited, is_json, &meaning)?)
        }
        Team::Cancel { email } => {
            let invitations = pending(api).await?;
            let found = invitations.into_iter().find(|one| is(&email, one.email.as_str(), one.id.as_str()));
            let found =
                found.ok_or_else(|| Failure::not_found(format!("No open invitation for {} found.", cell(&email))))?;
            let canceled = api.call(&CancelInvitation::new(found.id)).await?;
            Ok(print_result(&canceled, is_json, &format!("Canceled the invitation for {}.", cell(&canceled.email)))?)
        }
        Team::Role { member, role } => {
            let member = find(api, &member).await?;
            let changed = api.call(&ChangeRole::new(member.user_id, role)).await?;
            Ok(print_result(&changed, is_json, &format!("{} is now {role}.", cell(&changed.user.email)))?)
        }
        Team::Remove { member, yes } => {
            let email = find(api, &member).await?.user.email;
            let shown = cell(&email);
            confirm(&format!("Remove {shown}? This deletes the account and its personal API keys."), yes)?;
            let removed = api.call(&RemoveMember::new(email.as_str().to_owned())).await.map_err(|failure| {
                // The key has just listed the members, so it is valid: only a session can remove its own user.
                match failure.is_not_signed_in() {
                    true => Failure::local("An API key cannot remove the user that it acts for.")
                        .hint("Delete your account on the page that `fanfare open account` opens."),
                    false => failure,
                }
            })?;
            Ok(print_result(&removed, is_json, &format!("Removed {shown}."))?)
        }
    }
}

/// Whether `typed` is this person's id, or their email address in any letter case.
fn is(typed: &str, email: &str, id: &str) -> bool {
    typed.eq_ignore_ascii_case(email) || typed.eq_ignore_ascii_case(id)
}

async fn find(api: &Api, typed: &str) -> Result<Member, Failure> {
    let found = members(api).await?.into_iter().find(|one| is(typed, one.user.email.as_str(), one.user_id.as_str()));
    found.ok_or_else(|| Failure::not_found(format!("No member {} found.", cell(&typed))))
}

/// Reads all members.
pub(crate) async fn members(api: &Api) -> Result<Vec<Member>, Failure> {
    let mut all = Vec::new();
    for offset in (0..).step_by(MAX_PAGE_SIZE) {
        let MembersListed { members, total } = api.page_of(&Members::new(), offset).await?;
        all.extend(members);
        if offset + MAX_PAGE_SIZE >= total {
            break;
        }
    }
    Ok(all)
}

/// Reads all pending invitations.
async fn pending(api: &Api) -> Result<Vec<Invitation>, Failure> {
    let mut all = Vec::new();
    for offset in (0..).step_by(MAX_PAGE_SIZE) {
        let page = api.page_of(&Invitations::new(), offset).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    all.retain(|one| one.status == InvitationStatus::Pending && clock::is_ahead(&one.expires_at));
    Ok(all)
}

async fn list(api: &Api, is_json: bool) -> Result<(), Failure> {
    let members = members(api).await?;
    // Members cannot list invitations.
    let invitations = match pending(api).await {
        Err(error) if error.is_forbidden() => Vec::new(),
        invitations => invitations?,
    };
    if is_json {
        return Ok(print_json(&json!({ "members": members, "total": members.len(), "invitations": invitations }))?);
    }
    let joined = members.iter().map(|one| {
        let state = format!("joined {} ago", clock::age(&one.created_at));
        vec![cell(&one.user.email), cell(&one.user.name), cell(&one.role), state]
    });
    let invited = invitations.iter().map(|one| {
        let left = clock::until(&one.expires_at).unwrap_or_default();
        vec![cell(&one.email), String::new(), cell(&one.role), format!("invited, expires in {left}")]
    });
    Ok(table::print(COLUMNS, &joined.chain(invited).collect::<Vec<_>>())?)
}
