//! Sign-up: creates a user and, for founders, their organization.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        email::EmailAddress,
        mail::Mailer,
        organizations::{Organization, slug_key},
        password::{Hasher, Password, PasswordHash},
        rate_limits::{NOTIFIED, RateLimits, WELCOME_MAIL, known_client_item},
        sessions::{Device, Session},
        token::{TOKEN_HASH, Token},
        users::{EmailUndos, PK, Role, User, email_guard, email_key, is_free, is_kept, pk},
        verification::{verification_item, verification_mail},
    },
    audit::{Action, Entry, Recorder, initial},
    aws::{batch::get_both, transaction::Transaction},
    base_url::BaseUrl,
    error::{Conflict, Error, Result},
    id::{InvitationId, TenantId, UserId},
    name::{Name, Slug},
    telemetry::metrics,
    timestamp::Timestamp,
};

/// The results of a sign-up: the account, the first session, and the token that verifies the email.
pub struct NewUser {
    /// The user. Their email is verified only if they signed up with an invitation's token.
    pub user: User,
    pub password: PasswordHash,
    pub session: Session,
    /// The secret of the session, for the cookie.
    pub session_token: Token,
    /// The secret in the verification email.
    pub verification_token: Token,
    /// The client that signs the user up and gets the first session.
    pub device: Device,
    /// The address for notifications that a founder chose, if it is another one than their own.
    pub notified: Option<EmailAddress>,
}

/// A person who signs up with a new organization.
pub struct Founder {
    pub name: Name,
    /// The email address for signing in.
    pub email: EmailAddress,
    pub password: Password,
    /// The organization's display name.
    pub organization_name: Name,
    /// The unique name of the organization.
    pub organization_slug: Slug,
    /// The organization's address for notifications about failures.
    pub debug_notification_email: EmailAddress,
}

/// A person who signs up by accepting an invitation.
pub struct Invitee {
    /// The id of the invitation, from the link in the email.
    pub invitation: InvitationId,
    /// The unique name of the organization that they join.
    pub slug: Slug,
    pub name: Name,
    pub password: Password,
    /// The secret in the emailed link, which proves access to the mailbox.
    pub token: Option<Token>,
}

/// A person who signs up, with or without an invitation.
pub(crate) struct NewPerson {
    pub name: Name,
    pub email: EmailAddress,
    pub password: PasswordHash,
    pub device: Device,
}

/// Prepares the account of a person who signs up at `now`.
///
/// # Errors
/// The session would end beyond the representable time.
pub(crate) fn new_user(person: NewPerson, organization: TenantId, role: Role, now: Timestamp) -> Result<NewUser> {
    let NewPerson { name, email, password, device } = person;
    let (session_epoch, key_epoch) = (0, 0);
    let id = UserId::generate();
    let (email_verified, chose_email, pending_email) = (false, false, None);
    let email_undos = EmailUndos::default();
    let user = User {
        id,
        name,
        email,
        email_verified,
        chose_email,
        pending_email,
        email_undos,
        organization,
        role,
        session_epoch,
        key_epoch,
        moves: 0,
        has_two_factor: false,
        must_have_two_factor: false,
    };
    let (session, session_token) = Session::start(&user, &device, now)?;
    Ok(NewUser {
        user,
        password,
        session,
        session_token,
        verification_token: Token::generate(),
        device,
        notified: None,
    })
}

crate::from_env! {
    #[derive(Clone)]
    pub struct Accounts {
        dynamodb: Client,
        users: String = "USERS_TABLE",
        organizations: String = "ORGANIZATIONS_TABLE",
        tokens: String = "TOKENS_TABLE",
    }
}

impl Accounts {
    /// Creates a user and the organization that they own. A read finds most conflicts before the costly password hash.
    ///
    /// # Errors
    /// The slug or the email is taken.
    pub async fn found(
        &self,
        recorder: &Recorder,
        founder: Founder,
        device: Device,
        hasher: &Hasher,
    ) -> Result<NewUser> {
        self.check_free(&founder.organization_slug, &founder.email).await?;
        let password = hasher.hash(founder.password).await?;
        let now = Timestamp::now();
        let organization = Organization {
            id: TenantId::generate(),
            name: founder.organization_name,
            slug: founder.organization_slug,
            debug_notification_email: founder.debug_notification_email,
            asks_recipient: true,
            disable_job_failure_notifications: false,
            require_two_factor: false,
            created_at: now,
        };
        let person = NewPerson { name: founder.name, email: founder.email, password, device };
        let mut new = new_user(person, organization.id.clone(), Role::Owner, now)?;
        new.user.chose_email = true;
        new.notified = Some(organization.debug_notification_email.clone()).filter(|address| *address != new.user.email);
        self.create(recorder, &organization, &new, now).await?;
        Ok(new)
    }

    /// Rejects a taken slug or email early, with one read of both guards. Only the transaction in [`Self::create`] is
    /// authoritative.
    async fn check_free(&self, slug: &Slug, email: &EmailAddress) -> Result<()> {
        let guards = [(&self.organizations, pk(slug_key(slug))), (&self.users, pk(email_key(email)))];
        match get_both(&self.dynamodb, guards, "looking up slug and email").await? {
            [Some(_), _] => Err(Error::Conflict(Conflict::SlugTaken(slug.clone()))),
            [None, Some(guard)] if is_kept(&guard, Timestamp::now()) => Err(Error::Conflict(Conflict::EmailTaken)),
            [None, _] => Ok(()),
        }
    }

    /// Creates the user, the organization, their guards, the session and the verification token, in one transaction.
    async fn create(
        &self,
        recorder: &Recorder,
        organization: &Organization,
        new: &NewUser,
        now: Timestamp,
    ) -> Result<()> {
        let writes = Transaction::new("creating an account")
            .put_new(&self.organizations, PK, organization.slug_guard())
            .or(Error::Conflict(Conflict::SlugTaken(organization.slug.clone())))
            .put_new(&self.organizations, PK, organization.to_item(new.user.id));
        let fields = [
            initial("name", organization.name.as_str()),
            initial("slug", &organization.slug),
            initial("debug_notification_email", &organization.debug_notification_email),
        ];
        let entry = Entry::new(Action::OrganizationCreated, &organization.id, organization.target());
        let writes = writes.record(recorder, entry.by(new.user.actor()).with(fields))?;
        new.writes(recorder, writes, &self.users, &self.tokens, now)?.commit(&self.dynamodb).await
    }
}

impl NewUser {
    /// Sends the user the email that verifies their address, unless it is already verified. If sending fails, the user
    /// can request another email. The number of emails to an address is limited, because repeated sign-ups and
    /// deletions could otherwise flood a stranger's mailbox. The address for notifications gets no email yet, but the
    /// sign-up counts toward its limit.
    pub async fn welcome(&self, rate_limits: &RateLimits, mailer: &Mailer, base: &BaseUrl, now: Timestamp) {
        metrics::count("SignedUp");
        let user = &self.user;
        if let Some(address) = &self.notified {
            let counted = rate_limits.may_send(NOTIFIED, address, now).await;
            metrics::upkeep("counting a sign-up", counted.map(drop));
        }
        if !user.email_verified && rate_limits.may_notify(WELCOME_MAIL, user, now).await {
            mailer.send(&user.email, verification_mail(base, &self.verification_token), user.id).await;
        }
    }

    /// Adds the writes for the user and for their email guard, session, verification token and known client.
    pub(crate) fn writes(
        &self,
        recorder: &Recorder,
        writes: Transaction,
        users: &str,
        tokens: &str,
        now: Timestamp,
    ) -> Result<Transaction> {
        let session = self.session.to_item();
        let known_client = known_client_item(self.user.email.as_str(), self.device.address, now);
        let writes = writes
            .put_if(users, email_guard(&self.user.email, self.user.id), is_free(now))
            .or(Error::Conflict(Conflict::EmailTaken))
            .put_new(users, PK, self.user.to_item(&self.password, now))
            .put_new(tokens, TOKEN_HASH, session)
            .put(tokens, known_client)
            .record(recorder, self.session.created(&self.user))?;
        if self.user.email_verified {
            return Ok(writes);
        }
        Ok(writes.put_new(tokens, TOKEN_HASH, verification_item(&self.verification_token, &self.user, now)))
    }
}
