//! Invitations, as seen by their recipient: the user whose verified address was invited.

use std::cmp::Reverse;

use super::{
    ACCEPTED, ACCEPTED_AT, EMAIL, EXPIRES_AT, IDS, Invitation, InvitationStatus, Invitations, Invited, NOT_FOUND,
    REJECTED, USER_ID, key, mailboxes,
};
use crate::{
    accounts::{
        email::EmailAddress,
        organizations::{Organization, Organizations},
        users::User,
    },
    audit::{Action, Entry, Recorder},
    aws::{
        batch::batch_get,
        dynamo::{ItemReader, get, number, text},
        expression::Update,
        transaction::Transaction,
    },
    error::{Conflict, Error, ForbiddenReason, Result},
    id::{InvitationId, UserId},
    timestamp::Timestamp,
};

/// An invitation, as shown to its recipient.
#[derive(Debug)]
pub struct Received {
    pub invited: Invited,
    /// The user who has accepted the invitation.
    accepted_by: Option<UserId>,
}

impl Received {
    /// Whether `user` has accepted the invitation. They may have left the organization since.
    pub(in crate::accounts) fn is_accepted_by(&self, user: UserId) -> bool {
        self.invited.status == InvitationStatus::Accepted && self.accepted_by == Some(user)
    }

    /// Checks that the invitation can be accepted at `now`.
    ///
    /// # Errors
    /// The invitation has expired or was used.
    pub fn check_open(&self, now: Timestamp) -> Result<()> {
        if self.invited.status != InvitationStatus::Pending {
            return Err(Error::Conflict(Conflict::InvitationUsed));
        }
        if self.invited.expires_at <= now {
            return Err(Error::Conflict(Conflict::InvitationExpired));
        }
        Ok(())
    }
}

impl Invitations {
    /// Reads the invitation `id` for `user`.
    ///
    /// # Errors
    /// The user's address is not verified, the invitation does not exist, or it is for another address
    /// ([`ForbiddenReason::NotTheRecipient`]).
    pub async fn received(&self, user: &User, id: InvitationId) -> Result<Received> {
        user.check_verified()?;
        let found = get(&self.dynamodb, &self.invitations, key(id), "reading an invitation").await?.ok_or(NOT_FOUND)?;
        let received = Received {
            invited: Invited::from_item(&found)?,
            accepted_by: ItemReader::new("invitation", &found).optional_parsed(USER_ID)?,
        };
        if received.invited.invitation.email == user.email {
            Ok(received)
        } else {
            Err(Error::Forbidden(ForbiddenReason::NotTheRecipient))
        }
    }

    /// Lists the invitations to `email` that can be accepted at `now`, newest first, with their organizations. The
    /// caller must have proved that the mailbox is theirs, because strangers must not learn of invitations.
    pub async fn received_at(
        &self,
        email: &EmailAddress,
        organizations: &Organizations,
        now: Timestamp,
    ) -> Result<Vec<(Invited, Organization)>> {
        let doing = "listing the invitations to an address";
        let mailboxes = batch_get(&self.dynamodb, &self.invitations, mailboxes(email, now), doing).await?;
        let ids =
            mailboxes.iter().map(|mailbox| ItemReader::new("mailbox", mailbox).optional_set(IDS, InvitationId::parse));
        let ids: Vec<Option<Vec<InvitationId>>> = ids.collect::<Result<_>>()?;
        let keys = ids.into_iter().flatten().flatten().map(key).collect();
        let found = batch_get(&self.dynamodb, &self.invitations, keys, doing).await?;
        let mut received = found.iter().map(Invited::from_item).collect::<Result<Vec<_>>>()?;
        received.retain(|invited| invited.status == InvitationStatus::Pending && invited.expires_at > now);
        received.sort_by_key(|invited| Reverse(invited.invitation.id));
        let mut of = organizations.find_all(received.iter().map(|invited| &invited.invitation.organization)).await?;
        // Invitations to a deleted organization can remain for minutes. No two invitations are to the same
        // organization.
        let with_organization = received.into_iter().filter_map(|invited| {
            let organization = of.remove(&invited.invitation.organization)?;
            Some((invited, organization))
        });
        Ok(with_organization.collect())
    }

    /// Declines the invitation `id` for `user`. A repeated call succeeds. If the invitation is concurrently accepted
    /// and declined, only one of the two calls succeeds.
    ///
    /// # Errors
    /// Same as [`Self::received`], or the invitation was used.
    pub async fn reject(&self, recorder: &Recorder, user: &User, id: InvitationId) -> Result<Invited> {
        let Received { invited, .. } = self.received(user, id).await?;
        if invited.status == InvitationStatus::Rejected {
            return Ok(invited);
        }
        let doing = "declining an invitation";
        let is_theirs = EMAIL.equals(text(&user.email));
        let update = self.change_status(id, REJECTED).only_if(is_theirs);
        let Invitation { organization, .. } = &invited.invitation;
        let entry = Entry::new(Action::InvitationRejected, organization, invited.invitation.target()).of_outsider();
        Transaction::new(doing)
            .update(update)
            .or(Error::Conflict(Conflict::InvitationUsed))
            .record(recorder, entry)?
            .commit(&self.dynamodb)
            .await?;
        Ok(Invited { status: InvitationStatus::Rejected, ..invited })
    }

    /// Builds the write that marks a pending invitation as accepted by `user`, on condition that it is for their
    /// address.
    pub(in crate::accounts) fn accept_by(&self, invitation: &Invitation, user: &User, now: Timestamp) -> Update {
        self.change_status(invitation.id, ACCEPTED)
            .set(USER_ID, text(user.id))
            .set(ACCEPTED_AT, text(now))
            .only_if(EMAIL.equals(text(&user.email)))
            .only_if(EXPIRES_AT.is_above(number(now.as_second())))
    }
}
