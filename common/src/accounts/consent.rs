//! Whether the owner of an address agreed to an organization's emails or stopped them.
//!
//! Owners of an organization choose the address for notifications, and whom they invite. The address may belong to a
//! stranger, so every email that its recipient did not request links to a page that stops them, without an account.
//! Text of jobs is sent only to a recipient who agreed: on that page, or by being a verified member. An address that an
//! earlier version stored counts as agreed, because its owner has been getting these emails.
//!
//! An answer belongs to an organization and an address, and outlasts other settings: if an owner chooses a stopped
//! address again, it stays stopped until its owner agrees. No item contains the address, so none has to be deleted with
//! an account.

use aws_sdk_dynamodb::Client;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    accounts::{
        email::EmailAddress,
        members::{MemberIdOrEmail, Members},
        organizations::Organization,
        sessions::{BY_USER, SESSION_ID},
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH, Token, token_key},
        users::USER_ID,
    },
    audit::{Action, Actor, Entry, Recorder, change, initial},
    aws::{
        batch::{batch_write, delete_request},
        dynamo::{Attribute, Item, ItemReader, boolean, get, item, number, put, query_all, text},
        expression::query,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

const DAY_SECONDS: i64 = 24 * 60 * 60;
/// The link in an email works for a year.
const LINK_SECONDS: i64 = 365 * DAY_SECONDS;
/// An answer is kept for ten years.
const ANSWER_SECONDS: i64 = 3650 * DAY_SECONDS;

/// The kinds of these items in the tokens table.
const LINK: &str = "consent_link";
const ANSWER: &str = "consent";
/// Whether the recipient agreed or stopped the emails.
const AGREES: Attribute = Attribute("agrees");
/// A hash of the organization and the address, for which a link may answer.
const SUBJECT: Attribute = Attribute("subject");

/// The recipient's consent to an organization's emails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The recipient gets emails with text of jobs.
    Agreed,
    /// The recipient has not answered, so emails contain no text of jobs.
    Unanswered,
    /// The recipient gets no emails.
    Stopped,
}

/// The recipient of an organization's emails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    pub organization: TenantId,
    pub address: EmailAddress,
}

crate::from_env! {
    /// The answers, and the links in emails, in the tokens table. The table's TTL deletes expired items.
    #[derive(Clone)]
    pub struct Consents {
        members: Members,
        dynamodb: Client,
        table: String = "TOKENS_TABLE",
    }
}

impl Consents {
    /// Returns the consent of the owner of the notification address of `organization`. Without an answer, a verified
    /// member counts as agreed.
    pub async fn to_notifications(&self, organization: &Organization) -> Result<Consent> {
        let address = &organization.debug_notification_email;
        match self.answer(&organization.id, address).await? {
            Some(true) => Ok(Consent::Agreed),
            Some(false) => Ok(Consent::Stopped),
            None if !organization.asks_recipient => Ok(Consent::Agreed),
            None => {
                let is_member = self.is_verified_member(&organization.id, address).await?;
                Ok(if is_member { Consent::Agreed } else { Consent::Unanswered })
            }
        }
    }

    /// Whether the owner of `address` has stopped the emails of `organization`.
    pub async fn is_stopped(&self, organization: &TenantId, address: &EmailAddress) -> Result<bool> {
        Ok(self.answer(organization, address).await? == Some(false))
    }

    /// Whether the owner of `address` agreed, or `None` without an answer.
    pub async fn answer(&self, organization: &TenantId, address: &EmailAddress) -> Result<Option<bool>> {
        let key = answer_key(organization, address);
        let found = get(&self.dynamodb, &self.table, key, "reading a consent").await?;
        Ok(found.and_then(|found| ItemReader::new("consent", &found).optional_boolean(AGREES)))
    }

    async fn is_verified_member(&self, organization: &TenantId, address: &EmailAddress) -> Result<bool> {
        match self.members.find(organization, &MemberIdOrEmail::Email(address.clone())).await {
            Ok(member) => Ok(member.user.email_verified),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Issues a link to the page on which the owner of `address` agrees to the emails of `organization` or stops them.
    pub async fn link(
        &self,
        base: &BaseUrl,
        organization: &TenantId,
        address: &EmailAddress,
        now: Timestamp,
    ) -> Result<String> {
        let token = Token::generate();
        let link = item([
            (TOKEN_HASH, text(token.hash().as_str())),
            (KIND, text(LINK)),
            // The index by user finds the links of a deleted organization.
            (USER_ID, text(organization)),
            (SESSION_ID, text(LINK)),
            (SUBJECT, text(subject(organization, address).as_str())),
            (EXPIRES_AT, number(now.as_second() + LINK_SECONDS)),
        ]);
        put(&self.dynamodb, &self.table, link, "storing a link about consent").await?;
        let address = URL_SAFE_NO_PAD.encode(address.as_str());
        Ok(format!("{base}/email-preferences/{}.{address}", token.reveal()))
    }

    /// Finds the recipient of the email whose link ends in `link`: the token and the address that it was issued for.
    pub async fn recipient(&self, link: &str, now: Timestamp) -> Result<Option<Recipient>> {
        let Some((token, address)) = parse(link) else { return Ok(None) };
        let key = token_key(&token.hash());
        let Some(found) = get(&self.dynamodb, &self.table, key, "reading a link about consent").await? else {
            return Ok(None);
        };
        let record = ItemReader::new("link about consent", &found);
        if record.text(KIND)? != LINK || record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        let organization = record.parsed(USER_ID)?;
        let is_of_address = record.text(SUBJECT)? == subject(&organization, &address).as_str();
        Ok(is_of_address.then_some(Recipient { organization, address }))
    }

    /// Stores whether `recipient`, of an email of `organization`, agrees to its emails or stops them. Repeating the same
    /// answer changes nothing.
    pub async fn set(
        &self,
        recorder: &Recorder,
        recipient: &Recipient,
        organization: &Organization,
        agrees: bool,
        now: Timestamp,
    ) -> Result<()> {
        let Recipient { organization: id, address } = recipient;
        let old = self.answer(id, address).await?;
        if old == Some(agrees) {
            return Ok(());
        }
        let mut answer = answer_key(id, address);
        answer.extend([
            KIND.with(text(ANSWER)),
            AGREES.with(boolean(agrees)),
            EXPIRES_AT.with(number(now.as_second() + ANSWER_SECONDS)),
        ]);
        let is_new = TOKEN_HASH.is_absent().or(AGREES.differs_from(boolean(agrees)));
        let name = |agrees: bool| if agrees { "agreed" } else { "stopped" }.to_owned();
        // The recipient may not be a member, and the link is the only proof of who they are.
        let entry = Entry::new(Action::SettingsChanged, id, organization.target()).by(Actor::system());
        let entry = entry.with([initial("recipient", address), change("consent", old.map(name), Some(name(agrees)))]);
        let writes =
            Transaction::new("storing a consent").put_if(&self.table, answer, is_new).record(recorder, entry)?;
        // If the write is refused, a concurrent call has stored the same answer.
        writes.try_commit(&self.dynamodb).await.map(drop)
    }
}

/// Deletes the links in emails of a deleted organization, which are in the tokens table. An interrupted call can be
/// repeated.
pub(super) async fn delete_links(dynamodb: &Client, tokens: &str, organization: &TenantId) -> Result<()> {
    let links = query(dynamodb, tokens, USER_ID.equals(text(organization))).index_name(BY_USER);
    let found = query_all(links, "listing links about consent").await?;
    let keys = found.iter().filter_map(|link| Some(item([(TOKEN_HASH, link.get(TOKEN_HASH.name())?.clone())])));
    batch_write(dynamodb, tokens, keys.map(delete_request), "deleting links about consent").await
}

/// The token and the address in a link.
fn parse(link: &str) -> Option<(Token, EmailAddress)> {
    let (token, address) = link.split_once('.')?;
    let address = String::from_utf8(URL_SAFE_NO_PAD.decode(address).ok()?).ok()?;
    Some((Token::parse(token)?, EmailAddress::stored(&address)))
}

/// Hashing keeps readable addresses out of the table.
fn subject(organization: &TenantId, address: &EmailAddress) -> SecretHash {
    SecretHash::of(&format!("{organization} {address}"))
}

/// The key of an answer.
fn answer_key(organization: &TenantId, address: &EmailAddress) -> Item {
    item([(TOKEN_HASH, text(format!("{ANSWER}#{}", subject(organization, address).as_str())))])
}
