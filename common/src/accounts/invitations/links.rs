//! Invitations, as shown to callers who know the link: a page asks its visitor to accept one before it knows the account.

use aws_sdk_dynamodb::Client;

use super::{Invited, NOT_FOUND, linked_item};
use crate::{
    accounts::organizations::{Organization, Organizations},
    error::Result,
    id::InvitationId,
    name::Slug,
};

crate::from_env! {
    /// The store of invitations, for reading only.
    pub struct InvitationLinks {
        dynamodb: Client,
        organizations: Organizations,
        invitations_table: String = "INVITATIONS_TABLE",
        organizations_table: String = "ORGANIZATIONS_TABLE",
    }
}

impl InvitationLinks {
    /// Finds the invitation `id` to the organization with `slug`, in any state.
    ///
    /// # Errors
    /// The invitation or the organization does not exist.
    pub async fn find(&self, id: InvitationId, slug: &Slug) -> Result<(Invited, Organization)> {
        let (invitations, organizations) = (&self.invitations_table, &self.organizations_table);
        let item = linked_item(&self.dynamodb, invitations, organizations, id, slug).await?;
        let invited = Invited::from_item(&item)?;
        let organization = self.organizations.find(&invited.invitation.organization).await?;
        Ok((invited, organization.ok_or(NOT_FOUND)?))
    }
}
