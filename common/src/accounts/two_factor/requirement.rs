//! Copies an organization's second-factor requirement to its members' items, which every call with a session reads.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        members::{Member, Members},
        organizations::Organizations,
        users::{MUST_HAVE_TWO_FACTOR, ORGANIZATION_ID, Users},
    },
    aws::{
        dynamo::{boolean, text},
        expression::Update,
        transaction::Transaction,
    },
    error::Result,
    id::TenantId,
};

/// The index of the write that makes the transaction fail if the setting was changed in the meantime.
const SETTING: usize = 0;

crate::from_env! {
    /// The stores for the members and the setting.
    pub(in crate::accounts) struct Requirement {
        dynamodb: Client,
        members: Members,
        organizations: Organizations,
        users: Users,
    }
}

impl Requirement {
    /// Copies the setting `is_required`, which is already stored in `organization`. Each copy is made on condition that
    /// the setting is unchanged, so after concurrent changes, all copies match the last one. When a user joins, the
    /// setting is copied to their item on the same condition. Items that already match are left out, so a repeated call
    /// continues an interrupted one.
    pub(in crate::accounts) async fn copy(&self, organization: &TenantId, is_required: bool) -> Result<()> {
        // The index lags, and the list of users who joined may lack early members.
        let listed = self.members.all(organization).await?;
        let matches = |member: &&Member| member.user.must_have_two_factor == is_required;
        let matching: BTreeSet<_> = listed.iter().filter(matches).map(|member| member.user.id).collect();
        let joined = self.organizations.joined(organization).await?;
        let members: BTreeSet<_> = listed.iter().map(|member| member.user.id).chain(joined).collect();
        for id in members.difference(&matching) {
            let (table, key) = self.users.item(*id);
            let copy = Update::of(table, key)
                .set_all(is_required.then(|| (MUST_HAVE_TWO_FACTOR, boolean(true))))
                .remove((!is_required).then_some(MUST_HAVE_TWO_FACTOR))
                .only_if(ORGANIZATION_ID.equals(text(organization)));
            let writes = Transaction::new("requiring a second factor");
            let writes = self.organizations.check_required(writes, organization, is_required).update(copy);
            if writes.first_refused(&self.dynamodb).await? == Some(SETTING) {
                return Ok(());
            }
        }
        Ok(())
    }
}
