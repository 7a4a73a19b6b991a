//! Signing a command-line client in by the browser: the client asks, a user who is signed in there approves, and the client
//! gets a session of theirs.

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

/// How long a request can be approved, and its session be fetched.
const HOLDS_SECONDS: i64 = 10 * 60;
/// Distinguishes these requests from the other tokens in the table.
const KIND: &str = "cli_login";
const NOT_FOUND: Error = Error::NotFound("Login request not found: it may have expired or been used");

/// A request that has just been made.
#[derive(Debug)]
pub struct NewCliLogin {
    /// The request's id, which is not secret.
    pub id: CliLoginId,
    /// Its secret. Whoever has it gets the session, once a user has approved the request.
    pub secret: Token,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A client's request to be signed in, as it is stored.
#[derive(Debug)]
pub struct CliLogin {
    /// The request's id.
    pub id: CliLoginId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// The address that it came from: an IPv4 address, or the /64 of an IPv6 address.
    pub address: String,
    /// What the client called itself, 200 characters at most: a stranger's words.
    pub agent: Option<String>,
    /// Who has approved it, if anybody has.
    pub approval: Option<Approval>,
    hash: SecretHash,
}

/// A user's approval of a request.
#[derive(Debug)]
pub struct Approval {
    /// The user.
    pub user: UserId,
    /// The epoch of their sessions in which they approved. What ends all sessions ends the approval, too.
    epoch: i64,
}

impl Approval {
    /// Whether `user` gave it and nobody has ended their sessions since.
    #[must_use]
    pub fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.epoch == user.session_epoch
    }
}

impl CliLogin {
    /// The request in `item`, unless it is something else or has expired by `now`.
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

/// Parses the secret of a request. It may still belong to none.
///
/// # Errors
/// The text does not have the form of a secret.
pub fn parse_secret(text: &str) -> Result<Token, Vec<Problem>> {
    Token::parse(text).ok_or_else(|| vec![Problem::format("Must be the secret of a login request")])
}

/// The requests, in the table of tokens.
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

    /// Stores a request of `device`, which holds for ten minutes.
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

    /// Finds the request `id` with this secret, approved or not. There is none once it has expired or its session has been
    /// fetched.
    pub async fn find(&self, id: CliLoginId, secret: &Token, now: Timestamp) -> Result<Option<CliLogin>> {
        let found = self.dynamodb.get_item().table_name(&self.tokens).key("token_hash", text(secret.hash().as_str()));
        let found = found.consistent_read(true).send().await.map_err(failure("reading a login request"))?;
        let found = found.item.as_ref().map_or(Ok(None), |item| CliLogin::from_item(item, now))?;
        Ok(found.filter(|found| found.id == id))
    }

    /// Approves the request `id` with this secret as `user`, who is signed in. Approving again changes nothing.
    ///
    /// # Errors
    /// There is no such request, or not any more, or another user has approved it: [`Error::NotFound`]; or the write fails.
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

    /// Exchanges `login` for a session of `user` on `device`, all or nothing. `user` has approved it in the epoch of sessions
    /// that they are in; otherwise, or if it was exchanged before, there is no session. So of several calls at once one
    /// gets it.
    ///
    /// The session begins in the epoch of the approval, so what ends all sessions meanwhile ends this one as well.
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
