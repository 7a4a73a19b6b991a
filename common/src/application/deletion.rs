//! Deletes an account, and the organization with its last account, for both the page and the API.
//!
//! The caller is first removed like any member, which fails if they are the only owner. If there are no other members,
//! one transaction deletes the user and both guards, marks the organization as deleted, and adds it to the item
//! `deleted`. The transaction fails if a member has joined in the meantime. The endpoints are deleted before the call
//! returns; if a crash prevents that, `accounts-purge` deletes them.

use crate::{
    accounts::{departures::Departures, members::MemberIdOrEmail, password::Guess, sign_in::SignIns, users::User},
    audit::Recorder,
    error::{Conflict, Error, Result},
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{delivery::Retention, endpoints::Endpoints},
};

crate::from_env! {
    /// The stores for deleting an account.
    pub struct Deletions {
        departures: Departures,
        endpoints: Endpoints,
        retention: Retention = Retention::from_env,
    }
}

impl Deletions {
    /// Deletes the account of `user`, who confirms with their password. Deleting the last account also deletes the
    /// organization. Any data left over after this call is unreachable, and `accounts-purge` deletes it.
    ///
    /// # Errors
    /// The password is wrong, or there were too many attempts. [`Conflict::LastOwner`]: the other members would be left
    /// without an owner. [`Error::Unauthorized`]: the account was deleted.
    pub async fn delete(
        &self,
        recorder: &Recorder,
        user: &User,
        sign_ins: &SignIns,
        password: Guess,
        now: Timestamp,
    ) -> Result<()> {
        sign_ins.confirm(user, password, now).await?;
        let removed = match self.departures.remove(recorder, user, &MemberIdOrEmail::Id(user.id)).await {
            Err(Error::Conflict(Conflict::LastOwner)) => self.delete_organization(recorder, user, now).await,
            removed => removed.map(drop),
        };
        removed.map_err(|error| match error {
            // The user was removed in the meantime, or the same call was made twice.
            Error::NotFound(_) => Error::Unauthorized,
            error => error,
        })
    }

    async fn delete_organization(&self, recorder: &Recorder, last: &User, now: Timestamp) -> Result<()> {
        self.departures.remove_with_organization(recorder, last, now).await?;
        let deleted = self.endpoints.delete_all(&last.organization, self.retention.end(now)).await.map(drop);
        metrics::upkeep("deleting an account", deleted);
        Ok(())
    }
}
