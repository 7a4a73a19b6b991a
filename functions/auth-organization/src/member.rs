//! The members of the caller's organization. Every member can see the members, and owners manage them.

use std::sync::Arc;

use api::{
    Call as _,
    account::{ActiveMember, Member},
    team::{ChangeRole, Members, MembersListed as Listed, RemoveMember, Removed},
};
use common::{
    accounts::{
        members::MemberIdOrEmail,
        permissions::Scope,
        users::{Role, parse_role},
    },
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{
        Call, Caller, DeclaredError, Fields, KeyOrSession, Reason, Rejected, Route, Session, SignedIn, WithCookies,
        cookies::cleared_cookie,
    },
    id::{TenantId, UserId},
    paging::{Order, Paging},
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    app::App,
    rights::{OrganizationSelector, check, check_may_give, check_verified_owner},
};

pub(crate) fn list() -> Route<App> {
    Route::get(Members::PATH, KeyOrSession, ListInput::read, members)
        .scope(Scope::MembersRead)
        .summary("Lists the members in sign-up order. A new member may take a moment to appear.")
        .description(
            "All members can call this route. Requests with `filterField`, `filterValue` or `filterOperator` are \
             rejected with a 400.",
        )
        .errors(&[DeclaredError::NotFound])
}

pub(crate) fn active() -> Route<App> {
    Route::get(ActiveMember::PATH, KeyOrSession, |_, _| Ok(()), own)
        .any_scope()
        .summary("Returns the caller as a member of their organization.")
        .description("An organization key is not a member and gets a 404.")
        .errors(&[DeclaredError::NotFound])
}

pub(crate) fn active_role() -> Route<App> {
    Route::get("/api/auth/organization/get-active-member-role", KeyOrSession, Whose::read, role)
        .scope(Scope::MembersRead)
        .summary("Returns the role of the caller or of another member of their organization.")
        .errors(&[DeclaredError::NotFound])
}

pub(crate) fn update_role() -> Route<App> {
    Route::post(ChangeRole::PATH, KeyOrSession, NewRole::read, change_role)
        .records(&[Action::MemberRoleChanged])
        .scope(Scope::MembersWrite)
        .summary("Changes a member's role. Owners only; at least one owner must remain.")
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::OwnersOnly,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::LastOwner),
        ])
}

pub(crate) fn remove() -> Route<App> {
    Route::post(RemoveMember::PATH, KeyOrSession, RemoveInput::read, end)
        .records(&[Action::MemberRemoved, Action::MemberLeft])
        .scope(Scope::MembersWrite)
        .summary(
            "Removes a member, deletes their account and immediately ends its sessions and personal keys. Owners only.",
        )
        .description(
            "The address can be invited or used to sign up again. The endpoints and the organization keys that the \
             member created remain. The last owner cannot be removed.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::OwnersOnly,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::LastOwner),
        ])
}

pub(crate) fn leave() -> Route<App> {
    Route::post("/api/auth/organization/leave", Session, Own::read, leave_organization)
        .records(&[Action::MemberLeft])
        .summary(
            "Removes the caller from the organization, deletes their account and immediately ends its sessions and \
             personal keys.",
        )
        .description(
            "A user belongs to exactly one organization, so leaving it deletes the account. To move the account to \
             another organization instead, accept an invitation with `accept-invitation`. The address can be invited or \
             used to sign up again. The endpoints and the organization keys that the user created remain.",
        )
        .errors(&[DeclaredError::NotFound, DeclaredError::Conflict(Reason::LastOwner)])
}

struct ListInput {
    organization: OrganizationSelector,
    paging: Paging,
    order: Order,
}

impl ListInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = OrganizationSelector::read(fields);
        let paging = Paging::read(fields);
        let order = Order::read(fields);
        fields.refuse(&["filterField", "filterValue", "filterOperator"])?;
        Ok(Self { organization: organization?, paging: paging?, order: order? })
    }
}

struct Whose {
    organization: OrganizationSelector,
    user: Option<UserId>,
}

impl Whose {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = OrganizationSelector::read(fields);
        let user = fields
            .about("The id of the member whose role is returned. The default is the caller.")
            .optional_text("userId", UserId::parse);
        Ok(Self { organization: organization?, user: user? })
    }
}

struct NewRole {
    organization: Option<TenantId>,
    member: UserId,
    role: Role,
}

impl NewRole {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            .optional_text("organizationId", TenantId::parse);
        let member = fields
            .about("The id of the member to change, as returned by `list-members`.")
            .text(ChangeRole::NAMES.member_id, UserId::parse);
        let role = fields
            .about("The new role of the member. A list with one role is also accepted.")
            .text_or_list_of_one(ChangeRole::NAMES.role, parse_role);
        Ok(Self { organization: organization?, member: member?, role: role? })
    }
}

struct RemoveInput {
    organization: Option<TenantId>,
    member: MemberIdOrEmail,
}

impl RemoveInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            .optional_text("organizationId", TenantId::parse);
        let member = fields
            .about("The member to remove, by id or email address.")
            .text(RemoveMember::NAMES.member, MemberIdOrEmail::parse);
        Ok(Self { organization: organization?, member: member? })
    }
}

struct Own {
    organization: Option<TenantId>,
}

impl Own {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            organization: fields
                .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
                .optional_text("organizationId", TenantId::parse)?,
        })
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
struct ActiveRole {
    /// The role of the member.
    role: Role,
}

/// The error when an organization key calls a route about the caller's own membership.
const NOT_A_MEMBER: Error = Error::NotFound("An organization key is not a member");

async fn members(app: Arc<App>, call: Call<Caller>, input: ListInput) -> Result<Listed> {
    let organization = &call.caller.organization;
    input.organization.check(&app, organization).await?;
    let (members, total) = app.members.list(organization, input.paging, input.order).await?;
    Ok(Listed { members: members.into_iter().map(Into::into).collect(), total })
}

async fn own(app: Arc<App>, call: Call<Caller>, (): ()) -> Result<Member> {
    let user = call.caller.any_user().ok_or(NOT_A_MEMBER)?;
    Ok(app.members.find(&user.organization, &MemberIdOrEmail::Id(user.id)).await?.into())
}

async fn role(app: Arc<App>, call: Call<Caller>, input: Whose) -> Result<ActiveRole> {
    let organization = &call.caller.organization;
    input.organization.check(&app, organization).await?;
    let role = match input.user {
        None => call.caller.any_user().ok_or(NOT_A_MEMBER)?.role,
        Some(id) => app.members.find(organization, &MemberIdOrEmail::Id(id)).await?.user.role,
    };
    Ok(ActiveRole { role })
}

async fn change_role(app: Arc<App>, call: Call<Caller, Recorder>, input: NewRole) -> Result<Member> {
    let owner = call.caller.user()?;
    check_verified_owner(owner, input.organization.as_ref())?;
    check_may_give(&call.caller, input.role)?;
    let changed =
        app.members.change_role(&call.recorder, owner, &MemberIdOrEmail::Id(input.member), input.role).await?;
    Ok(changed.into())
}

async fn end(app: Arc<App>, call: Call<Caller, Recorder>, input: RemoveInput) -> Result<Removed> {
    let owner = call.caller.user()?;
    check_verified_owner(owner, input.organization.as_ref())?;
    // Leaving deletes the account, which no key may do.
    if input.member.is(owner) && !call.caller.is_session() {
        return Err(Error::SessionRequired);
    }
    let organization = app.organizations.get(&owner.organization).await?;
    let member = app.departures.remove(&call.recorder, owner, &input.member).await?;
    app.alerts.removed(owner, &member.user, &organization, Timestamp::now()).await;
    Ok(Removed { member: member.into() })
}

async fn leave_organization(app: Arc<App>, call: Call<SignedIn, Recorder>, input: Own) -> Result<WithCookies<Member>> {
    let user = &call.caller.user;
    check(&user.organization, input.organization.as_ref())?;
    let member = app.departures.remove(&call.recorder, user, &MemberIdOrEmail::Id(user.id)).await?;
    Ok(WithCookies { body: member.into(), cookies: vec![cleared_cookie(&call.base)] })
}
