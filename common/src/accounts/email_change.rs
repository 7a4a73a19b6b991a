//! Changes the verified address of an account. A link sent to the new address completes the change, and a link sent to
//! the old address can undo it for a day.
//!
//! Without the undo, an intruder with a session could take over the account. The old address therefore stays reserved
//! for its user until the undo link expires. An undo also reverts all later changes, ends sessions and personal keys,
//! replaces the password, which the intruder could have reset in the meantime, and removes a second factor that was
//! enabled after the change.
//!
//! Like all emails about accounts, the email to the old address is sent once, after the write. If the process dies in
//! between, only operators can restore the address. An outbox would have to store the link's secret, and an email sent
//! before the write could report a change that then fails.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        alerts::from,
        api_keys::ApiKeys,
        email::EmailAddress,
        mail::{EmailMessage, Mailer, Part, unhurried},
        organizations::Organizations,
        password::{Hasher, Password},
        rate_limits::{RateLimits, WELCOME_MAIL},
        sessions::{Device, Session, Sessions},
        suppressions,
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH, Token, token_key},
        two_factor::{self, FACTOR},
        users::{
            CREATED_AT, EMAIL, EMAIL_UNDOS, EMAIL_VERIFIED, KEY_EPOCH, PASSWORD_HASH, PENDING_EMAIL, PK, RESERVED_FOR,
            RESERVED_UNTIL, SESSION_EPOCH, TWO_FACTOR_SINCE, USER_ID, User, Users, email_guard, email_key, is_free,
            is_kept, pk, user_key,
        },
        verification::{Verifications, taken_mail},
    },
    audit::{self, Action, Entry, Recorder},
    aws::{
        dynamo::{Attribute, Item, ItemReader, boolean, get, item, number, put, text},
        expression::{Condition, Update},
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Conflict, Error, Result},
    id::UserId,
    telemetry::metrics,
    timestamp::Timestamp,
};

/// Both links work for 24 hours.
const LIFETIME_SECONDS: i64 = 24 * 60 * 60;
/// The kinds of these tokens in the tokens table.
const CHANGE: &str = "email_change";
const UNDO: &str = "email_undo";
/// For a change, the hash of the session that requested it.
const SESSION: Attribute = Attribute("session");
/// The maximum number of tries while other calls change the user.
const MAX_TRIES: usize = 5;

crate::from_env! {
    /// The stores and the mailer for address changes.
    #[derive(Clone)]
    pub struct EmailChanges {
        rate_limits: RateLimits,
        keys: ApiKeys,
        mailer: Mailer,
        sessions: Sessions,
        users: Users,
        verifications: Verifications,
        dynamodb: Client,
        tokens_table: String = "TOKENS_TABLE",
        users_table: String = "USERS_TABLE",
    }
}

/// The purpose of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Changes the address.
    Change,
    /// Undoes a change.
    Undo,
}

/// A valid link.
#[derive(Debug)]
pub struct ChangeLink {
    pub purpose: Purpose,
    pub user: User,
    /// The user's address after the link is used.
    pub email: EmailAddress,
    hash: SecretHash,
    /// When the link was issued; for an undo, when the address was changed.
    created_at: Timestamp,
    /// The session that requested the change.
    session: Option<Session>,
}

impl EmailChanges {
    /// Sends a link to `email` that makes it the address of `user`. If the current address is unverified and was chosen
    /// by the user, links sent to that address stop working ([`Verifications::replace_email`]). Otherwise, the link
    /// works only while `session` lasts, so ending an intruder's session also voids the intruder's requests. Links from
    /// earlier requests stop working. Neither the outcome nor the duration reveals whether `email` has an account; if
    /// it does, its owner gets an email instead. An address that has got too many emails gets none.
    ///
    /// # Errors
    /// The current address was chosen by an inviter and is not verified; there were too many requests
    /// ([`Error::TooMany`]); or the address or the account changed in the meantime ([`Error::Busy`]).
    pub async fn request(
        &self,
        recorder: &Recorder,
        user: &User,
        session: &Session,
        email: &EmailAddress,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<()> {
        if !user.chose_email {
            user.check_verified()?;
        }
        self.rate_limits.count_replaced_email(user.id, now).await?;
        let may_send = self.rate_limits.may_send(WELCOME_MAIL, email, now).await?;
        let send = async {
            if !may_send {
                crate::log!("email.withheld", user = %user.id);
            }
            if !user.email_verified {
                return match self.verifications.replace_email(recorder, user, email).await? {
                    Some(user) if may_send => self.verifications.send_again(&user, &self.mailer, base, now).await,
                    _ => Ok(()),
                };
            }
            let token = Token::generate();
            let update = Update::of(&self.users_table, pk(user_key(user.id)))
                .set(PENDING_EMAIL, text(email))
                .only_if(EMAIL.equals(text(&user.email)).and(EMAIL_VERIFIED.equals(boolean(true))))
                .only_if(user.is_in_organization());
            let writes = Transaction::new("requesting a change of an email").update(update).or(Error::Busy);
            user.request_email(recorder, writes, Some(email))?.commit(&self.dynamodb).await?;
            let guard = get(&self.dynamodb, &self.users_table, pk(email_key(email)), "looking up an email").await?;
            let mail = if guard.is_some_and(|guard| is_kept_from(&guard, user.id, now)) {
                taken_mail(base)
            } else {
                let mut change = token_item(CHANGE, &token, user.id, email, now);
                change.extend([SESSION.with(text(session.hash().as_str()))]);
                put(&self.dynamodb, &self.tokens_table, change, "storing a change of an email").await?;
                change_mail(base, &token)
            };
            if may_send {
                self.mailer.send(email, mail, user.id).await;
            }
            Ok(())
        };
        unhurried(send).await
    }

    /// Finds the link with this token. Returns `None` if the link is unknown, used or expired, or if a later request or
    /// an undo has voided it.
    pub async fn link(&self, token: &Token, now: Timestamp) -> Result<Option<ChangeLink>> {
        let hash = token.hash();
        let found = get(&self.dynamodb, &self.tokens_table, token_key(&hash), "reading a change of an email").await?;
        let Some(found) = found else { return Ok(None) };
        let record = ItemReader::new("change of an email", &found);
        let purpose = match record.text(KIND)? {
            CHANGE => Purpose::Change,
            UNDO => Purpose::Undo,
            _ => return Ok(None),
        };
        if record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        let Some(user) = self.users.find(record.parsed(USER_ID)?).await? else { return Ok(None) };
        let email = EmailAddress::stored(record.text(EMAIL)?);
        let session = match record.optional_text(SESSION) {
            Some(hash) => self.sessions.stored(&SecretHash::stored(hash), now).await?,
            None => None,
        };
        let session = session.filter(|session| session.is_of(&user));
        let works = match purpose {
            Purpose::Change => {
                let is_requested = user.email_verified && user.pending_email.as_ref() == Some(&email);
                // The session may have been restricted since the request.
                is_requested && session.is_some() && user.check_two_factor().is_ok()
            }
            Purpose::Undo => user.email_undos.before(&hash).is_some(),
        };
        Ok(works.then_some(ChangeLink { purpose, user, email, hash, created_at: record.parsed(CREATED_AT)?, session }))
    }

    /// Changes the user's address, and emails the old address a link that undoes the change. All sessions end, except
    /// the one that requested the change. Returns `None` if the link no longer works.
    ///
    /// # Errors
    /// Another account now has the address ([`Conflict::EmailTaken`]).
    pub async fn change(
        &self,
        recorder: &Recorder,
        token: &Token,
        organizations: &Organizations,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<Option<ChangeLink>> {
        let undo = Token::generate();
        for _ in 0..MAX_TRIES {
            let Some(link) = self.link(token, now).await?.filter(|link| link.purpose == Purpose::Change) else {
                return Ok(None);
            };
            let ChangeLink { user, email, hash, session, .. } = &link;
            let until = now.as_second() + LIFETIME_SECONDS;
            let mark = self
                .sessions
                .next_epoch(user)
                .set(EMAIL, text(email))
                .set(EMAIL_UNDOS, user.email_undos.with(&undo.hash(), until, now).text())
                .remove([PENDING_EMAIL])
                .only_if(EMAIL.equals(text(&user.email)).and(EMAIL_VERIFIED.equals(boolean(true))))
                .only_if(PENDING_EMAIL.equals(text(email)))
                .only_if(user.email_undos.are_unchanged());
            let reserved = item([
                (PK, text(email_key(&user.email))),
                (RESERVED_FOR, text(user.id)),
                (RESERVED_UNTIL, number(until)),
            ]);
            let [old, new] = [&user.email, email].map(|email| Some(email.to_string()));
            let entry = Entry::new(Action::EmailChanged, &user.organization, user.target()).by(user.actor());
            let mut writes = Transaction::new("changing an email")
                .delete_if(&self.tokens_table, token_key(hash), is_current(CHANGE, now))
                .update(mark)
                .put_if(&self.users_table, email_guard(email, user.id), is_free_for(user.id, now))
                .put_if(&self.users_table, reserved, USER_ID.equals(text(user.id)))
                .put_new(&self.tokens_table, TOKEN_HASH, token_item(UNDO, &undo, user.id, &user.email, now))
                .delete(&self.tokens_table, suppressions::key(email))
                .record(recorder, entry.with([audit::change("email", old, new)]))?;
            if let Some(session) = session {
                writes = writes.update(self.sessions.keep(user, session));
            }
            let writes = match organizations.with_notifications_moved(recorder, writes, user, email).await {
                // The user has moved to another organization, and the previous one was deleted.
                Err(Error::Busy) => continue,
                moved => moved?,
            };
            if writes.try_commit(&self.dynamodb).await? {
                self.mailer.send(&user.email, changed_mail(base, &undo, device, now), user.id).await;
                return Ok(Some(link));
            }
            self.check_free(email, user.id, now).await?;
        }
        Err(Error::Busy)
    }

    /// Restores the user's old address, ends their sessions, personal keys and links, and replaces the password with a
    /// random one. A second factor that was enabled after the change is removed, because the intruder's app would lock
    /// the user out. The caller lets the user choose a new password. Returns the changed user, or `None` if the link no
    /// longer works.
    ///
    /// # Errors
    /// Another account now has the address ([`Conflict::EmailTaken`]).
    pub async fn undo(
        &self,
        recorder: &Recorder,
        token: &Token,
        organizations: &Organizations,
        hasher: &Hasher,
        now: Timestamp,
    ) -> Result<Option<User>> {
        for _ in 0..MAX_TRIES {
            let Some(link) = self.link(token, now).await?.filter(|link| link.purpose == Purpose::Undo) else {
                return Ok(None);
            };
            let ChangeLink { user, email, hash, created_at, .. } = link;
            let Some(earlier) = user.email_undos.before(&hash) else { return Ok(None) };
            let Some(since) = self.users.two_factor_since(user.id).await? else { return Ok(None) };
            let is_newer = since.as_ref().is_some_and(|since| *since >= created_at);
            let password = hasher.hash(Password::random()).await?;
            let mark = Update::of(&self.users_table, pk(user_key(user.id)))
                .set(EMAIL, text(&email))
                .set(EMAIL_VERIFIED, boolean(true))
                .set(EMAIL_UNDOS, earlier.text())
                .set(PASSWORD_HASH, text(password.as_str()))
                .set(KEY_EPOCH, number(user.key_epoch + 1))
                .add(SESSION_EPOCH, number(1))
                .remove([PENDING_EMAIL])
                .only_if(EMAIL.equals(text(&user.email)))
                .only_if(KEY_EPOCH.equals(number(user.key_epoch)).or(KEY_EPOCH.is_absent()))
                .only_if(user.email_undos.are_unchanged())
                .only_if(match since {
                    Some(since) => TWO_FACTOR_SINCE.equals(text(since)),
                    None => TWO_FACTOR_SINCE.is_absent(),
                });
            let mark = if is_newer { mark.remove(FACTOR) } else { mark };
            let [old, new] = [&user.email, &email].map(|email| Some(email.to_string()));
            // The person who opens the link is the owner of the old address, not the one who changed it.
            let owner = User { email: email.clone(), ..user.clone() };
            let entry = Entry::new(Action::EmailRestored, &user.organization, user.target()).by(owner.actor());
            let ended = self.keys.ended_with(&user, now).await?;
            let mut writes = Transaction::new("undoing the change of an email")
                .delete_if(&self.tokens_table, token_key(&hash), is_current(UNDO, now))
                .update(mark)
                .record(
                    recorder,
                    entry.with([audit::change("email", old, new), audit::hidden("password")]).with(ended),
                )?;
            if is_newer {
                writes = writes.record(recorder, two_factor::entry(Action::TwoFactorDisabled, &user))?;
            }
            // The user may already have changed the address back.
            if email != user.email {
                writes = writes
                    .put_if(&self.users_table, email_guard(&email, user.id), is_free_for(user.id, now))
                    .delete_if(&self.users_table, pk(email_key(&user.email)), USER_ID.equals(text(user.id)));
            }
            let writes = match organizations.with_notifications_moved(recorder, writes, &user, &email).await {
                // The user has moved to another organization, and the previous one was deleted.
                Err(Error::Busy) => continue,
                moved => moved?,
            };
            if writes.try_commit(&self.dynamodb).await? {
                metrics::upkeep("undoing the change of an email", self.keys.delete_ended(&user).await);
                return self.users.find(user.id).await;
            }
            self.check_free(&email, user.id, now).await?;
        }
        Err(Error::Busy)
    }

    /// Checks that no other user has the address.
    async fn check_free(&self, email: &EmailAddress, user: UserId, now: Timestamp) -> Result<()> {
        let guard = get(&self.dynamodb, &self.users_table, pk(email_key(email)), "looking up an email").await?;
        if guard.is_some_and(|guard| is_kept_from(&guard, user, now)) {
            return Err(Error::Conflict(Conflict::EmailTaken));
        }
        Ok(())
    }
}

fn token_item(kind: &str, token: &Token, user: UserId, email: &EmailAddress, now: Timestamp) -> Item {
    item([
        (TOKEN_HASH, text(token.hash().as_str())),
        (KIND, text(kind)),
        (USER_ID, text(user)),
        (EMAIL, text(email)),
        (EXPIRES_AT, number(now.as_second() + LIFETIME_SECONDS)),
        (CREATED_AT, text(now)),
    ])
}

fn is_current(kind: &str, now: Timestamp) -> Condition {
    KIND.equals(text(kind)).and(EXPIRES_AT.is_above(number(now.as_second())))
}

/// The condition that an address is available, or reserved for `user`.
fn is_free_for(user: UserId, now: Timestamp) -> Condition {
    is_free(now).or(RESERVED_FOR.equals(text(user)))
}

/// Whether the guard of an address reserves it for a user other than `user`.
fn is_kept_from(guard: &Item, user: UserId, now: Timestamp) -> bool {
    let (record, user) = (ItemReader::new("email", guard), user.to_string());
    let holder = record.optional_text(USER_ID).or(record.optional_text(RESERVED_FOR));
    is_kept(guard, now) && holder != Some(&user)
}

/// The email with the link that changes an address. It does not contain a name, because the address may be a
/// stranger's.
fn change_mail(base: &BaseUrl, token: &Token) -> EmailMessage {
    EmailMessage::new(
        "Confirm your new email address",
        &[
            Part::text("Confirm this address to use it for your account."),
            Part::Button("Confirm email address", format!("{base}/verify-email?token={}", token.reveal())),
            Part::text("The link works once and expires in 24 hours. Until then, sign in with your current address."),
        ],
        &[Part::text(
            "You received this email because this address was entered for an account. If you did not enter it, ignore \
             this email: without the confirmation, nothing changes.",
        )],
    )
    .requested()
}

/// The email to the old address, with the link that undoes the change. It omits the new address, which may be an
/// intruder's and which the reader does not need.
fn changed_mail(base: &BaseUrl, undo: &Token, device: &Device, now: Timestamp) -> EmailMessage {
    EmailMessage::new(
        "The email address of your account was changed",
        &[
            Part::text(
                "Your account now has another email address, and all other sessions have ended. If you changed it, ignore \
                 this email.",
            ),
            Part::Facts(from(&device.address.to_string(), device.agent.as_deref(), now)),
            Part::text(
                "If you did not change it, undo the change within 24 hours. This also ends all sessions, revokes your personal \
                 API keys, removes a second factor that was enabled after the change, and lets you choose a new password.",
            ),
            Part::Button("Undo the change", format!("{base}/verify-email?token={}", undo.reveal())),
        ],
        &[Part::text("You received this email because this was your account's address.")],
    )
}
