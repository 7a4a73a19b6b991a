//! Sign-ins that are waiting for the second factor. The browser has a cookie with the sign-in's token, but no session
//! yet.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        token::{EXPIRES_AT, KIND, TOKEN_HASH, Token, token_key},
        users::{CREATED_AT, EPOCH, USER_ID, User},
    },
    aws::{
        dynamo::{Item, ItemReader, get, item, number, put, text},
        expression::Condition,
        transaction::Transaction,
    },
    error::{Error, FactorProblem, Result},
    id::UserId,
    timestamp::Timestamp,
};

/// The second factor can be entered for five minutes.
pub const SIGN_IN_SECONDS: i64 = 5 * 60;
/// The kind of these sign-ins in the tokens table.
const PENDING_SIGN_IN: &str = "pending_sign_in";

/// A sign-in with the correct password.
pub(super) struct PendingSignIn {
    pub(super) user: UserId,
    epoch: i64,
}

impl PendingSignIn {
    /// Whether the sign-in belongs to `user`, who has not ended their sessions since. A password reset also ends the
    /// sign-in.
    pub(super) fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.epoch == user.session_epoch
    }
}

crate::from_env! {
    /// The store of these sign-ins, in the tokens table.
    #[derive(Clone)]
    pub struct PendingSignIns {
        dynamodb: Client,
        tokens: String = "TOKENS_TABLE",
    }
}

impl PendingSignIns {
    /// Stores a sign-in by `user`, who entered the correct password.
    pub async fn start(&self, user: &User, now: Timestamp) -> Result<Token> {
        let token = Token::generate();
        let pending: Item = item([
            (TOKEN_HASH, text(token.hash().as_str())),
            (KIND, text(PENDING_SIGN_IN)),
            (USER_ID, text(user.id)),
            (EPOCH, number(user.session_epoch)),
            (EXPIRES_AT, number(now.as_second() + SIGN_IN_SECONDS)),
            (CREATED_AT, text(now)),
        ]);
        put(&self.dynamodb, &self.tokens, pending, "storing a sign-in").await?;
        Ok(token)
    }

    /// Finds the sign-in with this token, unless it has expired by `now` or was finished.
    pub(super) async fn find(&self, token: &Token, now: Timestamp) -> Result<Option<PendingSignIn>> {
        let found = get(&self.dynamodb, &self.tokens, token_key(&token.hash()), "reading a sign-in").await?;
        let Some(found) = found else { return Ok(None) };
        let record = ItemReader::new("sign-in", &found);
        if record.text(KIND)? != PENDING_SIGN_IN || record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        Ok(Some(PendingSignIn { user: record.parsed(USER_ID)?, epoch: record.number(EPOCH)? }))
    }

    /// Adds the write that finishes the sign-in with this token. It can be finished only once.
    pub(super) fn finish(&self, writes: Transaction, token: &Token) -> Transaction {
        let is_pending: Condition = KIND.equals(text(PENDING_SIGN_IN));
        writes
            .delete_if(&self.tokens, token_key(&token.hash()), is_pending)
            .or(Error::TwoFactor(FactorProblem::NoSignIn))
    }
}
