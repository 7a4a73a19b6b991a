//! Invites people to an organization by email.

use crate::{
    accounts::{
        alerts::Alerts,
        consent::Consents,
        email::EmailAddress,
        invitations::{Invitations, Invited, NewInvitation, invitation_mail},
        mail::Mailer,
        organizations::Organizations,
        rate_limits::{INVITATION_MAIL, RateLimits},
        users::{Role, User},
    },
    audit::Recorder,
    base_url::BaseUrl,
    error::{Conflict, Error, Result},
    timestamp::Timestamp,
};

crate::from_env! {
    /// The stores and the mailer for invitations.
    pub struct Inviting {
        alerts: Alerts,
        rate_limits: RateLimits,
        consents: Consents,
        invitations: Invitations,
        mailer: Mailer,
        organizations: Organizations,
    }
}

impl Inviting {
    /// Invites `email` to the organization of `inviter`, and sends the invitation. The caller must have checked that
    /// `inviter` may invite. Each attempt is counted. If the address has got too many invitations, from any
    /// organizations, this one is stored and shown to owners, but not sent.
    ///
    /// # Errors
    /// There were too many invitations (`Error::TooMany`), the address is on the suppression list or its owner stopped
    /// the organization's emails, or it belongs to a member.
    pub async fn invite(
        &self,
        recorder: &Recorder,
        inviter: &User,
        email: &EmailAddress,
        role: Role,
        base: &BaseUrl,
    ) -> Result<Invited> {
        let now = Timestamp::now();
        self.rate_limits.count_invitation(inviter, email, now).await?;
        if self.mailer.suppressed(email).await?.is_some()
            || self.consents.is_stopped(&inviter.organization, email).await?
        {
            return Err(Error::Conflict(Conflict::EmailSuppressed));
        }
        let new = self.invitations.invite(recorder, inviter, email, role, now).await?;
        if role == Role::Owner {
            self.alerts.owner_invited(inviter, email, base, now).await;
        }
        if self.rate_limits.may_send(INVITATION_MAIL, email, now).await? {
            self.send(inviter, email, &new, base, now).await?;
        } else {
            crate::log!("email.withheld", user = %inviter.id);
        }
        Ok(new.invited)
    }

    async fn send(
        &self,
        inviter: &User,
        email: &EmailAddress,
        new: &NewInvitation,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<()> {
        let organization = self.organizations.get(&inviter.organization).await?;
        let stop = self.consents.link(base, &organization.id, email, now).await?;
        let mail = invitation_mail(base, &inviter.name, &organization, new, stop);
        self.mailer.send(email, mail, new.invited.invitation.id).await;
        Ok(())
    }
}
