//! The routes of the caller's organization itself.

use std::sync::Arc;

use api::{
    Call as _,
    account::{self, Organizations},
    team::{self, ChangeOrganization, Invitation},
};
use common::{
    accounts::{organizations::Organization, permissions::Scope},
    audit::{Action, Recorder},
    error::{Error, ForbiddenReason, Result},
    http::{Call, Caller, DeclaredError, Fields, KeyOrSession, MAX_LISTED, Rejected, Route, read_limit},
    id::TenantId,
    name::{Name, Slug},
    paging::{Order, Paging},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    app::App,
    invitation,
    rights::{NOT_FOUND, OrganizationSelector, check_verified_owner},
};

pub(crate) fn list() -> Route<App> {
    Route::get(Organizations::PATH, KeyOrSession, |_, _| Ok(()), own)
        .any_scope()
        .summary("Lists the caller's organization. Every user and key belongs to exactly one organization.")
}

pub(crate) fn full() -> Route<App> {
    Route::get("/api/auth/organization/get-full-organization", KeyOrSession, Full::read, whole)
        .scope(Scope::MembersRead)
        .also_scope(Scope::MembersWrite, "to see invitations")
        .summary("Returns the caller's organization with its first members and, for owners, its newest invitations.")
        .errors(&[DeclaredError::NotFound])
}

/// Stores nothing: a user belongs to exactly one organization, which is active in all their sessions.
pub(crate) fn set_active() -> Route<App> {
    Route::post(
        "/api/auth/organization/set-active",
        KeyOrSession,
        |_, fields| OrganizationSelector::read(fields),
        activate,
    )
    .any_scope()
    .summary("Returns the caller's organization, which is always the active one.")
    .description(
        "Any other organization is rejected with a 403 `USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION`. `null` is \
             rejected with a 400, because every session has an active organization.",
    )
    .errors(&[DeclaredError::NotAMember])
}

pub(crate) fn update() -> Route<App> {
    Route::post(ChangeOrganization::PATH, KeyOrSession, NewName::read, rename)
        .records(&[Action::OrganizationRenamed])
        .scope(Scope::SettingsWrite)
        .summary("Changes the name of the organization. Owners only.")
        .description(
            "The slug cannot be changed: requests with `slug`, `logo` or `metadata` in `data` are rejected with a 400.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly, DeclaredError::NotFound])
}

struct NewName {
    organization: Option<TenantId>,
    name: Name,
}

impl NewName {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let name = fields.about("The changes.").object(ChangeOrganization::NAMES.data, |data| {
            data.refuse(&["slug", "logo", "metadata"])?;
            data.about("The new name of the organization.").text(team::NewName::NAMES.name, Name::parse)
        });
        let organization = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            .optional_text(ChangeOrganization::NAMES.organization_id, TenantId::parse);
        Ok(Self { organization: organization?, name: name? })
    }
}

struct Full {
    organization: OrganizationSelector,
    members: usize,
}

impl Full {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = OrganizationSelector::read(fields);
        let members =
            read_limit(fields.about("The maximum number of members to list. The default is 100."), "membersLimit");
        Ok(Self { organization: organization?, members: members? })
    }
}

/// An organization with its members and invitations.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "FullOrganization")]
struct FullView {
    /// The id of the organization. Producers put it into job events as `tenant_id`.
    id: TenantId,
    /// The name of the organization.
    name: Name,
    /// The organization's short unique name, for use in links.
    slug: Slug,
    /// When the organization was created.
    created_at: Timestamp,
    /// The first members, in sign-up order; at most `membersLimit` of them.
    members: Vec<account::Member>,
    /// The newest 100 invitations; empty for callers who are not allowed to list them.
    invitations: Vec<Invitation>,
}

async fn own(app: Arc<App>, call: Call<Caller>, (): ()) -> Result<[account::Organization; 1]> {
    Ok([app.organizations.get(&call.caller.organization).await?.into()])
}

async fn activate(app: Arc<App>, call: Call<Caller>, named: OrganizationSelector) -> Result<account::Organization> {
    let organization = app.organizations.get(&call.caller.organization).await?;
    if named.is(&organization) { Ok(organization.into()) } else { Err(Error::Forbidden(ForbiddenReason::NotAMember)) }
}

async fn rename(app: Arc<App>, call: Call<Caller, Recorder>, input: NewName) -> Result<account::Organization> {
    let owner = call.caller.user()?;
    check_verified_owner(owner, input.organization.as_ref())?;
    Ok(app.organizations.rename(&call.recorder, &app.users, owner, &input.name).await?.into())
}

async fn whole(app: Arc<App>, call: Call<Caller>, input: Full) -> Result<FullView> {
    let caller = &call.caller;
    let organization = app.organizations.get(&caller.organization).await?;
    if !input.organization.is(&organization) {
        return Err(NOT_FOUND);
    }
    let Organization { id, name, slug, created_at, .. } = organization;
    let invitations = async {
        match caller.user().is_ok_and(|user| user.check_verified_owner().is_ok())
            && caller.has_scope(Scope::MembersWrite)
        {
            true => {
                let may_see = |invited: &_| invitation::may_see(caller, invited);
                app.invitations.list(&id, Paging::first(MAX_LISTED.into()), may_see).await
            }
            false => Ok(Vec::new()),
        }
    };
    let members = app.members.list(&id, Paging::first(input.members), Order::Ascending);
    let ((members, _), invitations) = tokio::try_join!(members, invitations)?;
    let members = members.into_iter().map(Into::into).collect();
    let invitations = invitations.into_iter().map(invitation::shown).collect();
    Ok(FullView { id, name, slug, created_at, members, invitations })
}
