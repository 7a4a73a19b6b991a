//! The suppression list: addresses to which an email bounced permanently, or whose owners marked an email as spam. Such
//! an address gets only emails that its owner requests, because SES suspends accounts that keep sending to such
//! addresses.

use std::{fmt, time::Duration};

use api::team::NotificationEmailStatus;
use aws_sdk_dynamodb::Client;

use crate::{
    accounts::{
        email::Email,
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH},
    },
    aws::{
        dynamo::{Attribute, Item, Record, get, item, number, text},
        expression::put_if,
    },
    error::Result,
    issue::Problem,
    timestamp::Timestamp,
};

/// The kind of these items in the tokens table.
const SUPPRESSION: &str = "suppression";
const CAUSE: Attribute = Attribute("cause");

/// Why an address is on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The receiving server rejected an email permanently, for example because the mailbox does not exist.
    Bounce,
    /// The recipient marked an email as spam.
    Complaint,
}

impl Cause {
    fn stored(text: &str) -> Result<Self, Vec<Problem>> {
        let known = [Self::Bounce, Self::Complaint].into_iter().find(|cause| cause.to_string() == text);
        known.ok_or_else(|| vec![Problem::format("Must be bounce or complaint")])
    }

    /// The time that an address stays on the list. A bouncing mailbox may start working again, but a complaint is
    /// deliberate.
    const fn lasts(self) -> Duration {
        const DAY: u64 = 24 * 60 * 60;
        match self {
            Self::Bounce => Duration::from_secs(30 * DAY),
            Self::Complaint => Duration::from_secs(365 * DAY),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bounce => "bounce",
            Self::Complaint => "complaint",
        })
    }
}

impl From<Cause> for NotificationEmailStatus {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Bounce => Self::Bounced,
            Cause::Complaint => Self::Complained,
        }
    }
}

crate::from_env! {
    /// The list, in the tokens table. The table's TTL deletes expired items.
    #[derive(Clone)]
    pub struct Suppressions {
        dynamodb: Client,
        table: String = "TOKENS_TABLE",
    }
}

impl Suppressions {
    /// Adds an address that the service sent an email to. A bounce does not shorten a suppression caused by a
    /// complaint.
    pub async fn add(&self, address: &str, cause: Cause, now: Timestamp) -> Result<()> {
        // An address stored by an earlier version may not meet today's rules.
        let address = Email::parse(address).unwrap_or_else(|_problems| Email::stored(address));
        let mut entry = key(&address);
        entry.extend([
            KIND.with(text(SUPPRESSION)),
            CAUSE.with(text(cause)),
            EXPIRES_AT.with(number(now.after(cause.lasts()).as_second())),
        ]);
        let is_weaker = match cause {
            Cause::Bounce => CAUSE.equals(text(Cause::Bounce)).or(EXPIRES_AT.is_at_most(number(now.as_second()))),
            Cause::Complaint => TOKEN_HASH.exists(),
        };
        let is_free = TOKEN_HASH.is_absent().or(is_weaker);
        put_if(&self.dynamodb, &self.table, entry, is_free, "suppressing an address").await.map(drop)
    }

    /// Returns why `address` is on the list, or `None` if it is not.
    pub async fn cause(&self, address: &Email, now: Timestamp) -> Result<Option<Cause>> {
        let found = get(&self.dynamodb, &self.table, key(address), "reading the suppression list").await?;
        let Some(found) = found else { return Ok(None) };
        let record = Record::new("suppression", &found);
        if record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        record.checked(CAUSE, Cause::stored).map(Some)
    }
}

/// The key of the entry for `address`. Deleting the item removes the address from the list, for example once a link in
/// an email has proved that the mailbox works. Hashing keeps readable addresses out of the table.
pub(crate) fn key(address: &Email) -> Item {
    item([(TOKEN_HASH, text(format!("{SUPPRESSION}#{}", SecretHash::of(address.as_str()).as_str())))])
}
