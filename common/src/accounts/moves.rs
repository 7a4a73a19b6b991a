//! Moves the account of a user to the organization that invited them. In one transaction, the user leaves the old
//! organization and joins the new one.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        api_keys::ApiKeys,
        invitations::{InvitationStatus, Invitations, Invited, received_invitations::Received},
        members::{Member, MemberIdOrEmail, Members, is_still},
        organizations,
        users::{
            EMAIL, EMAIL_VERIFIED, JOINED_AT, KEY_EPOCH, MOVES, MUST_HAVE_TWO_FACTOR, ORGANIZATION_ID, ROLE, User,
            Users, pk, user_key,
        },
    },
    audit::{Action, Entry, Recorder, initial},
    aws::{
        dynamo::{boolean, number, text},
        expression::Update,
        transaction::Transaction,
    },
    error::{Conflict, Error, Result},
    id::{InvitationId, TenantId},
    timestamp::Timestamp,
};

crate::from_env! {
    #[derive(Clone)]
    pub struct Moves {
        dynamodb: Client,
        invitations: Invitations,
        keys: ApiKeys,
        members: Members,
        users: Users,
        users_table: String = "USERS_TABLE",
        organizations_table: String = "ORGANIZATIONS_TABLE",
    }
}

/// A user in their new organization.
#[derive(Debug)]
pub struct Moved {
    /// The accepted invitation.
    pub invited: Invited,
    pub member: Member,
    /// The previous organization; `None` if the invitation had already been accepted.
    pub left: Option<LeftOrganization>,
}

/// The organization that a user left.
#[derive(Debug)]
pub struct LeftOrganization {
    pub organization: TenantId,
    /// Whether the organization was deleted because the user was its last member.
    pub has_ended: bool,
}

/// The maximum number of tries while other calls change the user, the invitation or the members.
const MAX_TRIES: usize = 5;
const NOT_FOUND: Error = Error::NotFound("Invitation not found");

impl Moves {
    /// Accepts the invitation `id` for `user`, who leaves their organization. Their sessions continue, and their keys
    /// end. If they are the last member, the old organization is deleted, which `may_end` must permit. Accepting the
    /// invitation again succeeds without effect while the user is in the new organization.
    ///
    /// Only one of several concurrent calls for the same user moves them. A call fails if the user has changed
    /// organizations since the call began, because they agreed to leave only the original one.
    ///
    /// # Errors
    /// The user cannot accept the invitation, or it was accepted, canceled or declined in the meantime; the user is
    /// already in the inviting organization; the old organization would have no owner, or would be deleted without
    /// permission; or the user was deleted ([`Error::Unauthorized`]).
    pub async fn accept(
        &self,
        recorder: &Recorder,
        user: &User,
        id: InvitationId,
        may_end: bool,
        now: Timestamp,
    ) -> Result<Moved> {
        let mut current = user.clone();
        for _ in 0..MAX_TRIES {
            let received = self.invitations.received(&current, id).await?;
            if received.is_accepted_by(current.id) {
                // A concurrent call may have moved the user since `user` was read.
                current = self.users.find(user.id).await?.ok_or(Error::Unauthorized)?;
                if current.organization == received.invited.invitation.organization {
                    return self.again(received, &current).await;
                }
            }
            received.check_open(now)?;
            let Invited { invitation, .. } = &received.invited;
            if current.organization == invitation.organization {
                return Err(Error::Conflict(Conflict::AlreadyAMember));
            }
            if current.organization != user.organization {
                return Err(Error::Conflict(Conflict::OrganizationChanged));
            }
            let (to, role) = (invitation.organization.clone(), invitation.role);
            let required = organizations::requires_two_factor(&self.dynamodb, &self.organizations_table, &to).await?;
            let required = required.ok_or(NOT_FOUND)?;
            let moving = Update::of(&self.users_table, pk(user_key(current.id)))
                .set(ORGANIZATION_ID, text(&to))
                .set(ROLE, text(role.as_str()))
                .set(JOINED_AT, text(now))
                .set_all(required.then(|| (MUST_HAVE_TWO_FACTOR, boolean(true))))
                .remove((!required).then_some(MUST_HAVE_TWO_FACTOR))
                .add(KEY_EPOCH, number(1))
                .add(MOVES, number(1))
                .only_if(is_still(&current, current.role))
                .only_if(EMAIL.equals(text(&current.email)).and(EMAIL_VERIFIED.equals(boolean(true))));
            let writes = Transaction::new("moving to another organization")
                .update(self.invitations.accept_by(invitation, &current, now))
                .update(organizations::join(&self.organizations_table, &to, current.id, required))
                .update(moving);
            let (writes, ended) = self.members.leave(writes, &current, may_end, now).await?;
            let has_ended = ended.is_some();
            let writes = if has_ended { self.keys.end_with(&current.organization, writes) } else { writes };
            let leaving = Entry::new(Action::MemberLeft, &current.organization, current.target());
            let leaving = leaving.with(self.keys.ended_with(&current, now).await?);
            let joining = Entry::new(Action::MemberJoined, &to, current.target());
            let joining = joining.with([initial("role", role)]);
            let writes = writes.record_all(recorder, ended.into_iter().chain([leaving, joining]))?;
            match writes.first_refused(&self.dynamodb).await? {
                None => {
                    let left = Some(LeftOrganization { organization: current.organization, has_ended });
                    let user = User {
                        organization: to,
                        role,
                        key_epoch: current.key_epoch + 1,
                        moves: current.moves + 1,
                        must_have_two_factor: required,
                        ..current
                    };
                    let invited = Invited { status: InvitationStatus::Accepted, ..received.invited };
                    return Ok(Moved { invited, member: Member { user, joined_at: now }, left });
                }
                Some(_) => current = self.users.find(user.id).await?.ok_or(Error::Unauthorized)?,
            }
        }
        Err(Error::Busy)
    }

    async fn again(&self, received: Received, user: &User) -> Result<Moved> {
        let member = self.members.find(&user.organization, &MemberIdOrEmail::Id(user.id)).await?;
        Ok(Moved { invited: received.invited, member, left: None })
    }
}
