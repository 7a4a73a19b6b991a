//! Checks that a caller may use the organization in a request, and may manage its members.

use common::{
    accounts::{
        organizations::Organization,
        users::{Role, User},
    },
    error::{Error, ForbiddenReason, Result},
    http::{Caller, Fields, Rejected},
    id::TenantId,
    name::Slug,
};

use crate::app::App;

/// The organization in a request, by id or slug. Only the caller's own organization is accepted.
pub(crate) struct OrganizationSelector {
    id: Option<TenantId>,
    slug: Option<Slug>,
}

impl OrganizationSelector {
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, Rejected> {
        let id = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            // Better Auth's `set-active` clears the active organization for `null`, which is refused here.
            .optional_text_without_null("organizationId", TenantId::parse);
        let slug = fields
            .about("The organization's slug. Only the caller's organization is accepted, and it is the default.")
            .optional_text("organizationSlug", Slug::parse);
        Ok(Self { id: id?, slug: slug? })
    }

    /// Checks that the organization is the caller's `own`, if the request names one. Reads the table only if the
    /// request contains a slug.
    pub(crate) async fn check(&self, app: &App, own: &TenantId) -> Result<()> {
        check(own, self.id.as_ref())?;
        if self.slug.is_some() && !self.is(&app.organizations.get(own).await?) {
            return Err(NOT_FOUND);
        }
        Ok(())
    }

    pub(crate) fn is(&self, organization: &Organization) -> bool {
        self.id.as_ref().is_none_or(|id| *id == organization.id)
            && self.slug.as_ref().is_none_or(|slug| *slug == organization.slug)
    }
}

pub(crate) const NOT_FOUND: Error = Error::NotFound("Organization not found");

/// Checks that `organization` is the caller's `own`, if the request names one.
pub(crate) fn check(own: &TenantId, organization: Option<&TenantId>) -> Result<()> {
    if organization.is_none_or(|organization| organization == own) {
        return Ok(());
    }
    Err(NOT_FOUND)
}

/// Checks that `user` may manage the members of `organization`, as an owner with a verified email.
pub(crate) fn check_verified_owner(user: &User, organization: Option<&TenantId>) -> Result<()> {
    check(&user.organization, organization)?;
    user.check_verified_owner()
}

/// Checks that `caller` may assign `role`. Only a session may make a user an owner: otherwise, a thief with an owner's
/// leaked key could become an owner.
pub(crate) fn check_may_give(caller: &Caller, role: Role) -> Result<()> {
    if role == Role::Owner && !caller.is_session() {
        return Err(Error::Forbidden(ForbiddenReason::OwnerByKey));
    }
    Ok(())
}
