//! Accepts an invitation with an existing account, for both the page and the API. If the user was the last member of
//! their previous organization, that organization is deleted: its endpoints before the call returns, and the rest by
//! `accounts-purge`.

use crate::{
    accounts::{
        alerts::Alerts,
        api_keys::ApiKeys,
        moves::{LeftOrganization, Moved, Moves},
        organizations::Organizations,
        sessions::Device,
        users::User,
    },
    audit::Recorder,
    base_url::BaseUrl,
    error::Result,
    id::InvitationId,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{delivery::Retention, endpoints::Endpoints},
};

crate::from_env! {
    /// The stores for moving to another organization.
    pub struct Moving {
        alerts: Alerts,
        endpoints: Endpoints,
        keys: ApiKeys,
        moves: Moves,
        organizations: Organizations,
        retention: Retention = Retention::from_env,
    }
}

impl Moving {
    /// Moves `user` to the organization of the invitation `id`, and notifies them by email. Any items left over after
    /// this call have no effect.
    ///
    /// # Errors
    /// Same as [`Moves::accept`].
    pub async fn accept(
        &self,
        recorder: &Recorder,
        user: &User,
        id: InvitationId,
        may_end: bool,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<Moved> {
        let moved = self.moves.accept(recorder, user, id, may_end, now).await?;
        if let Some(left) = &moved.left {
            self.clean_up(user, left, now).await;
            match self.organizations.get(&moved.member.user.organization).await {
                Ok(organization) => self.alerts.moved(&moved.member.user, &organization, device, base, now).await,
                Err(error) => crate::log!("email.failed", about = %user.id, ?error),
            }
        }
        Ok(moved)
    }

    async fn clean_up(&self, user: &User, left: &LeftOrganization, now: Timestamp) {
        let deleted = if left.has_ended {
            self.endpoints.delete_all(&left.organization, self.retention.end(now)).await.map(drop)
        } else {
            self.keys.delete_all_of(&left.organization, user.id).await
        };
        metrics::upkeep("leaving an organization", deleted);
    }
}
