//! Invitations to an organization. An owner invites an address, and the recipient accepts by signing up or by moving
//! their account.

pub mod links;
pub mod received_invitations;

use std::{cmp::Reverse, collections::BTreeSet, fmt, iter, time::Duration};

pub use api::account::InvitationStatus;
use aws_sdk_dynamodb::{Client, operation::query::builders::QueryFluentBuilder, types::AttributeValue};

use crate::{
    accounts::{
        email::EmailAddress,
        mail::{EmailMessage, Part},
        members::is_still,
        organizations::{self, Organization, slug_key},
        password::Hasher,
        sessions::Device,
        signup::{Invitee, NewPerson, NewUser, new_user},
        token::{EXPIRES_AT, SecretHash, Token},
        users::{CREATED_AT, EMAIL, ORGANIZATION_ID, ROLE, Role, USER_ID, User, email_key, pk, user_key},
    },
    audit::{self, Action, Entry, Recorder, Target, TargetKind, initial},
    aws::{
        batch::{READS, batch_get, batch_write, delete_request, get_both},
        dynamo::{Item, ItemReader, attributes, get, item, number, query_all, text, texts},
        expression::{Update, query},
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Conflict, Error, ForbiddenReason, Result},
    id::{InvitationId, TenantId, UserId},
    name::{Name, Slug},
    paging::Paging,
    timestamp::Timestamp,
};

/// An invitation that can still be accepted.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The invitation's id, which the link in the email contains.
    pub id: InvitationId,
    /// The invited address, which belongs to the new user or to the account that moves.
    pub email: EmailAddress,
    /// The organization to join.
    pub organization: TenantId,
    /// The role of the new member.
    pub role: Role,
    /// The owner who sent the invitation.
    pub inviter: UserId,
}

/// An invitation that can be accepted, with the hash of the secret in its link. Invitations from version 0.1.0 have no
/// secret.
pub struct PendingInvitation {
    pub invitation: Invitation,
    secret: Option<SecretHash>,
}

impl PendingInvitation {
    /// Whether `token` is the secret in the link, which proves access to the mailbox.
    pub fn is_proven_by(&self, token: Option<&Token>) -> bool {
        let hash = token.map(Token::hash);
        hash.zip(self.secret.as_ref()).is_some_and(|(hash, secret)| hash == *secret)
    }
}

/// An invitation with its link's secret. Only the email contains the secret, so it proves access to the mailbox.
pub struct NewInvitation {
    pub invited: Invited,
    pub token: Token,
}

/// An invitation can be accepted for 7 days.
const LIFETIME_SECONDS: i64 = 7 * 24 * 60 * 60;
const DAY_SECONDS: usize = 24 * 60 * 60;
/// The table's TTL deletes an invitation 30 days after its expiry. Until then, the invitation is reported as expired or
/// used.
const KEPT_SECONDS: i64 = 30 * 24 * 60 * 60;

/// An invitation with its state.
#[derive(Clone, Debug)]
pub struct Invited {
    pub invitation: Invitation,
    pub status: InvitationStatus,
    /// When it expires.
    pub expires_at: Timestamp,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The stored states. The last one is spelled `cancelled` in stored items and `canceled` in the API.
const PENDING: &str = "pending";
const ACCEPTED: &str = "accepted";
const CANCELED: &str = "cancelled";
const REJECTED: &str = "rejected";

attributes! {
    INVITATION_ID = "invitation_id", STATUS = "status", INVITED_BY = "invited_by", ACCEPTED_AT = "accepted_at",
    DELETE_AT = "delete_at",
    // The hash of the secret in the link.
    SECRET_HASH = "secret_hash",
    // In a pointer item, the id of the latest invitation.
    CURRENT = "current",
    // In a mailbox item, the ids of the address's invitations.
    IDS = "ids",
}

crate::from_env! {
    /// The store of invitations, with the other tables that its transactions write to.
    #[derive(Clone)]
    pub struct Invitations {
        dynamodb: Client,
        invitations: String = "INVITATIONS_TABLE",
        users: String = "USERS_TABLE",
        organizations: String = "ORGANIZATIONS_TABLE",
        tokens: String = "TOKENS_TABLE",
    }
}

const NOT_FOUND: Error = Error::NotFound("Invitation not found");
const LISTING: &str = "listing invitations";
/// The index of invitations by organization. It contains only keys and is eventually consistent.
const BY_ORGANIZATION: &str = "by-organization";

/// The index of the write that makes a transaction fail if the caller is no longer an owner.
const OWNER: usize = 0;
/// The maximum number of tries to join while other calls change the organization.
const MAX_TRIES: usize = 5;

impl Invitations {
    /// Invites `email` to the organization of `inviter`, who must be an owner. A pending invitation for the same
    /// address to this organization is canceled, so at most one can be accepted. Neither the outcome nor the duration
    /// reveals whether the address has an account in another organization.
    ///
    /// # Errors
    /// A member has the email ([`Conflict::AlreadyAMember`]), or `inviter` is no longer an owner.
    pub async fn invite(
        &self,
        recorder: &Recorder,
        inviter: &User,
        email: &EmailAddress,
        role: Role,
        now: Timestamp,
    ) -> Result<NewInvitation> {
        let doing = "inviting";
        let organization = inviter.organization.clone();
        let expires_at = Timestamp::from_second(now.as_second() + LIFETIME_SECONDS).map_err(Error::internal(doing))?;
        let (id, email, token) = (InvitationId::generate(), email.clone(), Token::generate());
        let invitation = Invitation { id, email, organization, role, inviter: inviter.id };
        // If another owner invites the same address concurrently, this call starts over and replaces their invitation.
        for _ in 0..MAX_TRIES {
            let previous = self.previous(&invitation).await?;
            let item = invitation.to_item(&token, expires_at, now);
            let mut writes = self
                .point_to(self.only_if_owner(doing, inviter), &invitation, expires_at, previous.as_ref())
                .put_new(&self.invitations, INVITATION_ID, item)
                .update(self.deliver(&invitation, expires_at, now));
            if let Some(Previous { id, pending: true }) = &previous {
                let canceled = Entry::new(Action::InvitationCanceled, &invitation.organization, invitation.target());
                writes = writes.update(self.change_status(id, CANCELED)).record(recorder, canceled)?;
            }
            let created = Entry::new(Action::InvitationCreated, &invitation.organization, invitation.target());
            let writes = writes.record(recorder, created.with([initial("role", role)]))?;
            match writes.first_refused(&self.dynamodb).await? {
                None => {
                    let status = InvitationStatus::Pending;
                    let invited = Invited { invitation, status, expires_at, created_at: now };
                    return Ok(NewInvitation { invited, token });
                }
                Some(OWNER) => return Err(Error::Forbidden(ForbiddenReason::OwnersOnly)),
                Some(_) => {}
            }
        }
        Err(Error::Busy)
    }

    /// Lists the invitations of `organization` that pass `is_listed`, newest first, with current states. They may be older
    /// than any number of others. A new invitation may take a moment to appear.
    pub async fn list(
        &self,
        organization: &TenantId,
        paging: Paging,
        is_listed: impl Fn(&Invited) -> bool,
    ) -> Result<Vec<Invited>> {
        let (mut listed, end) = (Vec::new(), paging.offset.saturating_add(paging.limit));
        for keys in self.keys(organization).await?.chunks(end.clamp(1, READS)) {
            listed.extend(self.read(keys.to_vec()).await?.into_iter().filter(&is_listed));
            if listed.len() >= end {
                break;
            }
        }
        Ok(paging.of(listed))
    }

    /// The keys of the invitations of `organization`, newest first.
    async fn keys(&self, organization: &TenantId) -> Result<Vec<Item>> {
        let query = of_organization(&self.dynamodb, &self.invitations, organization).scan_index_forward(false);
        let found = query_all(query, LISTING).await?;
        found.iter().map(|found| Ok(key(ItemReader::new("invitation", found).text(INVITATION_ID)?))).collect()
    }

    /// Reads invitations, newest first.
    async fn read(&self, keys: Vec<Item>) -> Result<Vec<Invited>> {
        let found = batch_get(&self.dynamodb, &self.invitations, keys, LISTING).await?;
        let mut listed = found.iter().map(Invited::from_item).collect::<Result<Vec<_>>>()?;
        listed.sort_by_key(|listed| Reverse(listed.invitation.id));
        Ok(listed)
    }

    /// Starts a transaction that fails if `by` is no longer an owner of their organization.
    fn only_if_owner(&self, doing: &'static str, by: &User) -> Transaction {
        Transaction::new(doing).check(&self.users, pk(user_key(by.id)), is_still(by, Role::Owner))
    }

    /// Cancels an invitation to the organization of `by`, who must be an owner. If an invitation is concurrently
    /// canceled and accepted, only one of the two calls succeeds.
    ///
    /// # Errors
    /// The organization has no such invitation, it was accepted, or `by` is no longer an owner.
    pub async fn cancel(&self, recorder: &Recorder, by: &User, id: InvitationId) -> Result<Invited> {
        let doing = "canceling an invitation";
        for _ in 0..MAX_TRIES {
            let found = get(&self.dynamodb, &self.invitations, key(id), doing).await?.ok_or(NOT_FOUND)?;
            let invited = Invited::from_item(&found)?;
            if invited.invitation.organization != by.organization {
                return Err(NOT_FOUND);
            }
            match invited.status {
                InvitationStatus::Accepted => return Err(Error::Conflict(Conflict::InvitationUsed)),
                InvitationStatus::Canceled => return Ok(invited),
                InvitationStatus::Pending | InvitationStatus::Rejected => {}
            }
            let is_unchanged = STATUS.equals(text(ItemReader::new("invitation", &found).text(STATUS)?));
            let update = Update::of(&self.invitations, key(id)).set(STATUS, text(CANCELED)).only_if(is_unchanged);
            let entry = Entry::new(Action::InvitationCanceled, &by.organization, invited.invitation.target());
            match self
                .only_if_owner(doing, by)
                .update(update)
                .record(recorder, entry)?
                .first_refused(&self.dynamodb)
                .await?
            {
                None => return Ok(Invited { status: InvitationStatus::Canceled, ..invited }),
                Some(OWNER) => return Err(Error::Forbidden(ForbiddenReason::OwnersOnly)),
                Some(_) => {}
            }
        }
        Err(Error::Busy)
    }

    /// Finds the latest invitation for the same address and organization.
    async fn previous(&self, invitation: &Invitation) -> Result<Option<Previous>> {
        let doing = "looking for an earlier invitation";
        let keys = [
            (&self.invitations, key(pointer(&invitation.organization, &invitation.email))),
            (&self.users, pk(email_key(&invitation.email))),
        ];
        let [pointer, guard] = get_both(&self.dynamodb, keys, doing).await?;
        let id =
            guard.as_ref().and_then(|guard| ItemReader::new("email", guard).optional_text(USER_ID)).unwrap_or_default();
        let user = get(&self.dynamodb, &self.users, pk(format!("user#{id}")), doing).await?;
        let theirs = user.as_ref().and_then(|user| ItemReader::new("user", user).optional_text(ORGANIZATION_ID));
        if theirs == Some(invitation.organization.as_str()) {
            return Err(Error::Conflict(Conflict::AlreadyAMember));
        }
        let Some(pointer) = pointer else { return Ok(None) };
        let id = ItemReader::new("pointer", &pointer).text(CURRENT)?.to_owned();
        let found = get(&self.dynamodb, &self.invitations, key(&id), doing).await?;
        let status = found.as_ref().and_then(|found| ItemReader::new("invitation", found).optional_text(STATUS));
        Ok(Some(Previous { pending: status == Some(PENDING), id }))
    }

    /// Adds the write that makes `invitation` the latest one for its organization and address, on condition that
    /// `previous` is still the latest.
    fn point_to(
        &self,
        writes: Transaction,
        invitation: &Invitation,
        expires_at: Timestamp,
        previous: Option<&Previous>,
    ) -> Transaction {
        let pointer = item([
            (INVITATION_ID, text(pointer(&invitation.organization, &invitation.email))),
            (CURRENT, text(invitation.id)),
            (DELETE_AT, delete_at(expires_at)),
        ]);
        match previous {
            None => writes.put_new(&self.invitations, INVITATION_ID, pointer),
            Some(previous) => writes.put_if(&self.invitations, pointer, CURRENT.equals(text(&previous.id))),
        }
    }

    /// Adds the invitation to the list for its address, which is shown to the recipient.
    fn deliver(&self, invitation: &Invitation, expires_at: Timestamp, now: Timestamp) -> Update {
        Update::of(&self.invitations, key(mailbox(&invitation.email, now)))
            .add(IDS, texts(iter::once(invitation.id.to_string().as_str())))
            .set(DELETE_AT, delete_at(expires_at))
    }

    /// Finds the invitation `id` to the organization with `slug`, and checks that it can be accepted at `now`.
    ///
    /// # Errors
    /// The invitation does not exist, has expired or was used.
    pub async fn pending(&self, id: InvitationId, slug: &Slug, now: Timestamp) -> Result<PendingInvitation> {
        let invitation = linked_item(&self.dynamodb, &self.invitations, &self.organizations, id, slug).await?;
        let record = ItemReader::new("invitation", &invitation);
        let organization: TenantId = record.parsed(ORGANIZATION_ID)?;
        if record.text(STATUS)? != PENDING {
            return Err(Error::Conflict(Conflict::InvitationUsed));
        }
        if record.number(EXPIRES_AT)? <= now.as_second() {
            return Err(Error::Conflict(Conflict::InvitationExpired));
        }
        // If today's rules reject the stored address, its owner could neither sign in nor get email. They need a new
        // invitation, and the inviter is then shown why the address is rejected.
        let expired = |_problems| Error::Conflict(Conflict::InvitationExpired);
        let email = EmailAddress::parse(record.text(EMAIL)?).map_err(expired)?;
        let (role, inviter) = (record.parsed(ROLE)?, record.parsed(INVITED_BY)?);
        let secret = record.optional_text(SECRET_HASH).map(SecretHash::stored);
        Ok(PendingInvitation { invitation: Invitation { id, email, organization, role, inviter }, secret })
    }

    /// Creates a user in the organization that invited them. The token in the link verifies the user's email, because
    /// only the invitation email contains it. Without the token, the user still has to verify the address: the id of
    /// the invitation proves nothing, because the inviter also knows it.
    ///
    /// # Errors
    /// The invitation does not exist, has expired or was used; its email has an account; or its organization was
    /// deleted.
    pub async fn join(
        &self,
        recorder: &Recorder,
        invitee: Invitee,
        device: Device,
        hasher: &Hasher,
    ) -> Result<NewUser> {
        let now = Timestamp::now();
        let pending = self.pending(invitee.invitation, &invitee.slug, now).await?;
        let is_proven = pending.is_proven_by(invitee.token.as_ref());
        let invitation = pending.invitation;
        let password = hasher.hash(invitee.password).await?;
        let person = NewPerson { name: invitee.name, email: invitation.email.clone(), password, device };
        let mut new = new_user(person, invitation.organization.clone(), invitation.role, now)?;
        new.user.email_verified = is_proven;
        for _ in 0..MAX_TRIES {
            let required =
                organizations::requires_two_factor(&self.dynamodb, &self.organizations, &invitation.organization);
            new.user.must_have_two_factor = required.await?.ok_or(NOT_FOUND)?;
            match self.accept(recorder, &invitation, &new, now).await {
                // The organization was deleted, or its two-factor setting has changed.
                Err(Error::Busy) => {}
                accepted => return accepted.map(|()| new),
            }
        }
        Err(Error::Busy)
    }

    /// In one transaction, creates the invited user with their email guard, session and verification token, and marks
    /// the invitation as accepted. Only one of two concurrent calls succeeds.
    async fn accept(&self, recorder: &Recorder, invitation: &Invitation, new: &NewUser, now: Timestamp) -> Result<()> {
        let mark =
            self.change_status(invitation.id, ACCEPTED).set(USER_ID, text(new.user.id)).set(ACCEPTED_AT, text(now));
        let writes = Transaction::new("accepting an invitation")
            .update(mark)
            .or(Error::Conflict(Conflict::InvitationUsed))
            .update(organizations::join(
                &self.organizations,
                &invitation.organization,
                new.user.id,
                new.user.must_have_two_factor,
            ))
            .or(Error::Busy);
        let joined = Entry::new(Action::MemberJoined, &invitation.organization, new.user.target()).by(new.user.actor());
        let writes = writes.record(recorder, joined.with([initial("role", invitation.role)]))?;
        new.writes(recorder, writes, &self.users, &self.tokens, now)?.commit(&self.dynamodb).await
    }

    /// Changes a pending invitation's status.
    fn change_status(&self, id: impl ToString, to: &str) -> Update {
        Update::of(&self.invitations, key(id)).set(STATUS, text(to)).only_if(STATUS.equals(text(PENDING)))
    }
}

/// Reads the item of the invitation `id` to the organization with `slug`. A wrong slug and an unknown id cause the same
/// error, so callers cannot probe for ids.
async fn linked_item(
    dynamodb: &Client,
    invitations: &String,
    organizations: &String,
    id: InvitationId,
    slug: &Slug,
) -> Result<Item> {
    let keys = [(invitations, key(id)), (organizations, pk(slug_key(slug)))];
    let [invitation, slug_guard] = get_both(dynamodb, keys, "reading an invitation").await?;
    let (Some(invitation), Some(slug_guard)) = (invitation, slug_guard) else { return Err(NOT_FOUND) };
    let invites_to = ItemReader::new("invitation", &invitation).text(ORGANIZATION_ID)?;
    let is_theirs = ItemReader::new("slug", &slug_guard).text(ORGANIZATION_ID)? == invites_to;
    if is_theirs { Ok(invitation) } else { Err(NOT_FOUND) }
}

/// Deletes all invitations to `organization`, and the pointers to them. An interrupted call can be repeated.
pub(crate) async fn delete_all(dynamodb: &Client, table: &str, organization: &TenantId) -> Result<()> {
    let doing = "deleting invitations";
    let found = query_all(of_organization(dynamodb, table, organization), doing).await?;
    let ids = found.iter().map(|found| ItemReader::new("invitation", found).text(INVITATION_ID));
    for ids in ids.collect::<Result<Vec<_>>>()?.chunks(100) {
        let keys: Vec<Item> = ids.iter().map(key).collect();
        let invitations = batch_get(dynamodb, table, keys.clone(), doing).await?;
        // An address's invitations share a pointer that can only be found through them, so pointers are deleted first.
        let emails = invitations.iter().map(|found| ItemReader::new("invitation", found).text(EMAIL));
        let emails: BTreeSet<&str> = emails.collect::<Result<_>>()?;
        let pointers = emails.into_iter().map(|email| key(pointer(organization, email)));
        batch_write(dynamodb, table, pointers.map(delete_request), doing).await?;
        batch_write(dynamodb, table, keys.into_iter().map(delete_request), doing).await?;
    }
    Ok(())
}

fn of_organization(dynamodb: &Client, table: &str, organization: &TenantId) -> QueryFluentBuilder {
    query(dynamodb, table, ORGANIZATION_ID.equals(text(organization))).index_name(BY_ORGANIZATION)
}

fn key(id: impl ToString) -> Item {
    item([(INVITATION_ID, text(id))])
}

impl Invitation {
    /// The invitation as an audit log target. It is identified by its address, because the id would be enough to sign
    /// up, and a key that reads the audit log must not be able to do that.
    fn target(&self) -> Target {
        audit::target(TargetKind::Invitation, &self.email, self.email.to_string())
    }

    fn to_item(&self, token: &Token, expires_at: Timestamp, now: Timestamp) -> Item {
        item([
            (INVITATION_ID, text(self.id)),
            (ORGANIZATION_ID, text(&self.organization)),
            (EMAIL, text(&self.email)),
            (ROLE, text(self.role.as_str())),
            (STATUS, text(PENDING)),
            (EXPIRES_AT, number(expires_at.as_second())),
            (DELETE_AT, delete_at(expires_at)),
            (INVITED_BY, text(self.inviter)),
            (SECRET_HASH, text(token.hash().as_str())),
            (CREATED_AT, text(now)),
        ])
    }
}

impl Invited {
    fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("invitation", item);
        let invitation = Invitation {
            id: record.parsed(INVITATION_ID)?,
            email: EmailAddress::stored(record.text(EMAIL)?),
            organization: record.parsed(ORGANIZATION_ID)?,
            role: record.parsed(ROLE)?,
            inviter: record.parsed(INVITED_BY)?,
        };
        let expires_at = Timestamp::from_second(record.number(EXPIRES_AT)?);
        Ok(Self {
            invitation,
            status: match record.text(STATUS)? {
                PENDING => InvitationStatus::Pending,
                ACCEPTED => InvitationStatus::Accepted,
                REJECTED => InvitationStatus::Rejected,
                _ => InvitationStatus::Canceled,
            },
            expires_at: expires_at.map_err(Error::internal("reading an invitation"))?,
            created_at: record.parsed(CREATED_AT)?,
        })
    }
}

/// The earlier invitation that a new one replaces.
struct Previous {
    id: String,
    pending: bool,
}

/// The key of the item that points to an address's latest invitation to an organization.
fn pointer(organization: &TenantId, email: impl fmt::Display) -> String {
    format!("last#{organization}#{email}")
}

/// The key of the item that lists the invitations to an address of a day. Each day has its own, because a list that grew
/// for years could reach DynamoDB's limit of 400 KB, and then the address could not be invited.
fn mailbox(email: &EmailAddress, day: Timestamp) -> String {
    format!("mailbox#{email}#{}", day.day().as_second())
}

/// The keys of the items that list an address's invitations that can be accepted at `now`.
fn mailboxes(email: &EmailAddress, now: Timestamp) -> Vec<Item> {
    let seconds = u64::try_from(LIFETIME_SECONDS).unwrap_or_default();
    let days = (0..=seconds).step_by(DAY_SECONDS).map(|age| mailbox(email, now.before(Duration::from_secs(age))));
    // Version 0.1.0 had one list.
    days.chain([format!("mailbox#{email}")]).map(key).collect()
}

/// When the TTL deletes an invitation's items, in Unix time.
fn delete_at(expires_at: Timestamp) -> AttributeValue {
    number(expires_at.as_second() + KEPT_SECONDS)
}

/// The email with the link to join an organization. Both names are chosen by the inviter, who may be a stranger to the
/// recipient. They appear only in the body, attributed to the inviter, and never in the subject. `stop` is the page that
/// stops the organization's emails.
pub fn invitation_mail(
    base: &BaseUrl,
    inviter: &Name,
    organization: &Organization,
    new: &NewInvitation,
    stop: String,
) -> EmailMessage {
    let (id, token) = (new.invited.invitation.id, new.token.reveal());
    let (slug, name, inviter) = (&organization.slug, organization.name.as_str(), inviter.as_str());
    EmailMessage::unrequested(
        "You are invited to join an organization",
        &[
            Part::Text(format!("{inviter} invited you to join the organization {name}.")),
            Part::Button(
                "Accept invitation",
                format!("{base}/invite?tenantSlug={slug}&invitationId={id}&token={token}"),
            ),
            Part::text("The invitation expires in 7 days."),
            Part::Facts(vec![("Organization slug", slug.to_string()), ("Invitation ID", id.to_string())]),
        ],
        vec![Part::Text(format!(
            "You received this email because {inviter} entered this address. If you do not know {inviter}, ignore this \
             email."
        ))],
        stop,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_valid_invitation_is_in_one_of_the_lists() {
        let email = EmailAddress::parse("bo@example.com").expect("an address");
        let hour = Duration::from_hours(1);
        let now = Timestamp::parse("2026-03-01T05:30:00Z").expect("a time");
        let lists = mailboxes(&email, now);
        for age in 0..=7 * 24 {
            let sent_in = key(mailbox(&email, now.before(hour * age)));
            assert!(lists.contains(&sent_in), "{age} hours ago");
        }
        assert_eq!(lists.len(), 9, "eight days, and the list of version 0.1.0");
    }
}
