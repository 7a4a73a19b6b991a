//! Resets forgotten passwords. A link in an email proves access to the mailbox. A reset ends all sessions and personal
//! keys.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        alerts::Alerts,
        api_keys::{ApiKeys, KeyRecord},
        email::EmailAddress,
        mail::{EmailMessage, Mailer, Part, unhurried},
        organizations::Organizations,
        password::PasswordHash,
        rate_limits::{ClientAddress, RateLimits},
        suppressions,
        token::{EXPIRES_AT, KIND, TOKEN_HASH, Token, token_key},
        two_factor::{self, FACTOR},
        users::{
            CREATED_AT, EMAIL, EMAIL_VERIFIED, KEY_EPOCH, MOVES, PASSWORD_HASH, PENDING_EMAIL, SESSION_EPOCH, USER_ID,
            User, Users, pk, user_key,
        },
    },
    audit::{self, Action, Entry, Recorder},
    aws::{
        dynamo::{ItemReader, boolean, get, item, number, put, text},
        expression::Update,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Error, Result},
    id::UserId,
    telemetry::metrics,
    timestamp::Timestamp,
};

/// The link in the email works for an hour.
const LIFETIME_SECONDS: i64 = 60 * 60;
/// The maximum number of tries for a reset that conflicts with other changes to the user.
const MAX_TRIES: usize = 5;
/// The kind of reset tokens in the tokens table.
const PASSWORD_RESET: &str = "password_reset";

crate::from_env! {
    /// The tables and the mailer for password resets.
    #[derive(Clone)]
    pub struct PasswordResets {
        alerts: Alerts,
        rate_limits: RateLimits,
        users: Users,
        mailer: Mailer,
        dynamodb: Client,
        tokens_table: String = "TOKENS_TABLE",
        users_table: String = "USERS_TABLE",
    }
}

impl PasswordResets {
    /// Sends a link to `email`, if it has an account. Neither the outcome nor the duration reveals whether it has one.
    ///
    /// # Errors
    /// There were too many requests ([`Error::TooMany`]).
    pub async fn request(
        &self,
        email: &EmailAddress,
        client: ClientAddress,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<()> {
        self.rate_limits.count_reset(email, client, now).await?;
        let send = async {
            if let Some((user, _)) = self.users.credentials(Some(email)).await? {
                let token = self.issue(&user, now).await?;
                self.mailer.send(&user.email, reset_mail(base, &token), user.id).await;
            }
            Ok(())
        };
        unhurried(send).await
    }

    /// Finds the user whose password `token` resets: the holder of the address that the token was sent to. The token must
    /// not have expired, and the user must not have reset the password since then.
    ///
    /// If the account was deleted since then and an unverified one has the address, the token resets that one. Without
    /// this rule, a stranger who signed up with another person's address could void the person's links, by deleting the
    /// account and signing up again.
    ///
    /// # Errors
    /// There is no such user ([`Error::InvalidToken`]).
    pub async fn user(&self, token: &Token, now: Timestamp) -> Result<User> {
        let found = get(&self.dynamodb, &self.tokens_table, token_key(&token.hash()), "reading a reset").await?;
        let found = found.ok_or(Error::InvalidToken)?;
        let record = ItemReader::new("reset", &found);
        if record.text(KIND)? != PASSWORD_RESET || record.number(EXPIRES_AT)? <= now.as_second() {
            return Err(Error::InvalidToken);
        }
        let (email, id): (_, UserId) = (EmailAddress::stored(record.text(EMAIL)?), record.parsed(USER_ID)?);
        let resets = record.number(KEY_EPOCH)? - record.optional_number(MOVES).unwrap_or(0);
        let (user, _) = self.users.credentials(Some(&email)).await?.ok_or(Error::InvalidToken)?;
        let is_valid = if user.id == id { user.key_epoch - user.moves == resets } else { !user.email_verified };
        if is_valid && user.email == email { Ok(user) } else { Err(Error::InvalidToken) }
    }

    /// Sets the password of `user`, as read by [`PasswordResets::user`], to `new`. The same transaction ends all the
    /// user's sessions and personal keys, invalidates this token and all earlier ones, and marks the email as verified
    /// and not suppressed, because the token proves access to the mailbox. A requested change of the email is dropped.
    /// If the email was not verified before, a stranger may have signed up with it, so the account's second factor is
    /// removed, and notifications of the organization that it founded go to the user. Only one of several concurrent
    /// resets succeeds. The user is notified by email.
    ///
    /// Returns the organization's keys that the user created, which still work.
    ///
    /// A concurrent change to the user's sessions does not stop a reset, and a reset that conflicts with a move or a
    /// verification is tried again. Otherwise, a signed-in intruder could block resets by repeating such changes.
    ///
    /// # Errors
    /// Another reset came first, or the token has expired ([`Error::InvalidToken`]).
    pub async fn reset(
        &self,
        recorder: &Recorder,
        user: &User,
        token: &Token,
        new: &PasswordHash,
        keys: &ApiKeys,
        organizations: &Organizations,
        base: &BaseUrl,
    ) -> Result<Vec<KeyRecord>> {
        let mut user = user.clone();
        for _ in 0..MAX_TRIES {
            let now = Timestamp::now();
            let is_current = KIND.equals(text(PASSWORD_RESET)).and(EXPIRES_AT.is_above(number(now.as_second())));
            let change = Update::of(&self.users_table, pk(user_key(user.id)))
                .set(PASSWORD_HASH, text(new.as_str()))
                .set(EMAIL_VERIFIED, boolean(true))
                .set(KEY_EPOCH, number(user.key_epoch + 1))
                .add(SESSION_EPOCH, number(1))
                // An intruder may have requested the change.
                .remove([PENDING_EMAIL])
                .only_if(EMAIL.equals(text(&user.email)))
                .only_if(EMAIL_VERIFIED.equals(boolean(user.email_verified)))
                .only_if(KEY_EPOCH.equals(number(user.key_epoch)).or(KEY_EPOCH.is_absent()));
            let change = if user.email_verified { change } else { change.remove(FACTOR) };
            let verified = (!user.email_verified)
                .then(|| audit::change("email_verified", Some(false.to_string()), Some(true.to_string())));
            let entry = Entry::new(Action::PasswordReset, &user.organization, user.target()).by(user.actor());
            let entry = entry.with([audit::hidden("password")]).with(verified).with(keys.ended_with(&user, now).await?);
            let mut writes = Transaction::new("resetting a password")
                .delete_if(&self.tokens_table, token_key(&token.hash()), is_current)
                .update(change)
                .delete(&self.tokens_table, suppressions::key(&user.email))
                .record(recorder, entry)?;
            if user.has_two_factor && !user.email_verified {
                writes = writes.record(recorder, two_factor::entry(Action::TwoFactorDisabled, &user))?;
            }
            if !user.email_verified {
                writes = match organizations.with_notifications_claimed(recorder, writes, &user).await {
                    // The user has moved to another organization, and the previous one was deleted.
                    Err(Error::Busy) => {
                        user = self.user(token, Timestamp::now()).await?;
                        continue;
                    }
                    claimed => claimed?,
                };
            }
            if writes.try_commit(&self.dynamodb).await? {
                metrics::upkeep("resetting a password", keys.delete_ended(&user).await);
                // The password is changed even if the list cannot be read.
                let kept = keys.of_organization_by(&user, now).await.unwrap_or_else(|error| {
                    metrics::upkeep("listing the keys after a reset", Err(error));
                    Vec::new()
                });
                self.alerts.password_reset(&user, &kept, base, now).await;
                return Ok(kept);
            }
            user = self.user(token, Timestamp::now()).await?;
        }
        Err(Error::Busy)
    }

    /// Issues a token that resets the password of `user`. Earlier tokens stay valid until one is used.
    pub async fn issue(&self, user: &User, now: Timestamp) -> Result<Token> {
        let token = Token::generate();
        let reset = item([
            (TOKEN_HASH, text(token.hash().as_str())),
            (KIND, text(PASSWORD_RESET)),
            (USER_ID, text(user.id)),
            (EMAIL, text(&user.email)),
            (KEY_EPOCH, number(user.key_epoch)),
            (MOVES, number(user.moves)),
            (EXPIRES_AT, number(now.as_second() + LIFETIME_SECONDS)),
            (CREATED_AT, text(now)),
        ]);
        put(&self.dynamodb, &self.tokens_table, reset, "storing a reset").await?;
        Ok(token)
    }
}

/// The email with the link that resets a password. It does not contain a name, because anyone can request it for any
/// address.
pub fn reset_mail(base: &BaseUrl, token: &Token) -> EmailMessage {
    EmailMessage::new(
        "Choose a new password",
        &[
            Part::text("Choose a new password for your account."),
            Part::Button("Choose a new password", format!("{base}/reset-password?token={}", token.reveal())),
            Part::text("The link works once and expires in 1 hour."),
        ],
        &[Part::text(
            "You received this email because a new password was requested for this address. If you did not request it, \
             ignore this email: your password has not changed.",
        )],
    )
    .requested()
}
