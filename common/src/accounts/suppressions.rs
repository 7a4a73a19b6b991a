//! The suppression list: addresses to which an email bounced permanently, or whose owners marked an email as spam. Such
//! an address gets only emails that its owner requests, because SES suspends accounts that keep sending to such
//! addresses.

use std::{fmt, time::Duration};

use api::team::NotificationEmailStatus;
use aws_sdk_dynamodb::{Client, types::ReturnValue};

use crate::{
    accounts::{
        email::EmailAddress,
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH},
    },
    aws::{
        dynamo::{Attribute, Item, ItemReader, get, item, number, text, texts},
        expression::{Update, put_if},
    },
    error::Result,
    issue::Problem,
    timestamp::Timestamp,
};

/// The kind of these items in the tokens table.
const SUPPRESSION: &str = "suppression";
const CAUSE: Attribute = Attribute("cause");
/// The kind of the items that list an address's passing bounces, each with its time in Unix seconds and its email's id.
const PASSING: &str = "passing_bounces";
const BOUNCES: Attribute = Attribute("bounces");
/// This many passing bounces within a week count as a permanent one.
const PERMANENT_BOUNCES: usize = 3;
const WEEK: Duration = Duration::from_hours(7 * 24);

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
        let address = EmailAddress::parse(address).unwrap_or_else(|_problems| EmailAddress::stored(address));
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

    /// Notes that SES called a bounce of the email `id` at `at` transient, although the receiving server said that the
    /// address does not exist. After the third within a week, adds the address to the list, and returns `true`. Noting a
    /// bounce again has no effect.
    pub async fn add_passing(&self, address: &str, id: &str, at: Timestamp, now: Timestamp) -> Result<bool> {
        let email = EmailAddress::parse(address).unwrap_or_else(|_problems| EmailAddress::stored(address));
        let noted = Update::of(&self.table, item([(TOKEN_HASH, text(hash_key(PASSING, &email)))]))
            .set(KIND, text(PASSING))
            .set(EXPIRES_AT, number(now.after(WEEK).as_second()))
            .add(BOUNCES, texts([format!("{} {id}", at.as_second()).as_str()].into_iter()));
        let noted = noted.send_for(&self.dynamodb, ReturnValue::AllNew, "noting a bounce").await?.unwrap_or_default();
        let bounces: Vec<i64> =
            ItemReader::new("bounces", &noted).optional_set(BOUNCES, read_time)?.unwrap_or_default();
        let is_permanent =
            bounces.iter().filter(|time| **time > at.before(WEEK).as_second()).count() >= PERMANENT_BOUNCES;
        if is_permanent {
            self.add(address, Cause::Bounce, now).await?;
        }
        Ok(is_permanent)
    }

    /// Returns why `address` is on the list, or `None` if it is not.
    pub async fn cause(&self, address: &EmailAddress, now: Timestamp) -> Result<Option<Cause>> {
        let found = get(&self.dynamodb, &self.table, key(address), "reading the suppression list").await?;
        let Some(found) = found else { return Ok(None) };
        let record = ItemReader::new("suppression", &found);
        if record.number(EXPIRES_AT)? <= now.as_second() {
            return Ok(None);
        }
        record.checked(CAUSE, Cause::stored).map(Some)
    }
}

/// The key of the entry for `address`. Deleting the item removes the address from the list, for example once a link in
/// an email has proved that the mailbox works. Hashing keeps readable addresses out of the table.
pub(crate) fn key(address: &EmailAddress) -> Item {
    item([(TOKEN_HASH, text(hash_key(SUPPRESSION, address)))])
}

fn hash_key(kind: &str, address: &EmailAddress) -> String {
    format!("{kind}#{}", SecretHash::of(address.as_str()).as_str())
}

/// The time of a bounce in an item.
fn read_time(bounce: &str) -> Result<i64, Vec<Problem>> {
    let time = bounce.split(' ').next().and_then(|time| time.parse().ok());
    time.ok_or_else(|| vec![Problem::format("Must begin with a time")])
}
