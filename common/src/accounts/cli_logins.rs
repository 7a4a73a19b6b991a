//! Browser logins: a command-line client creates a request, a signed-in user approves it in the browser, and the client
//! gets a session for that user.

use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        sessions::{ADDRESS, AGENT, Device, Session},
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH, Token, token_key},
        users::{CREATED_AT, EPOCH, User, Users},
    },
    audit::Recorder,
    aws::{
        dynamo::{Attribute, Item, ItemReader, get, item, number, put, text},
        expression::Update,
        transaction::Transaction,
    },
    error::{Error, Result},
    id::{CliLoginId, UserId},
    issue::Problem,
    timestamp::Timestamp,
};

/// For 10 minutes, a request can be approved and exchanged for a session.
const LIFETIME_SECONDS: i64 = 10 * 60;
/// The kind of login requests in the tokens table.
const CLI_LOGIN: &str = "cli_login";
const REQUEST_ID: Attribute = Attribute("request_id");
const APPROVED_BY: Attribute = Attribute("approved_by");
const NOT_FOUND: Error = Error::NotFound("Login request not found: it may have expired or been used");

#[derive(Debug)]
pub struct NewCliLogin {
    /// The request's id, which is not secret.
    pub id: CliLoginId,
    /// The secret that the client exchanges for its session once the request is approved.
    pub secret: Token,
    /// When the request expires: after this, it can be neither approved nor exchanged.
    pub expires_at: Timestamp,
}

/// A stored request.
#[derive(Debug)]
pub struct CliLogin {
    pub id: CliLoginId,
    pub created_at: Timestamp,
    /// When the request expires: after this, it can be neither approved nor exchanged.
    pub expires_at: Timestamp,
    /// The client's address: an IPv4 address, or the /64 of an IPv6 address.
    pub address: String,
    /// The client's description of itself, at most 200 characters. It is untrusted text.
    pub agent: Option<String>,
    /// The approval, if a user has given it.
    pub approval: Option<Approval>,
    hash: SecretHash,
}

/// A user's approval of a request.
#[derive(Debug)]
pub struct Approval {
    /// The user who approved the request. The client gets a session for this user.
    pub user: UserId,
    /// The user's session epoch when they approved the request. Ending all sessions also voids the approval.
    epoch: i64,
}

impl Approval {
    /// Whether `user` gave the approval and has not ended all their sessions since.
    pub fn is_of(&self, user: &User) -> bool {
        self.user == user.id && self.epoch == user.session_epoch
    }
}

impl CliLogin {
    /// Parses `item`. Returns `None` if the item is of another kind or has expired by `now`.
    fn from_item(item: &Item, now: Timestamp) -> Result<Option<Self>> {
        let record = ItemReader::new("login request", item);
        if record.text(KIND)? != CLI_LOGIN || record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        let expires_at = Timestamp::from_second(record.number(EXPIRES_AT)?);
        let approval = |user| record.number(EPOCH).map(|epoch| Approval { user, epoch });
        Ok(Some(Self {
            id: record.parsed(REQUEST_ID)?,
            created_at: record.parsed(CREATED_AT)?,
            expires_at: expires_at.map_err(Error::internal("reading a login request"))?,
            address: record.text(ADDRESS)?.to_owned(),
            agent: record.optional_text(AGENT).map(str::to_owned),
            approval: record.optional_parsed(APPROVED_BY)?.map(approval).transpose()?,
            hash: SecretHash::stored(record.text(TOKEN_HASH)?),
        }))
    }
}

/// Parses the secret of a request. The request may not exist.
pub fn parse_secret(text: &str) -> Result<Token, Vec<Problem>> {
    Token::parse(text).ok_or_else(|| vec![Problem::format("Must be the secret of a login request")])
}

crate::from_env! {
    /// The store of login requests, in the tokens table. The table's TTL deletes expired ones.
    #[derive(Clone)]
    pub struct CliLogins {
        dynamodb: Client,
        tokens: String = "TOKENS_TABLE",
    }
}

impl CliLogins {
    /// Stores a request from `device` that is valid for ten minutes.
    pub async fn create(&self, device: &Device, now: Timestamp) -> Result<NewCliLogin> {
        let (id, secret) = (CliLoginId::generate(), Token::generate());
        let expires_at = Timestamp::from_second(now.as_second() + LIFETIME_SECONDS);
        let expires_at = expires_at.map_err(Error::internal("adding ten minutes"))?;
        let mut request = item([
            (TOKEN_HASH, text(secret.hash().as_str())),
            (KIND, text(CLI_LOGIN)),
            (REQUEST_ID, text(id)),
            (ADDRESS, text(device.address)),
            (CREATED_AT, text(now)),
            (EXPIRES_AT, number(expires_at.as_second())),
        ]);
        request.extend(device.agent.as_ref().map(|agent| AGENT.with(text(agent))));
        put(&self.dynamodb, &self.tokens, request, "storing a login request").await?;
        Ok(NewCliLogin { id, secret, expires_at })
    }

    /// Finds the request with this id and secret. Returns `None` if the request has expired or was exchanged.
    pub async fn find(&self, id: CliLoginId, secret: &Token, now: Timestamp) -> Result<Option<CliLogin>> {
        let found = get(&self.dynamodb, &self.tokens, token_key(&secret.hash()), "reading a login request").await?;
        let found = found.as_ref().map_or(Ok(None), |item| CliLogin::from_item(item, now))?;
        Ok(found.filter(|found| found.id == id))
    }

    /// Approves the request with this id and secret for the signed-in `user`. A second approval has no effect.
    ///
    /// # Errors
    /// The request is unknown, expired, or approved by another user ([`Error::NotFound`]).
    pub async fn approve(&self, id: CliLoginId, secret: &Token, user: &User, now: Timestamp) -> Result<()> {
        let update = Update::of(&self.tokens, token_key(&secret.hash()))
            .set(APPROVED_BY, text(user.id))
            .set(EPOCH, number(user.session_epoch))
            .only_if(KIND.equals(text(CLI_LOGIN)))
            .only_if(REQUEST_ID.equals(text(id)))
            .only_if(EXPIRES_AT.is_above(number(now.as_second())))
            .only_if(APPROVED_BY.equals(text(user.id)).or(APPROVED_BY.is_absent()));
        let is_approved = update.send(&self.dynamodb, "approving a login request").await?;
        if is_approved { Ok(()) } else { Err(NOT_FOUND) }
    }

    /// Exchanges `login` for a session of `user` on `device`, in one transaction, so only one of several concurrent
    /// calls gets the session. Returns `None` if `user` has not approved the request in their current session epoch, or
    /// if the request was already exchanged.
    ///
    /// The session starts in the epoch of the approval, so it also ends if all sessions were ended in the meantime.
    ///
    /// # Errors
    /// The session would end beyond the representable time, or the user has joined another organization in the meantime
    /// ([`Error::Busy`]).
    pub async fn take(
        &self,
        recorder: &Recorder,
        login: &CliLogin,
        users: &Users,
        user: &User,
        device: &Device,
        now: Timestamp,
    ) -> Result<Option<(Session, Token)>> {
        let (session, token) = Session::start(user, device, now)?;
        let is_approved = APPROVED_BY.equals(text(user.id)).and(EPOCH.equals(number(user.session_epoch)));
        let exchange = Transaction::new("exchanging a login request")
            .delete_if(&self.tokens, token_key(&login.hash), is_approved)
            .or(NOT_FOUND)
            .put_new(&self.tokens, TOKEN_HASH, session.to_item())
            .record(recorder, session.created(user))?;
        match users.check_organization(user, exchange).or(Error::Busy).commit(&self.dynamodb).await {
            Ok(()) => Ok(Some((session, token))),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
