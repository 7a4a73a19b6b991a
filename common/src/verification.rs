//! Verifying that a user reads mail at their address.

use aws_sdk_dynamodb::{
    Client,
    types::{Delete, TransactWriteItem, Update},
};

use crate::{
    aws::Aws,
    config::{ConfigError, Env},
    dynamo::{Item, Record, Transaction, boolean, item, number, text, transact},
    error::{Error, Result},
    timestamp::Timestamp,
    token::Token,
    users::{User, user_key},
};

/// How long the link in a verification email holds.
const HOLDS_SECONDS: i64 = 24 * 60 * 60;
/// What tells a verification from the other tokens in the table.
const KIND: &str = "email_verification";

pub(crate) fn verification_item(token: &Token, user: &User, now: Timestamp) -> Item {
    item([
        ("token_hash", text(token.hash().as_str())),
        ("kind", text(KIND)),
        ("user_id", text(user.id)),
        ("expires_at", number(now.as_second() + HOLDS_SECONDS)),
        ("created_at", text(now)),
    ])
}

/// The tables of verifications.
#[derive(Clone)]
pub struct Verifications {
    dynamodb: Client,
    tokens: String,
    users: String,
}

impl Verifications {
    /// The store over the tables that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            tokens: env.required("TOKENS_TABLE")?,
            users: env.required("USERS_TABLE")?,
        })
    }

    /// A new token that verifies the email of `user`. Those that were issued before hold on.
    ///
    /// # Errors
    /// The write fails.
    pub async fn issue(&self, user: &User, now: Timestamp) -> Result<Token> {
        let token = Token::generate();
        let put = self.dynamodb.put_item().table_name(&self.tokens);
        let put = put.set_item(Some(verification_item(&token, user, now)));
        put.send().await.map_err(Error::aws("storing a verification"))?;
        Ok(token)
    }

    /// Marks the email of the token's user as verified and uses the token up: all or nothing, so of two at once
    /// one succeeds. `false` for a token that is unknown, used or expired.
    ///
    /// # Errors
    /// A read or the write fails.
    pub async fn verify(&self, token: &Token, now: Timestamp) -> Result<bool> {
        let doing = "verifying an email";
        let key = item([("token_hash", text(token.hash().as_str()))]);
        let found = self.dynamodb.get_item().table_name(&self.tokens).set_key(Some(key.clone()));
        let found = found.consistent_read(true).send().await.map_err(Error::aws(doing))?;
        let Some(found) = found.item else { return Ok(false) };
        let record = Record::new("verification", &found);
        if record.text("kind")? != KIND {
            return Ok(false);
        }
        let use_up = Delete::builder()
            .table_name(&self.tokens)
            .set_key(Some(key))
            .condition_expression("expires_at > :now")
            .expression_attribute_values(":now", number(now.as_second()))
            .build()
            .map_err(Error::internal(doing))?;
        let mark = Update::builder()
            .table_name(&self.users)
            .key("pk", text(user_key(record.parsed("user_id")?)))
            .condition_expression("attribute_exists(pk)")
            .update_expression("SET email_verified = :true")
            .expression_attribute_values(":true", boolean(true))
            .build()
            .map_err(Error::internal(doing))?;
        let writes = vec![
            TransactWriteItem::builder().delete(use_up).build(),
            TransactWriteItem::builder().update(mark).build(),
        ];
        Ok(transact(&self.dynamodb, writes, doing).await? == Transaction::Committed)
    }
}
