//! The fields of an invitation's link, the consent to leave an organization, and the errors, as several routes have them.

use crate::{
    http::{DeclaredError, Fields, Reason, Rejected},
    id::InvitationId,
    name::Slug,
};

/// The parts of an invitation's link that identify the invitation.
pub struct InvitationLink {
    pub invitation: InvitationId,
    pub slug: Slug,
}

/// The errors of a call that accepts an invitation with the caller's account.
pub const ACCEPTING: [DeclaredError; 9] = [
    DeclaredError::EmailNotVerified,
    DeclaredError::NotTheRecipient,
    DeclaredError::NotFound,
    DeclaredError::Conflict(Reason::InvitationExpired),
    DeclaredError::Conflict(Reason::InvitationUsed),
    DeclaredError::Conflict(Reason::AlreadyAMember),
    DeclaredError::Conflict(Reason::LastOwner),
    DeclaredError::Conflict(Reason::LastMember),
    DeclaredError::Conflict(Reason::OrganizationChanged),
];

/// Reads the id of an invitation and the slug of its organization.
pub fn read(fields: &mut Fields) -> Result<InvitationLink, Rejected> {
    let invitation = fields
        .about("The id of the invitation, from the link in the invitation email.")
        .text("invitationId", InvitationId::parse);
    let slug = fields
        .about("The slug of the organization that invited you, from the same link.")
        .text("tenantSlug", Slug::parse);
    Ok(InvitationLink { invitation: invitation?, slug: slug? })
}

/// Reads whether accepting an invitation may delete the caller's organization.
pub fn may_end(fields: &mut Fields) -> Result<bool, Rejected> {
    let may_end = fields
        .about(
            "Whether to delete the caller's organization, with its endpoints, deliveries, API keys and invitations, if \
             the caller is its last member. With `false`, the default, the call is then rejected.",
        )
        .optional_bool("deleteOrganization");
    Ok(may_end?.unwrap_or_default())
}
