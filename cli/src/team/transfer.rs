//! Moves the user's account to an organization that has invited them.

use api::{
    account::IssuedKey,
    error::Reason,
    team::{AcceptInvitation, ReceivedInvitation, ReceivedInvitations, RejectInvitation},
};

use crate::{
    approval::with_session,
    calls::Api,
    clock,
    config::Config,
    failure::Failure,
    identity::identity,
    ids::Shortener,
    input::{can_confirm, confirm},
    login::issue,
    table::{self, Column},
    terminal::{cell, print_json, print_line, print_note, print_result},
};

const COLUMNS: &[Column] = &[
    Column::new("ORGANIZATION").shrinks_to(12),
    Column::new("SLUG").shrinks_to(12),
    Column::new("ROLE"),
    Column::new("EXPIRES").left_out(0),
    Column::new("ID"),
];

/// Prints the invitations for the user who approves the command.
pub(super) async fn list(api: &Api, has_browser: bool, is_json: bool) -> Result<(), Failure> {
    let received =
        with_session(api, has_browser, is_json, async |session| session.call(&ReceivedInvitations::new()).await)
            .await?;
    if is_json {
        return Ok(print_json(&received)?);
    }
    if received.is_empty() {
        return Ok(print_line("No invitations found.")?);
    }
    let shortener = Shortener::for_ids(received.iter().map(|one| one.id.as_str()));
    let rows = received.iter().map(|one| {
        vec![
            cell(&one.organization_name),
            cell(&one.organization_slug),
            cell(&one.role),
            format!("in {}", clock::until(&one.expires_at).unwrap_or_default()),
            shortener.short(one.id.as_str()),
        ]
    });
    Ok(table::print(COLUMNS, &rows.collect::<Vec<_>>())?)
}

pub(super) async fn accept(
    api: &Api,
    config: &mut Config,
    typed: Option<&str>,
    may_delete: bool,
    is_confirmed: bool,
    has_browser: bool,
    is_json: bool,
) -> Result<(), Failure> {
    can_confirm(is_confirmed)?;
    let stored = config.service(&api.origin());
    let has_key = stored.key.is_some() && !api.has_key_of_environment();
    let (accepted, organization, key) = with_session(api, has_browser, is_json, async |session| {
        let (who, invitation) = (identity(session).await?, find(session, typed).await?);
        let (from, to) = (cell(&who.organization.name), cell(&invitation.organization_name));
        let email = cell(&invitation.email);
        let lost = if may_delete {
            format!(
                " If you are its last member, {from} is deleted with its endpoints, deliveries, keys and invitations."
            )
        } else {
            String::new()
        };
        let role = cell(&invitation.role);
        confirm(
            &format!(
                "Move {email} from {from} to {to} as {role}? Your personal API keys for {from} stop working.{lost}"
            ),
            is_confirmed,
        )?;
        let call = AcceptInvitation {
            delete_organization: may_delete.then_some(true),
            ..AcceptInvitation::new(invitation.id)
        };
        let accepted = session.call(&call).await.map_err(|failure| match failure.reason() {
            Some(Reason::LastMember) => {
                failure.hint(format!("Add --delete-organization to delete {from} with all its data."))
            }
            Some(Reason::LastOwner) => {
                failure.hint("Make another member an owner with `fanfare team role MEMBER owner`.")
            }
            _ => failure,
        })?;
        // A personal key of this user has just stopped working. One of another user or of an organization has not.
        let key = match if has_key { Some(identity(api).await) } else { None } {
            None => None,
            Some(Ok(who)) => {
                print_note(&format!("This machine's API key still works and was kept: {}.", who.summary()));
                None
            }
            Some(Err(failure)) if failure.is_not_signed_in() => Some(issue(session).await),
            Some(Err(failure)) => Some(Err(failure)),
        };
        Ok((accepted, to, key))
    })
    .await?;
    let replaced = key.map(|issued| {
        let IssuedKey { id, key, .. } = issued?;
        config.change(&api.origin(), |service| {
            service.key = Some(key);
            service.key_id = Some(id);
        })
    });
    match replaced {
        // The account has moved anyway.
        Some(Err(error)) => print_note(&format!(
            "This machine's API key may no longer work, and was not replaced: {error} Run `fanfare login`."
        )),
        None if api.has_key_of_environment() => {
            print_note("If the key in FANFARE_API_KEY is your personal key, it no longer works. Set another one.");
        }
        _ => {}
    }
    let meaning =
        format!("{} is now {} of {organization}.", cell(&accepted.member.user.email), cell(&accepted.member.role));
    Ok(print_result(&accepted, is_json, &meaning)?)
}

pub(super) async fn decline(api: &Api, typed: Option<&str>, has_browser: bool, is_json: bool) -> Result<(), Failure> {
    let (declined, organization) = with_session(api, has_browser, is_json, async |session| {
        let invitation = find(session, typed).await?;
        let organization = cell(&invitation.organization_name);
        Ok((session.call(&RejectInvitation::new(invitation.id)).await?, organization))
    })
    .await?;
    Ok(print_result(&declined, is_json, &format!("Declined the invitation from {organization}."))?)
}

/// Finds the invitation with this id, or from the organization with this slug. If neither is given, finds the only
/// invitation.
async fn find(session: &Api, typed: Option<&str>) -> Result<ReceivedInvitation, Failure> {
    let mut received = session.call(&ReceivedInvitations::new()).await?;
    if let Some(typed) = typed {
        let typed = typed.to_ascii_lowercase();
        received.retain(|one| one.organization_slug.as_str() == typed || one.id.as_str().starts_with(&typed));
    }
    match (received.pop(), received.is_empty()) {
        (None, _) => Err(Failure::not_found("No such invitation found.").hint("Run `fanfare team invitations`.")),
        (Some(invitation), true) => Ok(invitation),
        (Some(_), false) => Err(Failure::ambiguous("You have several such invitations.")
            .hint("Pass the slug of an organization, from `fanfare team invitations`.")),
    }
}
