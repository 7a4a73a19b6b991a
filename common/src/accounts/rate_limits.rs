//! Rate limits: counts sign-in attempts, browser logins, requested emails, invitations, and changes that send email.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use aws_sdk_dynamodb::{Client, types::AttributeValue};

use crate::{
    accounts::{
        email::EmailAddress,
        token::{EXPIRES_AT, KIND, SecretHash, TOKEN_HASH},
        users::User,
    },
    aws::{
        dynamo::{Item, ItemReader, attributes, get, item, number, put, text},
        expression::{Update, put_if},
        failure,
    },
    error::{Error, Result},
    id::{TenantId, UserId},
    runtime_sources,
    timestamp::Timestamp,
};

/// The number of attempts allowed for one subject in one window.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The limited action, which is part of the counter's key.
    pub what: &'static str,
    /// The number of attempts in a window.
    pub attempts: i64,
    /// The length of the window in seconds. The window starts with the first attempt.
    pub window_seconds: i64,
    /// Whose limit it is, as an explanation for the caller who has reached it. `None` if the caller knows.
    pub about: Option<&'static str>,
}

/// Sign-ins to one address from one client.
const SIGN_IN: Limit = Limit { what: "sign_in", attempts: 10, window_seconds: 600, about: None };
/// Sign-ins to one address from all clients. A single client is limited to 60 attempts an hour, so it takes 17 clients
/// to reach this limit.
const SIGN_IN_ANYWHERE: Limit = Limit { what: "sign_in_anywhere", attempts: 1000, window_seconds: 3600, about: None };
/// The kind of item that records a client that has signed in to an address. These items are in the same table as the
/// counters.
const KNOWN_CLIENT: &str = "known_client";
/// Known clients are remembered for 90 days.
const KNOWN_SECONDS: i64 = 90 * 24 * 60 * 60;

/// Verification emails requested for one address by all clients, to protect the mailbox. If an attacker exhausts the
/// limit, the user still has five valid links.
pub const VERIFICATION_MAIL: Limit =
    Limit { what: "verification_mail", attempts: 5, window_seconds: 3600, about: None };

/// Password reset emails to one address. If an attacker exhausts the limit, the user still has the valid links in these
/// emails.
const RESET_MAIL: Limit = Limit { what: "reset_mail", attempts: 5, window_seconds: 3600, about: None };
/// Password reset emails to any addresses, requested by one client.
const RESET_MAIL_CLIENT: Limit = Limit { what: "reset_mail_client", attempts: 100, window_seconds: 3600, about: None };

/// Browser logins requested from one client.
pub const CLI_LOGIN_CLIENT: Limit =
    Limit { what: "cli_login_client", attempts: 100, window_seconds: 3600, about: None };
/// Polls of one browser login. Clients poll every two seconds.
pub const CLI_LOGIN_POLL: Limit = Limit { what: "cli_login_poll", attempts: 60, window_seconds: 60, about: None };

/// Password checks for one signed-in user. The limit keeps a stolen session from being used to guess the password.
pub const PASSWORD_CHECK: Limit = Limit { what: "password_check", attempts: 10, window_seconds: 600, about: None };

/// Second-factor codes for one user from one client, after the correct password. A thousand guesses have a 0.3% chance
/// of matching one of the three valid codes.
const CODE: Limit = Limit { what: "code", attempts: 10, window_seconds: 3600, about: None };
/// Second-factor codes for one user from all clients. Without this limit, an attacker with a stolen password and many
/// clients could guess without end.
const CODE_ANYWHERE: Limit = Limit { what: "code_anywhere", attempts: 100, window_seconds: 24 * 3600, about: None };
/// Codes that a signed-in user enters. The limit keeps a stolen session from being used to guess them.
pub(super) const CODE_CHECK: Limit = Limit { what: "code_check", attempts: 10, window_seconds: 600, about: None };

/// Welcome emails to one address. Deleting an account frees its address, so one address can sign up repeatedly.
pub(super) const WELCOME_MAIL: Limit =
    Limit { what: "welcome_mail", attempts: 5, window_seconds: 24 * 3600, about: None };

/// Replacements of an unverified address by one user. Each sends an email that also counts as a welcome email to the
/// new address.
const REPLACED_EMAIL: Limit = Limit {
    what: "replaced_email",
    attempts: 5,
    window_seconds: 3600,
    about: Some("you can choose a new address five times an hour"),
};

/// Emails to one address about changes to its account.
pub(super) const ALERT: Limit = Limit { what: "alert", attempts: 20, window_seconds: 3600, about: None };
/// Emails to one address about new API keys and clients. A session can cause any number of these, so they have their own
/// limit: otherwise, an intruder could use up the other one first.
pub(super) const CREDENTIAL_ALERT: Limit = Limit { what: "credential_alert", ..ALERT };
/// Emails to one address about invitations of owners. The limit is the one for invitations.
pub(super) const OWNER_ALERT: Limit = Limit { what: "owner_alert", ..ALERT };

/// Submissions of one new-key form by one user. The limit keeps a page reload from issuing another key. The window is
/// as long as a session.
pub const KEY_FORM: Limit = Limit { what: "key_form", attempts: 1, window_seconds: 30 * 24 * 3600, about: None };

/// Invitations sent by one user.
const INVITER: Limit =
    Limit { what: "inviter", attempts: 20, window_seconds: 3600, about: Some("you can send 20 invitations an hour") };
/// Invitations of one address by one organization.
const INVITED_BY: Limit = Limit {
    what: "invited_by",
    attempts: 3,
    window_seconds: 24 * 3600,
    about: Some("an organization can invite an address three times a day"),
};
/// Invitation emails to one address, from all organizations.
pub(super) const INVITATION_MAIL: Limit =
    Limit { what: "invited", attempts: 3, window_seconds: 24 * 3600, about: None };

/// Invitations that one client looks up without a session. A site that looks them up for its visitors is one client.
pub const INVITE_DETAILS_CLIENT: Limit =
    Limit { what: "invite_details_client", attempts: 600, window_seconds: 3600, about: None };

/// Changes to one organization's notification address. Each sends two emails.
const NOTIFIER: Limit = Limit {
    what: "notifier",
    attempts: 10,
    window_seconds: 3600,
    about: Some("an organization can change its notification address ten times an hour"),
};
/// Emails about notifications to one address whose owner has not agreed, from all organizations, and sign-ups that
/// choose this address. The limit is higher than for invitations, because the organizations of one company may share a
/// mailbox.
pub const NOTIFIED: Limit = Limit { what: "notified", attempts: 10, window_seconds: 24 * 3600, about: None };
/// Those of these emails that are about failed jobs. They leave the last three to emails about endpoints and changes.
pub const NOTIFIED_OF_JOBS: Limit = Limit { attempts: 7, ..NOTIFIED };

/// The source of a call: an IPv4 address, or the /64 of an IPv6 address, the smallest block that providers assign to a
/// customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// Parses a client's address. All strings that are not addresses count as one client.
    pub fn of(text: &str) -> Self {
        let address = text.parse().map_or(Ipv6Addr::UNSPECIFIED.into(), |address: IpAddr| address.to_canonical());
        Self(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        })
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

attributes! {
    ATTEMPTS = "attempts",
    // Identifies the call that was counted last.
    CALL = "call",
}

crate::from_env! {
    /// The counters, in the tokens table. The table's TTL deletes expired ones.
    #[derive(Clone)]
    pub struct RateLimits {
        dynamodb: Client,
        table: String = "TOKENS_TABLE",
    }
}

impl RateLimits {
    /// Counts an attempt to sign in to `address` from `client`, before the password is checked. The limit per client
    /// keeps an attacker from exhausting other clients' attempts. The limit across all clients bounds distributed
    /// guessing. Clients that have signed in to the address before are exempt from the second limit, so it cannot lock
    /// out the owner.
    ///
    /// # Errors
    /// Too many attempts ([`Error::TooMany`]).
    pub async fn count_sign_in(&self, address: &str, client: ClientAddress, now: Timestamp) -> Result<()> {
        let pair = pair(address, client);
        self.count(SIGN_IN, &pair, now).await?;
        match self.count(SIGN_IN_ANYWHERE, address, now).await {
            Err(Error::TooMany { .. }) if self.is_known(&pair, now).await? => Ok(()),
            counted => counted,
        }
    }

    /// Resets the counter of attempts to sign in to `address` from `client`, after a successful sign-in.
    pub async fn forget_sign_in(&self, address: &str, client: ClientAddress) -> Result<()> {
        self.forget(SIGN_IN, &pair(address, client)).await
    }

    async fn forget(&self, limit: Limit, subject: &str) -> Result<()> {
        let delete = self.dynamodb.delete_item().table_name(&self.table);
        let delete = delete.set_key(Some(item([(TOKEN_HASH, text(key(limit.what, subject)))])));
        delete.send().await.map(drop).map_err(failure("forgetting attempts"))
    }

    /// Counts a second-factor code that `user` enters on `client`, after the correct password. Only a caller who knows
    /// the password can exhaust these limits. The limit across all clients exempts clients that have signed in before,
    /// even if they did so before the user had a second factor. A password reset does not reset this limit: otherwise,
    /// an attacker who reads the user's mailbox could guess without end.
    ///
    /// # Errors
    /// There were too many codes ([`Error::TooMany`]), or a call fails.
    pub(super) async fn count_code(&self, user: &User, client: ClientAddress, now: Timestamp) -> Result<()> {
        let subject = user.id.to_string();
        self.count(CODE, &pair(&subject, client), now).await?;
        match self.count(CODE_ANYWHERE, &subject, now).await {
            Err(Error::TooMany { .. }) if self.is_known(&pair(user.email.as_str(), client), now).await? => Ok(()),
            counted => counted,
        }
    }

    /// Resets the password and code counters for `user` on `client`, after the user has signed in with both.
    pub(super) async fn forget_codes(&self, user: &User, client: ClientAddress) -> Result<()> {
        self.forget(CODE, &pair(&user.id.to_string(), client)).await?;
        self.forget_sign_in(user.email.as_str(), client).await
    }

    /// Remembers for 90 days that `client` has signed in to `address`, which exempts it from the limit for all clients.
    pub async fn remember_client(&self, address: &str, client: ClientAddress, now: Timestamp) -> Result<()> {
        put(&self.dynamodb, &self.table, known_client_item(address, client, now), "remembering a client").await
    }

    /// Counts an invitation before the address is looked up, whether or not the invitation succeeds. The limit
    /// therefore also applies to probes for accounts, and a rejection reveals nothing. Invitations by other organizations
    /// do not count: they limit only the [emails](Self::may_send) to the address.
    ///
    /// # Errors
    /// Too many invitations ([`Error::TooMany`]).
    pub async fn count_invitation(&self, inviter: &User, address: &EmailAddress, now: Timestamp) -> Result<()> {
        self.count(INVITER, &inviter.id.to_string(), now).await?;
        self.count(INVITED_BY, &format!("{} {address}", inviter.organization), now).await
    }

    /// Counts a change of `organization`'s notification address.
    ///
    /// # Errors
    /// Too many changes ([`Error::TooMany`]).
    pub async fn count_notified(&self, organization: &TenantId, now: Timestamp) -> Result<()> {
        self.count(NOTIFIER, organization.as_str(), now).await
    }

    /// Counts an attempt by `user` to replace their address, before the new one is looked up.
    ///
    /// # Errors
    /// Too many replacements ([`Error::TooMany`]).
    pub async fn count_replaced_email(&self, user: UserId, now: Timestamp) -> Result<()> {
        self.count(REPLACED_EMAIL, &user.to_string(), now).await
    }

    /// Counts an email to `address` before it is sent. Returns `false` if the address has got as many as `limit` allows.
    /// Strangers can use up such a limit, so it only withholds the email: the caller's change succeeds, and the response
    /// does not reveal that others wrote to the address.
    pub async fn may_send(&self, limit: Limit, address: &EmailAddress, now: Timestamp) -> Result<bool> {
        match self.count(limit, address.as_str(), now).await {
            Ok(()) => Ok(true),
            Err(Error::TooMany { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Counts an email to a user before it is sent. Returns `false` if their address has got as many as `limit` allows,
    /// but `true` if the email cannot be counted.
    pub(super) async fn may_notify(&self, limit: Limit, user: &User, now: Timestamp) -> bool {
        match self.may_send(limit, &user.email, now).await {
            Ok(true) => true,
            Ok(false) => {
                crate::log!("email.withheld", user = %user.id);
                false
            }
            Err(error) => {
                crate::log!("email.uncounted", user = %user.id, ?error);
                true
            }
        }
    }

    /// Counts a request to reset the password of `email`, before the address is looked up. A request over the limit for
    /// `client` does not count against the address.
    ///
    /// # Errors
    /// Too many requests ([`Error::TooMany`]).
    pub async fn count_reset(&self, email: &EmailAddress, client: ClientAddress, now: Timestamp) -> Result<()> {
        self.count(RESET_MAIL_CLIENT, &client.to_string(), now).await?;
        self.count(RESET_MAIL, email.as_str(), now).await
    }

    async fn is_known(&self, pair: &str, now: Timestamp) -> Result<bool> {
        let key = item([(TOKEN_HASH, text(key(KNOWN_CLIENT, pair)))]);
        let found = get(&self.dynamodb, &self.table, key, "looking for a known client").await?;
        let Some(found) = found else { return Ok(false) };
        Ok(ItemReader::new("known client", &found).number(EXPIRES_AT)? > now.as_second())
    }

    /// Counts an attempt before it is made, so concurrent attempts also stay within the limit.
    ///
    /// # Errors
    /// Too many attempts ([`Error::TooMany`], with the seconds until the window ends).
    pub async fn count(&self, limit: Limit, subject: &str, now: Timestamp) -> Result<()> {
        // The writes may be repeated, if a response is lost, but must count this call once.
        let call = text(runtime_sources::uuid());
        // If another call opens the window between these two writes, the second round counts in that window.
        for _ in 0..2 {
            let Some(window_ends) = self.count_in_window(limit, subject, &call, now).await? else { return Ok(()) };
            if window_ends > now.as_second() {
                return Err(Error::TooMany { retry_after_seconds: window_ends - now.as_second(), limit: limit.about });
            }
            if self.open_window(limit, subject, &call, now).await? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// Counts the attempt of `call` in an open window. If the window is full or has ended, returns the end of the window;
    /// if there is no window, returns 0.
    async fn count_in_window(
        &self,
        limit: Limit,
        subject: &str,
        call: &AttributeValue,
        now: Timestamp,
    ) -> Result<Option<i64>> {
        let update = Update::of(&self.table, item([(TOKEN_HASH, text(key(limit.what, subject)))]))
            .add(ATTEMPTS, number(1))
            .set(CALL, call.clone())
            .only_if(EXPIRES_AT.is_above(number(now.as_second())))
            .only_if(ATTEMPTS.is_below(number(limit.attempts)))
            .only_if(CALL.is_absent().or(CALL.differs_from(call.clone())));
        let (is_counted, window) = update.send_and_read(&self.dynamodb, "counting an attempt").await?;
        if is_counted || window.get(CALL.name()) == Some(call) {
            return Ok(None);
        }
        if window.is_empty() {
            return Ok(Some(0));
        }
        ItemReader::new("attempts", &window).number(EXPIRES_AT).map(Some)
    }

    /// Opens a window with the attempt of `call`. Returns `false` if a window is already open.
    async fn open_window(&self, limit: Limit, subject: &str, call: &AttributeValue, now: Timestamp) -> Result<bool> {
        let window = item([
            (TOKEN_HASH, text(key(limit.what, subject))),
            (KIND, text(limit.what)),
            (ATTEMPTS, number(1)),
            (CALL, call.clone()),
            (EXPIRES_AT, number(now.as_second() + limit.window_seconds)),
        ]);
        let is_new = TOKEN_HASH.is_absent().or(EXPIRES_AT.is_at_most(number(now.as_second())));
        let is_new = is_new.or(CALL.equals(call.clone()));
        put_if(&self.dynamodb, &self.table, window, is_new, "counting an attempt").await
    }
}

/// The key of a counter. Hashing keeps readable addresses, including those of people without an account, out of the
/// table.
fn key(what: &str, subject: &str) -> String {
    format!("{what}#{}", SecretHash::of(subject).as_str())
}

/// Combines an address and a client into one subject. A client does not contain a space, so different pairs never form
/// the same subject.
fn pair(address: &str, client: ClientAddress) -> String {
    format!("{client} {address}")
}

/// Builds the item that remembers that `client` has signed in to `address`.
pub(crate) fn known_client_item(address: &str, client: ClientAddress, now: Timestamp) -> Item {
    item([
        (TOKEN_HASH, text(key(KNOWN_CLIENT, &pair(address, client)))),
        (KIND, text(KNOWN_CLIENT)),
        (EXPIRES_AT, number(now.as_second() + KNOWN_SECONDS)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client() {
        for (text, client) in [
            ("203.0.113.7", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("", "::"),
            ("203.0.113.7, 198.51.100.1", "::"),
        ] {
            assert_eq!(ClientAddress::of(text).to_string(), client);
        }
    }
}
