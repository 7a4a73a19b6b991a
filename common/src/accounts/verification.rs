//! Verifies email addresses. A link in an email proves that the user can read the mailbox.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        email::EmailAddress,
        mail::{EmailMessage, Mailer, Part},
        organizations::Organizations,
        suppressions,
        token::{EXPIRES_AT, KIND, TOKEN_HASH, Token, token_key},
        users::{
            CHOSE_EMAIL, CREATED_AT, EMAIL, EMAIL_VERIFIED, PENDING_EMAIL, USER_ID, User, email_guard, email_key,
            is_free, is_kept, pk, user_key,
        },
    },
    audit::{self, Action, Entry, Recorder},
    aws::{
        dynamo::{Item, ItemReader, boolean, get, item, number, put, text},
        expression::Update,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Conflict, Error, Result},
    id::UserId,
    timestamp::Timestamp,
};

/// The link in a verification email works for 24 hours.
const LIFETIME_SECONDS: i64 = 24 * 60 * 60;
/// The kind of verifications in the tokens table.
const EMAIL_VERIFICATION: &str = "email_verification";
/// The kind of a used verification. The item is kept until it expires, so its page can confirm that the address is
/// verified.
const USED_VERIFICATION: &str = "used_email_verification";

pub(crate) fn verification_item(token: &Token, user: &User, now: Timestamp) -> Item {
    item([
        (TOKEN_HASH, text(token.hash().as_str())),
        (KIND, text(EMAIL_VERIFICATION)),
        (USER_ID, text(user.id)),
        (EMAIL, text(user.email_to_verify())),
        (EXPIRES_AT, number(now.as_second() + LIFETIME_SECONDS)),
        (CREATED_AT, text(now)),
    ])
}

crate::from_env! {
    /// The store of verification tokens, and the users table.
    #[derive(Clone)]
    pub struct Verifications {
        dynamodb: Client,
        tokens: String = "TOKENS_TABLE",
        users: String = "USERS_TABLE",
    }
}

/// The state of the token in a link.
#[derive(Debug)]
pub enum LinkState {
    /// The token verifies this user's address.
    Valid(Box<User>),
    /// The token has already verified its user's address.
    Used,
    /// The token is malformed, unknown, expired, or was sent to an address that the user has replaced.
    Invalid,
}

impl Verifications {
    /// Sends `user` another email with a link, unless their address is verified. The caller must have counted the
    /// request. If another account has the pending address, its owner is notified instead, because the user must not
    /// learn whether such an account exists.
    pub async fn send_again(&self, user: &User, mailer: &Mailer, base: &BaseUrl, now: Timestamp) -> Result<()> {
        if user.email_verified {
            return Ok(());
        }
        let to = user.email_to_verify();
        let mail = if *to != user.email && self.is_taken(to).await? {
            taken_mail(base)
        } else {
            verification_mail(base, &self.issue(user, now).await?)
        };
        mailer.send(to, mail, user.id).await;
        Ok(())
    }

    async fn is_taken(&self, email: &EmailAddress) -> Result<bool> {
        let guard = get(&self.dynamodb, &self.users, pk(email_key(email)), "looking up an email").await?;
        Ok(guard.is_some_and(|guard| is_kept(&guard, Timestamp::now())))
    }

    /// Issues a token that verifies the email of `user`. Earlier tokens for the same address stay valid.
    async fn issue(&self, user: &User, now: Timestamp) -> Result<Token> {
        let token = Token::generate();
        put(&self.dynamodb, &self.tokens, verification_item(&token, user, now), "storing a verification").await?;
        Ok(token)
    }

    /// Replaces the address that `user` has to verify with `email`, and returns the changed user. Links sent to other
    /// addresses become invalid. The user signs in with the old address until the new one is verified, so entering
    /// another account's address has no effect. Returns `None` if the user may not replace the address, because their
    /// current address is verified, or because they were invited.
    pub async fn replace_email(&self, recorder: &Recorder, user: &User, email: &EmailAddress) -> Result<Option<User>> {
        let pending = Some(email).filter(|email| **email != user.email);
        let update = Update::of(&self.users, pk(user_key(user.id)))
            .set_all(pending.map(|email| (PENDING_EMAIL, text(email))))
            .remove(pending.is_none().then_some(PENDING_EMAIL))
            .only_if(EMAIL_VERIFIED.equals(boolean(false)))
            .only_if(CHOSE_EMAIL.equals(boolean(true)));
        let writes = Transaction::new("replacing an unverified email").update(update);
        let is_replaced = user.request_email(recorder, writes, pending)?.try_commit(&self.dynamodb).await?;
        Ok(is_replaced.then(|| User { pending_email: pending.cloned(), ..user.clone() }))
    }

    /// Reads the state of the link with this token.
    pub async fn link(&self, token: &Token, now: Timestamp) -> Result<LinkState> {
        let found = get(&self.dynamodb, &self.tokens, token_key(&token.hash()), "reading a verification").await?;
        let Some(found) = found else { return Ok(LinkState::Invalid) };
        let record = ItemReader::new("verification", &found);
        let kind = record.text(KIND)?;
        if ![EMAIL_VERIFICATION, USED_VERIFICATION].contains(&kind) || record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(LinkState::Invalid);
        }
        let id: UserId = record.parsed(USER_ID)?;
        let user = get(&self.dynamodb, &self.users, pk(user_key(id)), "reading a user").await?;
        let Some(user) = user.as_ref().map(User::from_item).transpose()? else { return Ok(LinkState::Invalid) };
        // Tokens from version 0.1.0 do not contain the address.
        let sent_to = record.optional_text(EMAIL).map_or_else(|| user.email.clone(), EmailAddress::stored);
        Ok(match kind {
            _ if sent_to != *user.email_to_verify() => LinkState::Invalid,
            USED_VERIFICATION => LinkState::Used,
            _ => LinkState::Valid(Box::new(user)),
        })
    }

    /// Marks the email of the token's user as verified and invalidates the token, in one transaction, so only one of
    /// two concurrent calls succeeds. A pending address replaces the old one. The transaction then also moves the guard
    /// and, if the old address received the organization's notifications, redirects them to the new one. Returns the
    /// link's state before the call.
    ///
    /// # Errors
    /// Another account now has the pending address.
    pub async fn verify(
        &self,
        recorder: &Recorder,
        token: &Token,
        organizations: &Organizations,
        now: Timestamp,
    ) -> Result<LinkState> {
        let user = match self.link(token, now).await? {
            LinkState::Valid(user) => user,
            other => return Ok(other),
        };
        let is_current = KIND.equals(text(EMAIL_VERIFICATION)).and(EXPIRES_AT.is_above(number(now.as_second())));
        let pending = user.pending_email.as_ref();
        let is_unchanged = pending.map_or(PENDING_EMAIL.is_absent(), |email| PENDING_EMAIL.equals(text(email)));
        let mark = Update::of(&self.users, pk(user_key(user.id)))
            .set(EMAIL_VERIFIED, boolean(true))
            // An earlier link to the current address does not drop a change that was requested since.
            .remove((!user.email_verified).then_some(PENDING_EMAIL))
            .only_if(EMAIL.equals(text(&user.email)))
            .only_if(is_unchanged);
        let use_up =
            Update::of(&self.tokens, token_key(&token.hash())).set(KIND, text(USED_VERIFICATION)).only_if(is_current);
        let mut writes = Transaction::new("verifying an email").update(use_up);
        let new = user.email_to_verify();
        writes = writes.delete(&self.tokens, suppressions::key(new));
        if *new == user.email {
            writes = writes.update(mark);
        } else {
            writes = writes
                .update(mark.set(EMAIL, text(new)).only_if(EMAIL_VERIFIED.equals(boolean(false))))
                .put_if(&self.users, email_guard(new, user.id), is_free(now))
                .delete(&self.users, pk(email_key(&user.email)));
            writes = organizations.with_notifications_moved(recorder, writes, &user, new).await?;
        }
        if *new != user.email || !user.email_verified {
            let entry = Entry::new(Action::EmailVerified, &user.organization, user.target()).by(user.actor());
            let replaced = (*new != user.email)
                .then(|| audit::change("email", Some(user.email.to_string()), Some(new.to_string())));
            writes = writes.record(recorder, entry.with(replaced))?;
        }
        if writes.try_commit(&self.dynamodb).await? {
            return Ok(LinkState::Valid(user));
        }
        if *new != user.email && self.is_taken(new).await? {
            return Err(Error::Conflict(Conflict::EmailTaken));
        }
        self.link(token, now).await.map(|link| if let LinkState::Valid(_) = link { LinkState::Invalid } else { link })
    }
}

/// The email with the link that verifies an address. It does not contain a name: otherwise, anyone could send a
/// stranger a message by signing up with the stranger's address and a name of their choice.
pub fn verification_mail(base: &BaseUrl, token: &Token) -> EmailMessage {
    EmailMessage::new(
        "Confirm your email address",
        &[
            Part::text("Confirm your email address to finish your sign-up."),
            Part::Button("Confirm email address", format!("{base}/verify-email?token={}", token.reveal())),
            Part::text("The link works once and expires in 24 hours."),
        ],
        &[Part::text(
            "You received this email because this address was entered during a sign-up. If you did not sign up, ignore \
             this email: without the confirmation, the account cannot be used.",
        )],
    )
    .requested()
}

/// The email to an account's owner after another person entered the owner's address. None of its text comes from that
/// person.
pub(super) fn taken_mail(base: &BaseUrl) -> EmailMessage {
    EmailMessage::new(
        "You already have an account",
        &[
            Part::text(
                "This address was entered for another account, but you already have an account with it. Nothing has changed.",
            ),
            Part::Button("Sign in", format!("{base}/signin")),
            Part::text("If you forgot the password, choose a new one."),
            Part::Link("Reset password".to_owned(), format!("{base}/reset-password")),
        ],
        &[Part::text(
            "You received this email because this address was entered for an account. If you did not enter it, ignore \
             this email.",
        )],
    )
}
