//! The second factor for signing in: codes from an authenticator app, and backup codes.
//!
//! The factor is stored in the user's item, so one conditional write checks a code and uses it up, and identifying a
//! caller takes no additional read. Password resets and address changes do not remove the factor. An app counts only
//! once its first code has been confirmed: until then, its secret has no effect.

pub mod backup_codes;
pub mod pending_sign_ins;
pub(super) mod requirement;
mod totp;

use aws_sdk_dynamodb::Client;
use zeroize::Zeroizing;

use self::pending_sign_ins::PendingSignIns;
pub use self::{backup_codes::BackupCodes, totp::TotpSecret};
use crate::{
    accounts::{
        alerts::{Alerts, FactorChange},
        password::Guess,
        rate_limits::{CODE_CHECK, RateLimits},
        sessions::{Device, Session, Sessions},
        sign_in::SignIns,
        token::{SecretHash, TOKEN_HASH, Token},
        users::{BACKUP_CODES, PK, TOTP_SECRET, TOTP_STEP, TWO_FACTOR_SINCE, User, Users, pk, user_key},
    },
    audit::{Action, Entry, Recorder, hidden, initial},
    aws::{
        dynamo::{Attribute, Item, ItemReader, number, text, texts},
        expression::Update,
        transaction::Transaction,
    },
    base_url::BaseUrl,
    error::{Error, FactorProblem, Result},
    name::ServiceName,
    telemetry::metrics,
    timestamp::Timestamp,
};

/// A code that a user enters.
#[derive(Clone, Copy)]
pub enum Entered<'a> {
    /// A code from the authenticator app.
    Code(&'a str),
    BackupCode(&'a str),
}

impl Entered<'_> {
    /// The kind of the code, for the audit log.
    fn kind(self) -> &'static str {
        match self {
            Self::Code(_) => "totp",
            Self::BackupCode(_) => "backup_code",
        }
    }
}

/// A new secret, which has no effect until its first code is confirmed.
#[derive(Debug)]
pub struct Enrollment {
    pub secret: TotpSecret,
    /// The link that adds the account to an authenticator app. It contains the secret.
    pub link: Zeroizing<String>,
    pub codes: BackupCodes,
}

/// The attributes of a user that store the second factor.
pub(super) const FACTOR: [Attribute; 4] = [TOTP_SECRET, TWO_FACTOR_SINCE, TOTP_STEP, BACKUP_CODES];

/// The stored second factor of a user.
struct Factor {
    user: User,
    secret: Option<TotpSecret>,
    backup_codes: Vec<SecretHash>,
}

impl Factor {
    /// The number of backup codes that are left after one was used.
    fn codes_after_use(&self) -> usize {
        self.backup_codes.len().saturating_sub(1)
    }

    fn from_item(item: &Item) -> Result<Self> {
        let record = ItemReader::new("user", item);
        Ok(Self {
            user: User::from_item(item)?,
            secret: record.optional_text(TOTP_SECRET).map(TotpSecret::stored).transpose()?,
            backup_codes: record
                .optional_set(BACKUP_CODES, |text| Ok::<_, Vec<_>>(SecretHash::stored(text)))?
                .unwrap_or_default(),
        })
    }

    fn secret(&self) -> Result<&TotpSecret> {
        self.secret.as_ref().ok_or(Error::TwoFactor(FactorProblem::NoSecret))
    }
}

crate::from_env! {
    /// The stores, and the mailer for the alerts.
    #[derive(Clone)]
    pub struct TwoFactor {
        alerts: Alerts,
        rate_limits: RateLimits,
        dynamodb: Client,
        pending: PendingSignIns,
        service: ServiceName = ServiceName::from_env,
        sessions: Sessions,
        tokens_table: String = "TOKENS_TABLE",
        users: Users,
        users_table: String = "USERS_TABLE",
    }
}

impl TwoFactor {
    /// Issues a secret and backup codes to `user`, who confirms with their password. The new ones replace those from an
    /// unfinished enrollment. The address must be verified: otherwise, a stranger could sign up with the address, and
    /// its owner would have to reset the password to sign in.
    ///
    /// # Errors
    /// Same as [`SignIns::confirm`]; the address is not verified; or a second factor is already enabled.
    pub async fn enroll(&self, user: &User, sign_ins: &SignIns, password: Guess, now: Timestamp) -> Result<Enrollment> {
        user.check_verified()?;
        sign_ins.confirm(user, password, now).await?;
        let (secret, codes) = (TotpSecret::generate(), BackupCodes::generate());
        let link = secret.link(&self.service, &user.email)?;
        let update = self
            .change(user)
            .set(TOTP_SECRET, text(secret.reveal().as_str()))
            .set(BACKUP_CODES, stored(&codes, user))
            .only_if(TWO_FACTOR_SINCE.is_absent());
        if update.send(&self.dynamodb, "enrolling a second factor").await? {
            return Ok(Enrollment { secret, link, codes });
        }
        let factor = self.factor(user).await?;
        Err(if factor.user.has_two_factor { Error::TwoFactor(FactorProblem::Enabled) } else { Error::Unauthorized })
    }

    /// The link that adds the account of `user`, who confirms with their password, to another authenticator app. If the
    /// second factor is enabled, the user is notified, because someone else could use the link.
    ///
    /// # Errors
    /// Same as [`SignIns::confirm`], or no secret was issued.
    pub async fn link(
        &self,
        user: &User,
        sign_ins: &SignIns,
        password: Guess,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<Zeroizing<String>> {
        sign_ins.confirm(user, password, now).await?;
        let factor = self.factor(user).await?;
        let link = factor.secret()?.link(&self.service, &user.email)?;
        if factor.user.has_two_factor {
            self.alerts.two_factor_changed(user, FactorChange::SecretShown, device, base, now).await;
        }
        Ok(link)
    }

    /// Checks a code from `user`, who is signed in, and uses it up. The first code enables the second factor. This ends
    /// all the user's sessions, because they began without a second factor, and starts a new one on `device`. `codes`
    /// then replace the backup codes from the enrollment. Returns the token of the new session.
    ///
    /// # Errors
    /// There were too many tries ([`Error::TooMany`]); the code is wrong or was used before; no secret was issued; the
    /// code is the first one and the address is not verified; or a call fails.
    pub async fn verify(
        &self,
        recorder: &Recorder,
        user: &User,
        entered: Entered<'_>,
        codes: Option<&BackupCodes>,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<Option<Token>> {
        self.rate_limits.count(CODE_CHECK, &user.id.to_string(), now).await?;
        let factor = self.factor(user).await?;
        let wrong = wrong(entered);
        if factor.user.has_two_factor {
            let update = self.use_up(&factor, entered, now)?;
            let mut writes = Transaction::new("using a code").update(update).or(wrong);
            if let Entered::BackupCode(_) = entered {
                writes = writes.record(recorder, self::entry(Action::TwoFactorCodeUsed, user))?;
            }
            writes.commit(&self.dynamodb).await?;
            if let Entered::BackupCode(_) = entered {
                let used = FactorChange::BackupCodeUsed { left: factor.codes_after_use(), is_sign_in: false };
                self.alerts.two_factor_changed(user, used, device, base, now).await;
            }
            return Ok(None);
        }
        let Entered::Code(code) = entered else { return Err(Error::TwoFactor(FactorProblem::NotEnabled)) };
        let secret = factor.secret()?;
        factor.user.check_verified()?;
        let step = secret.step(code, now)?.ok_or(Error::TwoFactor(FactorProblem::WrongCode))?;
        let enable = self
            .sessions
            .next_epoch(user)
            .set(TWO_FACTOR_SINCE, text(now))
            .set(TOTP_STEP, number(step))
            .set_all(codes.map(|codes| (BACKUP_CODES, stored(codes, user))))
            .only_if(TOTP_SECRET.equals(text(secret.reveal().as_str())))
            .only_if(TWO_FACTOR_SINCE.is_absent());
        let token = self.restart(recorder, user, enable, Action::TwoFactorEnabled, wrong, device, now).await?;
        self.alerts.two_factor_changed(user, FactorChange::Enabled, device, base, now).await;
        Ok(Some(token))
    }

    /// Disables the second factor of `user`, who confirms with their password. All their sessions end, and a new one
    /// starts on `device`. Canceling an unfinished enrollment does not affect sessions, and returns `None`.
    ///
    /// # Errors
    /// Same as [`SignIns::confirm`], or the sessions were changed in the meantime.
    pub async fn disable(
        &self,
        recorder: &Recorder,
        user: &User,
        sign_ins: &SignIns,
        password: Guess,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<Option<Token>> {
        sign_ins.confirm(user, password, now).await?;
        if !self.factor(user).await?.user.has_two_factor {
            let update = self.change(user).remove(FACTOR).only_if(TWO_FACTOR_SINCE.is_absent());
            let is_ended = update.send(&self.dynamodb, "ending an enrollment").await?;
            return if is_ended { Ok(None) } else { Err(Error::Busy) };
        }
        let disable = self.sessions.next_epoch(user).remove(FACTOR).only_if(TWO_FACTOR_SINCE.exists());
        let token = self.restart(recorder, user, disable, Action::TwoFactorDisabled, Error::Busy, device, now).await?;
        self.alerts.two_factor_changed(user, FactorChange::Disabled, device, base, now).await;
        Ok(Some(token))
    }

    /// Replaces the backup codes of `user`, who confirms with their password.
    ///
    /// # Errors
    /// Same as [`SignIns::confirm`]; no second factor is enabled; or the codes, the sessions or the organization were
    /// changed after the call began ([`Error::Busy`]), so only one of several concurrent calls returns codes.
    pub async fn renew_codes(
        &self,
        recorder: &Recorder,
        user: &User,
        sign_ins: &SignIns,
        password: Guess,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<BackupCodes> {
        let factor = self.factor(user).await?;
        sign_ins.confirm(user, password, now).await?;
        if !factor.user.has_two_factor {
            return Err(Error::TwoFactor(FactorProblem::NotEnabled));
        }
        let codes = BackupCodes::generate();
        let previous = texts(factor.backup_codes.iter().map(SecretHash::as_str));
        let are_unchanged =
            if factor.backup_codes.is_empty() { BACKUP_CODES.is_absent() } else { BACKUP_CODES.equals(previous) };
        let update = self
            .change(user)
            .set(BACKUP_CODES, stored(&codes, user))
            .only_if(TWO_FACTOR_SINCE.exists().and(are_unchanged))
            .only_if(user.is_in_organization());
        Transaction::new("renewing backup codes")
            .update(update)
            .or(Error::Busy)
            .record(recorder, entry(Action::TwoFactorCodesGenerated, user).with([hidden("backup_codes")]))?
            .commit(&self.dynamodb)
            .await?;
        self.alerts.two_factor_changed(user, FactorChange::BackupCodesReplaced, device, base, now).await;
        Ok(codes)
    }

    /// The number of backup codes that `user` has not used.
    pub async fn codes_left(&self, user: &User) -> Result<usize> {
        Ok(self.factor(user).await?.backup_codes.len())
    }

    /// Finishes the sign-in with this token by checking the second factor. One transaction uses up the code and the
    /// sign-in, and starts a session on `device`, so only one of several concurrent calls with the same code or sign-in
    /// succeeds.
    ///
    /// # Errors
    /// The sign-in has expired or was finished; the user has ended their sessions since; there were too many tries
    /// ([`Error::TooMany`]); the code is wrong or was used before; the user has joined another organization in the
    /// meantime ([`Error::Busy`]); or a call fails.
    pub async fn finish(
        &self,
        recorder: &Recorder,
        token: &Token,
        entered: Entered<'_>,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) -> Result<(User, Token)> {
        let over = || Error::TwoFactor(FactorProblem::NoSignIn);
        let pending = self.pending.find(token, now).await?.ok_or_else(over)?;
        let item = self.users.find_item(pending.user).await?.ok_or_else(over)?;
        let factor = Factor::from_item(&item)?;
        let user = &factor.user;
        if !pending.is_of(user) || !user.has_two_factor {
            return Err(over());
        }
        self.rate_limits.count_code(user, device.address, now).await?;
        let (session, session_token) = Session::start(user, device, now)?;
        let writes = Transaction::new("signing in with a second factor")
            .update(self.use_up(&factor, entered, now)?.only_if(user.is_in_organization()))
            .or(wrong(entered));
        let writes = self
            .pending
            .finish(writes, token)
            .put_new(&self.tokens_table, TOKEN_HASH, session.to_item())
            .record(recorder, session.created(user).with([initial("second_factor", entered.kind())]))?;
        if let Err(refusal) = writes.commit(&self.dynamodb).await {
            let current = self.users.find(user.id).await?;
            let has_moved = current.is_some_and(|current| current.organization != user.organization);
            return Err(if has_moved { Error::Busy } else { refusal });
        }
        let (forgotten, remembered) = tokio::join!(
            self.rate_limits.forget_codes(user, device.address),
            self.rate_limits.remember_client(user.email.as_str(), device.address, now),
        );
        [forgotten, remembered].into_iter().for_each(|outcome| metrics::upkeep("signing in", outcome));
        if let Entered::BackupCode(_) = entered {
            let used = FactorChange::BackupCodeUsed { left: factor.codes_after_use(), is_sign_in: true };
            self.alerts.two_factor_changed(user, used, device, base, now).await;
        }
        Ok((factor.user, session_token))
    }

    /// The write that uses up the entered code. Its condition fails if a concurrent call used the code first.
    ///
    /// # Errors
    /// The code is wrong, or is not newer than the last one that was used: RFC 6238 permits each code only once.
    fn use_up(&self, factor: &Factor, entered: Entered<'_>, now: Timestamp) -> Result<Update> {
        let update = self.change(&factor.user).only_if(TWO_FACTOR_SINCE.exists());
        match entered {
            Entered::Code(code) => {
                let secret = factor.secret()?;
                let step = secret.step(code, now)?.ok_or(wrong(entered))?;
                let is_new = TOTP_STEP.is_absent().or(TOTP_STEP.is_below(number(step)));
                let is_same = TOTP_SECRET.equals(text(secret.reveal().as_str()));
                Ok(update.set(TOTP_STEP, number(step)).only_if(is_new).only_if(is_same))
            }
            Entered::BackupCode(code) => {
                let hash = backup_codes::hash(code, factor.user.id);
                if !factor.backup_codes.contains(&hash) {
                    return Err(wrong(entered));
                }
                let is_unused = BACKUP_CODES.contains(text(hash.as_str()));
                Ok(update.delete(BACKUP_CODES, texts([hash.as_str()].into_iter())).only_if(is_unused))
            }
        }
    }

    /// Applies `change`, moves `user` to the next session epoch, and starts a session in that epoch. Records the change
    /// and the session.
    async fn restart(
        &self,
        recorder: &Recorder,
        user: &User,
        change: Update,
        action: Action,
        refusal: Error,
        device: &Device,
        now: Timestamp,
    ) -> Result<Token> {
        let next = User { session_epoch: user.session_epoch + 1, ..user.clone() };
        let (session, token) = Session::start(&next, device, now)?;
        Transaction::new("changing a second factor")
            .update(change)
            .or(refusal)
            .put_new(&self.tokens_table, TOKEN_HASH, session.to_item())
            .record(recorder, entry(action, user))?
            .record(recorder, session.created(user))?
            .commit(&self.dynamodb)
            .await?;
        Ok(token)
    }

    /// A change to `user`, on condition that they have not ended their sessions since they were read.
    fn change(&self, user: &User) -> Update {
        Update::of(&self.users_table, pk(user_key(user.id))).only_if(PK.exists().and(user.is_in_session_epoch()))
    }

    async fn factor(&self, user: &User) -> Result<Factor> {
        let item = self.users.find_item(user.id).await?.ok_or(Error::Unauthorized)?;
        Factor::from_item(&item)
    }
}

/// The audit log entry for a change to the user's second factor.
pub(super) fn entry(action: Action, user: &User) -> Entry {
    Entry::new(action, &user.organization, user.target()).by(user.actor())
}

fn stored(codes: &BackupCodes, user: &User) -> aws_sdk_dynamodb::types::AttributeValue {
    texts(codes.hashes(user.id).iter().map(SecretHash::as_str))
}

fn wrong(entered: Entered<'_>) -> Error {
    Error::TwoFactor(match entered {
        Entered::Code(_) => FactorProblem::WrongCode,
        Entered::BackupCode(_) => FactorProblem::WrongBackupCode,
    })
}
