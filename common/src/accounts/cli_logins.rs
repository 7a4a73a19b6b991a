//! Browser logins: a command-line client requests one, a signed-in user approves it in the browser, and the client gets
//! a session of that user.

use aws_sdk_dynamodb::{Client, types::Delete};

use crate::{
    accounts::{
        sessions::{Device, Session},
        token::{SecretHash, Token},
        users::User,
    },
    aws::{
        clients::Aws,
        dynamo::{Item, Record, is_refused, item, number, text},
        failure,
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{CliLoginId, UserId},
    issue::Problem,
    timestamp::Timestamp,
};

/// A request can be approved, and its session fetched, for 10 minutes.
const HOLDS_SECONDS: i64 = 10 * 60;
/// Distinguishes these requests from the other tokens in the table.
const KIND: &str = "cli_login";
const NOT_FOUND: Error = Error::NotFound("Login request not found: it may have expired or been used");

/// A new request.
#[derive(Debug)]
pub struct NewCliLogin {
    /// The request's id, which is not secret.
    pub id: CliLoginId,
    /// The secret that fetches the session, once a user has approved the request.
    pub secret: Token,
    /// The time from which it can be neither approved nor exchanged.
    pub expires_at: Timestamp,
}

/// A stored request.
#[derive(Debug)]
pub struct CliLogin {
    /// The request's id.
    pub id: CliLoginId,
    /// The time of the request.
    pub created_at: Timestamp,
    /// The time from which it can be neither approved nor exchanged.
    pub expires_at: Timestamp,
    /// The client's address: an IPv4 address, or the /64 of an IPv6 address.
    pub address: String,
    /// The client's description of itself, at most 200 characters. It is untrusted text.
    pub agent: Option<String>,
    /// The approval, once a user has given it.
    pub approval: Option<Approval>,
    hash: SecretHash,
}

/// A user's approval of a request.
#[derive(Debug)]
pub struct Approval {
    /// The user who approved it, whose session the client gets.
    pub user: UserId,
    /// The user's session epoch at the approval. An action that ends all sessions also ends the approval.
    epoch: i64,
}

impl Approval {
    /// Whether `user` gave the approval and their sessions have not been ended since.
    #[must_use]
    pub fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.epoch == user.session_epoch
    }
}

impl CliLogin {
    /// The request in `item`. `None` if the item is of another kind or has expired by `now`.
    fn from_item(item: &Item, now: Timestamp) -> Result<Option<Self>> {
        let record = Record::new("login request", item);
        if record.text("kind")? != KIND || record.number("expires_at")? <= now.as_second() {
            return Ok(None);
        }
        let expires_at = Timestamp::from_second(record.number("expires_at")?);
        let approval = |user| record.number("epoch").map(|epoch| Approval { user, epoch });
        Ok(Some(Self {
            id: record.parsed("request_id")?,
            created_at: record.parsed("created_at")?,
            expires_at: expires_at.map_err(Error::internal("reading a login request"))?,
            address: record.text("address")?.to_owned(),
            agent: record.optional_text("agent").map(str::to_owned),
            approval: record.optional_parsed("approved_by")?.map(approval).transpose()?,
            hash: SecretHash::stored(record.text("token_hash")?),
        }))
    }
}

/// Parses the secret of a request. The request may not exist.
///
/// # Errors
/// The text does not have the form of a secret.
pub fn parse_secret(text: &str) -> Result<Token, Vec<Problem>> {
    Token::parse(text).ok_or_else(|| vec![Problem::format("Must be the secret of a login request")])
}

/// The store of requests, in the table of tokens. They expire by the table's TTL.
#[derive(Clone)]
pub struct CliLogins {
    dynamodb: Client,
    tokens: String,
}

impl CliLogins {
    /// The store over the table that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), tokens: env.required("TOKENS_TABLE")? })
    }

    /// Stores a request of `device`, which is valid for ten minutes.
    pub async fn create(&self, device: &Device, now: Timestamp) -> Result<NewCliLogin> {
        let (id, secret) = (CliLoginId::generate(), Token::generate());
        let expires_at = Timestamp::from_second(now.as_second() + HOLDS_SECONDS);
        let expires_at = expires_at.map_err(Error::internal("adding ten minutes"))?;
        let mut request = item([
            ("token_hash", text(secret.hash().as_str())),
            ("kind", text(KIND)),
            ("request_id", text(id)),
            ("address", text(device.address)),
            ("created_at", text(now)),
            ("expires_at", number(expires_at.as_second())),
        ]);
        request.extend(device.agent.as_ref().map(|agent| ("agent".to_owned(), text(agent))));
        let put = self.dynamodb.put_item().table_name(&self.tokens).set_item(Some(request));
        put.send().await.map_err(failure("storing a login request"))?;
        Ok(NewCliLogin { id, secret, expires_at })
    }

    /// Finds the request `id` with this secret. `None` once it has expired or its session has been fetched.
    pub async fn find(&self, id: CliLoginId, secret: &Token, now: Timestamp) -> Result<Option<CliLogin>> {
        let found = self.dynamodb.get_item().table_name(&self.tokens).key("token_hash", text(secret.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(failure("reading a login request"))?;
        let found = found.item.as_ref().map_or(Ok(None), |item| CliLogin::from_item(item, now))?;
        Ok(found.filter(|found| found.id == id))
    }

    /// Approves the request `id` with this secret for the signed-in `user`. A second approval changes nothing.
    ///
    /// # Errors
    /// The request is unknown, expired, or approved by another user: [`Error::NotFound`]; or the write fails.
    pub async fn approve(&self, id: CliLoginId, secret: &Token, user: &User, now: Timestamp) -> Result<()> {
        let update =
            self.dynamodb.update_item().table_name(&self.tokens).key("token_hash", text(secret.hash().as_str()));
        let update = update
            .update_expression("SET approved_by = :user, epoch = :epoch")
            .condition_expression(
                "kind = :cli_login AND request_id = :id AND expires_at > :now \
                 AND (approved_by = :user OR attribute_not_exists(approved_by))",
            )
            .expression_attribute_values(":user", text(user.id))
            .expression_attribute_values(":epoch", number(user.session_epoch))
            .expression_attribute_values(":cli_login", text(KIND))
            .expression_attribute_values(":id", text(id))
            .expression_attribute_values(":now", number(now.as_second()));
        match update.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_refused(&error) => Err(NOT_FOUND),
            Err(error) => Err(failure("approving a login request")(error)),
        }
    }

    /// Exchanges `login` for a session of `user` on `device` in one transaction, so only one of several concurrent
    /// calls gets it. Returns `None` if `user` has not approved the request in their current session epoch, or if it
    /// was exchanged before.
    ///
    /// The session starts in the epoch of the approval, so ending all sessions in the meantime ends it, too.
    ///
    /// # Errors
    /// The session would end beyond the representable time; or the write fails.
    pub async fn take(
        &self,
        login: &CliLogin,
        user: &User,
        device: &Device,
        now: Timestamp,
    ) -> Result<Option<(Session, Token)>> {
        let (session, token) = Session::start(user, device, now)?;
        let use_up = Delete::builder()
            .table_name(&self.tokens)
            .key("token_hash", text(login.hash.as_str()))
            .condition_expression("approved_by = :user AND epoch = :epoch")
            .expression_attribute_values(":user", text(user.id))
            .expression_attribute_values(":epoch", number(user.session_epoch));
        let exchange = Transaction::new("exchanging a login request").delete(use_up).put_new(
            &self.tokens,
            "token_hash",
            session.to_item(),
        );
        Ok(exchange.try_commit(&self.dynamodb).await?.then_some((session, token)))
    }
}
