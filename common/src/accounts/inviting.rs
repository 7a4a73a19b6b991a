//! Invites people to an organization by email.

use crate::{
    accounts::{
        attempts::Attempts,
        email::Email,
        invitations::{Invitations, Invited, invitation_mail},
        mail::Mailer,
        organizations::Organizations,
        users::{Role, User},
    },
    base_url::BaseUrl,
    error::{Conflict, Error, Result},
    timestamp::Timestamp,
};

crate::from_env! {
    /// The stores and the mailer for invitations.
    pub struct Inviting {
        attempts: Attempts,
        invitations: Invitations,
        mailer: Mailer,
        organizations: Organizations,
    }
}

impl Inviting {
    /// Invites `email` to the organization of `inviter`, and sends the invitation. The caller must have checked that
    /// `inviter` may invite. Each attempt is counted.
    ///
    /// # Errors
    /// There were too many invitations (`Error::TooMany`), the address is on the suppression list, or it belongs to a
    /// member.
    pub async fn invite(&self, inviter: &User, email: &Email, role: Role, base: &BaseUrl) -> Result<Invited> {
        let now = Timestamp::now();
        self.attempts.count_invitation(inviter.id, email, now).await?;
        if self.mailer.suppressed(email).await?.is_some() {
            return Err(Error::Conflict(Conflict::EmailSuppressed));
        }
        let new = self.invitations.invite(inviter, email, role, now).await?;
        let organization = self.organizations.get(&inviter.organization).await?;
        let mail = invitation_mail(base, &inviter.name, &organization, &new);
        self.mailer.send(email, mail, new.invited.invitation.id).await;
        Ok(new.invited)
    }
}
