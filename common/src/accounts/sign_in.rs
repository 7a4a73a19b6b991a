//! Sign-in with a password, for both the API and the pages.

use crate::{
    accounts::{
        email::EmailAddress,
        password::{Guess, Hasher, Password, PasswordCheck, PasswordHash},
        rate_limits::{PASSWORD_CHECK, RateLimits},
        sessions::{Device, Session, Sessions},
        token::Token,
        two_factor::pending_sign_ins::PendingSignIns,
        users::{User, Users},
    },
    audit::Recorder,
    error::{Error, Result},
    telemetry::metrics,
    timestamp::Timestamp,
};

crate::from_env! {
    /// The stores and the hasher for signing in.
    pub struct SignIns {
        rate_limits: RateLimits,
        hasher: Hasher = Hasher::from_env,
        pending: PendingSignIns,
        sessions: Sessions,
        users: Users,
    }
}

/// A sign-in with the correct password.
#[derive(Debug)]
pub enum SignIn {
    /// A session of the user has started.
    Done(Box<User>, Token),
    /// The user must enter a second factor to finish the sign-in with this token.
    NeedsCode(Token),
}

impl SignIns {
    /// The hasher. A function has only one, because a second would need its own memory.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Starts a session on `device` for the user with this address and password, unless they have a second factor.
    /// Wrong credentials, including malformed addresses, always get the same response after the same work.
    ///
    /// If the user has a second factor, the attempt stays counted until they enter it, so knowing the password does not
    /// allow unlimited attempts.
    ///
    /// # Errors
    /// There were too many attempts ([`Error::TooMany`]), or the address or the password is wrong
    /// ([`Error::WrongPassword`]).
    pub async fn sign_in(
        &self,
        recorder: &Recorder,
        address: &str,
        password: Guess,
        device: &Device,
        now: Timestamp,
    ) -> Result<SignIn> {
        let email = EmailAddress::parse(address).ok();
        // All spellings of an address share one counter.
        let subject = email.as_ref().map_or(address, EmailAddress::as_str);
        self.rate_limits.count_sign_in(subject, device.address, now).await?;
        let (user, hash) = self.users.credentials(email.as_ref()).await?.unzip();
        let checked = self.hasher.check(password, hash.clone()).await?;
        let (Some(user), Some(hash), false) = (user, hash, matches!(checked, PasswordCheck::Wrong)) else {
            return Err(Error::WrongPassword);
        };
        let rehash = async {
            match &checked {
                PasswordCheck::Outdated(new) => self.users.rehash(user.id, &hash, new).await,
                _ => Ok(()),
            }
        };
        if user.has_two_factor {
            let (pending, rehashed) = tokio::join!(self.pending.start(&user, now), rehash);
            metrics::upkeep("signing in", rehashed);
            return pending.map(SignIn::NeedsCode);
        }
        let (session, token) = Session::start(&user, device, now)?;
        let (stored, rehashed, forgotten, remembered) = tokio::join!(
            self.sessions.store(recorder, &user, &session),
            rehash,
            self.rate_limits.forget_sign_in(subject, device.address),
            self.rate_limits.remember_client(subject, device.address, now),
        );
        stored?;
        [rehashed, forgotten, remembered].into_iter().for_each(|outcome| metrics::upkeep("signing in", outcome));
        Ok(SignIn::Done(Box::new(user), token))
    }

    /// Changes the password of the signed-in `user`, who confirms with the `current` password. All their sessions end,
    /// and a new session starts on `device`.
    ///
    /// # Errors
    /// Same as [`confirm`](Self::confirm), or the password or the sessions were changed in the meantime.
    pub async fn change_password(
        &self,
        recorder: &Recorder,
        user: &User,
        current: Guess,
        new: Password,
        device: &Device,
        now: Timestamp,
    ) -> Result<Token> {
        let old = self.confirm(user, current, now).await?;
        let new = self.hasher.hash(new).await?;
        self.sessions.change_password(recorder, user, &old, &new, device, now).await
    }

    /// Checks the password of the signed-in `user`, and returns its hash. Each attempt is counted.
    ///
    /// # Errors
    /// There were too many attempts ([`Error::TooMany`]), the password is wrong ([`Error::InvalidPassword`]), or the
    /// user was deleted ([`Error::Unauthorized`]).
    pub async fn confirm(&self, user: &User, password: Guess, now: Timestamp) -> Result<PasswordHash> {
        self.rate_limits.count(PASSWORD_CHECK, &user.id.to_string(), now).await?;
        let (_, hash) = self.users.credentials(Some(&user.email)).await?.ok_or(Error::Unauthorized)?;
        match self.hasher.check(password, Some(hash.clone())).await? {
            PasswordCheck::Wrong => Err(Error::InvalidPassword),
            PasswordCheck::Right | PasswordCheck::Outdated(_) => Ok(hash),
        }
    }
}
