//! Resets forgotten passwords. A link in an email proves access to the account; all sessions and keys end.

use aws_sdk_dynamodb::{
    Client,
    types::{Delete, Update},
};

use crate::{
    accounts::{
        api_keys::ApiKeys,
        attempts::{Attempts, ClientAddress},
        email::Email,
        mail::{Mail, Mailer, Part, unhurried},
        password::{Hasher, Password},
        token::Token,
        users::{User, Users, user_key},
    },
    aws::{
        clients::Aws,
        dynamo::{Record, boolean, item, number, text},
        failure,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    config::{ConfigError, Env},
    error::{Error, Result},
    telemetry::metrics,
    timestamp::Timestamp,
};

/// The link in the email works for an hour.
const HOLDS_SECONDS: i64 = 60 * 60;
/// Distinguishes resets from the other tokens in the table.
const KIND: &str = "password_reset";

/// The tables and the mailer for password resets.
#[derive(Clone)]
pub struct PasswordResets {
    attempts: Attempts,
    users: Users,
    mailer: Mailer,
    dynamodb: Client,
    tokens_table: String,
    users_table: String,
}

impl PasswordResets {
    /// The store over the tables that `env` names, and the mailer.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            attempts: Attempts::from_env(env, aws)?,
            users: Users::from_env(env, aws)?,
            mailer: Mailer::from_env(env, aws)?,
            dynamodb: aws.dynamodb(),
            tokens_table: env.required("TOKENS_TABLE")?,
            users_table: env.required("USERS_TABLE")?,
        })
    }

    /// Sends an email with a link to `email`, if it has an account. Neither the outcome nor the duration reveals whether it
    /// has one.
    ///
    /// # Errors
    /// Too many requests: [`Error::TooMany`]; or a call fails.
    pub async fn request(&self, email: &Email, client: ClientAddress, base: &BaseUrl, now: Timestamp) -> Result<()> {
        self.attempts.count_reset(email, client, now).await?;
        let send = async {
            if let Some((user, _)) = self.users.credentials(Some(email)).await? {
                let token = self.issue(&user, now).await?;
                self.mailer.send(&user.email, reset_mail(base, &token), user.id).await;
            }
            Ok(())
        };
        unhurried(send).await
    }

    /// The user whose password `token` resets. The token must not have expired, and the user must still have the
    /// address that it was sent to and must not have reset the password since.
    ///
    /// # Errors
    /// There is no such user: [`Error::InvalidToken`]; or a read fails.
    pub async fn user(&self, token: &Token, now: Timestamp) -> Result<User> {
        let found =
            self.dynamodb.get_item().table_name(&self.tokens_table).key("token_hash", text(token.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(failure("reading a reset"))?;
        let found = found.item.ok_or(Error::InvalidToken)?;
        let record = Record::new("reset", &found);
        if record.text("kind")? != KIND || record.number("expires_at")? <= now.as_second() {
            return Err(Error::InvalidToken);
        }
        let (email, epoch) = (Email::stored(record.text("email")?), record.number("key_epoch")?);
        let user = self.users.find(record.parsed("user_id")?).await?;
        user.filter(|user| user.email == email && user.key_epoch == epoch).ok_or(Error::InvalidToken)
    }

    /// Sets the password of `user`, as read by [`PasswordResets::user`], to `new`. The same transaction ends all the
    /// user's sessions and keys, uses up this token and all earlier ones, and marks the email as verified, because the
    /// token proves access to the mailbox. Of concurrent resets, one succeeds.
    ///
    /// A concurrent change of the user's sessions does not stop a reset: a signed-in intruder could repeat one forever.
    ///
    /// # Errors
    /// Another reset came first, or the token has expired: [`Error::InvalidToken`]; or the write fails.
    pub async fn reset(
        &self,
        user: &User,
        token: &Token,
        new: Password,
        (hasher, keys): (&Hasher, &ApiKeys),
    ) -> Result<()> {
        let (password, now) = (hasher.hash(new).await?, Timestamp::now());
        let use_up = Delete::builder()
            .table_name(&self.tokens_table)
            .key("token_hash", text(token.hash().as_str()))
            .condition_expression("kind = :reset AND expires_at > :now")
            .expression_attribute_values(":reset", text(KIND))
            .expression_attribute_values(":now", number(now.as_second()));
        let change = Update::builder()
            .table_name(&self.users_table)
            .key("pk", text(user_key(user.id)))
            .update_expression(
                "SET password_hash = :password, email_verified = :true, key_epoch = :next ADD session_epoch :one",
            )
            .condition_expression("email = :email AND (key_epoch = :epoch OR attribute_not_exists(key_epoch))")
            .expression_attribute_values(":password", text(password.as_str()))
            .expression_attribute_values(":true", boolean(true))
            .expression_attribute_values(":epoch", number(user.key_epoch))
            .expression_attribute_values(":next", number(user.key_epoch + 1))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":email", text(&user.email));
        Transaction::new("resetting a password")
            .delete(use_up)
            .or(Error::InvalidToken)
            .update(change)
            .or(Error::InvalidToken)
            .commit(&self.dynamodb)
            .await?;
        metrics::upkeep("resetting a password", keys.delete_ended(user).await);
        Ok(())
    }

    /// Issues a token that resets the password of `user`. Earlier tokens stay valid until one is used.
    async fn issue(&self, user: &User, now: Timestamp) -> Result<Token> {
        let token = Token::generate();
        let reset = item([
            ("token_hash", text(token.hash().as_str())),
            ("kind", text(KIND)),
            ("user_id", text(user.id)),
            ("email", text(&user.email)),
            ("key_epoch", number(user.key_epoch)),
            ("expires_at", number(now.as_second() + HOLDS_SECONDS)),
            ("created_at", text(now)),
        ]);
        let put = self.dynamodb.put_item().table_name(&self.tokens_table).set_item(Some(reset));
        put.send().await.map_err(failure("storing a reset"))?;
        Ok(token)
    }
}

/// The email with the link that resets a password. It contains no name, because anyone can request it for any address.
#[must_use]
pub fn reset_mail(base: &BaseUrl, token: &Token) -> Mail {
    Mail::new(
        "Choose a new password",
        &[
            Part::text("Hello,"),
            Part::text(
                "We received a request to reset the password of your account. To choose a new password, open this \
                 link. It works once and expires in 1 hour:",
            ),
            Part::Link(format!("{base}/reset-password?token={}", token.reveal())),
            Part::text("If you did not request this, you can ignore this email. Your password has not changed."),
        ],
    )
}
