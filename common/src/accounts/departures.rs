//! Leaving an organization, which deletes the member's account.

use crate::{
    accounts::{
        api_keys::ApiKeys,
        members::{Member, MemberIdOrEmail, Members},
        users::User,
    },
    audit::Recorder,
    error::Result,
    telemetry::metrics,
    timestamp::Timestamp,
};

crate::from_env! {
    /// The stores for removing a member.
    #[derive(Clone)]
    pub struct Departures {
        keys: ApiKeys,
        members: Members,
    }
}

impl Departures {
    /// Removes a member of the organization of `by`, who must be an owner or the member. The member's personal keys stop
    /// working with the account, and the keys' items are deleted.
    ///
    /// # Errors
    /// Same as [`Members::remove`].
    pub async fn remove(&self, recorder: &Recorder, by: &User, named: &MemberIdOrEmail) -> Result<Member> {
        let member = self.members.remove(recorder, by, named, &self.keys).await?;
        metrics::upkeep("removing a member", self.keys.delete_all_of(&by.organization, member.user.id).await);
        Ok(member)
    }

    /// Deletes the account of `last`, the only member, and their organization.
    ///
    /// # Errors
    /// Same as [`Members::delete_with_organization`].
    pub async fn remove_with_organization(&self, recorder: &Recorder, last: &User, now: Timestamp) -> Result<()> {
        self.members.delete_with_organization(recorder, last, &self.keys, now).await
    }
}
