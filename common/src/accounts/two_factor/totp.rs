//! Time-based one-time passwords (TOTP, RFC 6238), which an authenticator app computes from a shared secret.

use std::fmt;

use totp_rs::{Builder, Secret, Totp};
use zeroize::Zeroizing;

use crate::{
    accounts::email::EmailAddress,
    error::{Error, Result},
    name::ServiceName,
    random,
    timestamp::Timestamp,
};

/// The secret that the service shares with an authenticator app: 160 bits, as RFC 4226 recommends.
///
/// The secret is stored in readable form, because it is needed to check codes. Like endpoints' signing secrets, it is
/// protected by the tables' encryption.
pub struct TotpSecret(Secret);

impl TotpSecret {
    /// Generates a secret.
    pub fn generate() -> Self {
        Self(Secret::new_stack(random::bytes()))
    }

    /// Wraps a secret that was read from the table.
    pub(super) fn stored(text: &str) -> Result<Self> {
        Secret::try_from_base32(text).map(Self).map_err(Error::internal("reading a second factor"))
    }

    /// The secret in base32, for a user who cannot scan the QR code, and for the table.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.to_base32())
    }

    /// The `otpauth` link that adds the account to an authenticator app. The app shows `service` and `email`.
    ///
    /// # Errors
    /// The secret is too short, so it was not generated here.
    pub fn link(&self, service: &ServiceName, email: &EmailAddress) -> Result<Zeroizing<String>> {
        // In the link, a colon separates the service and the email.
        let builder =
            Builder::new().with_issuer(Some(service.as_str().replace(':', " "))).with_account_name(email.as_str());
        let link = self.built(builder).and_then(|totp| totp.to_url());
        link.map(Zeroizing::new).map_err(Error::internal("writing an otpauth link"))
    }

    /// The time step of `code`: the current, the previous or the next one, because clocks differ. `None` if the code is
    /// wrong. The codes are compared in constant time.
    pub(super) fn step(&self, code: &str, now: Timestamp) -> Result<Option<i64>> {
        let totp = self.built(Builder::new()).map_err(Error::internal("checking a code"))?;
        let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        let step = totp.check(&code, u64::try_from(now.as_second()).unwrap_or_default());
        Ok(step.and_then(|step| i64::try_from(step).ok()))
    }

    /// The parameters that every authenticator app supports: SHA-1, six digits, thirty seconds.
    fn built(&self, builder: Builder) -> Result<Totp, totp_rs::TotpError> {
        builder.with_secret(self.0.clone()).with_digits(6).with_step_duration(30).with_skew(1).build()
    }
}

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// The last six digits of the values for SHA-1 in RFC 6238, appendix B.
    #[test]
    fn codes_are_those_of_the_rfc() {
        let secret = TotpSecret(Secret::from(*b"12345678901234567890"));
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(secret.step(code, at(second)).expect("a secret"), Some(second / 30), "{second}");
        }
    }

    #[test]
    fn a_code_works_for_one_step_before_and_after() {
        let secret = TotpSecret(Secret::from(*b"12345678901234567890"));
        let step = |second| secret.step("287082", at(second)).expect("a secret");
        // The code is for step 1, which lasts from second 30 to second 59.
        assert_eq!([0, 29, 30, 59, 60, 89].map(step), [Some(1); 6]);
        assert_eq!([90, 120, 1_000].map(step), [None; 3]);
    }

    #[test]
    fn other_texts_are_not_codes() {
        let secret = TotpSecret(Secret::from(*b"12345678901234567890"));
        for text in ["", "28708", "2870820", "287083", "-87082", "２８７０８２", "28708a", &"2".repeat(10_000)] {
            assert_eq!(secret.step(text, at(59)).expect("a secret"), None, "{text}");
        }
        assert_eq!(secret.step(" 287 082\n", at(59)).expect("a secret"), Some(1));
    }

    #[test]
    fn the_link_names_the_service_and_the_account() {
        let secret = TotpSecret(Secret::from(*b"12345678901234567890"));
        let (service, email) =
            ("Jobs: A & B".parse().expect("a name"), EmailAddress::parse("jo+1@example.com").expect("an email"));
        let link = secret.link(&service, &email).expect("a link");
        assert_eq!(
            &*link,
            "otpauth://totp/Jobs%20%20A%20%26%20B:jo%2B1%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&\
             issuer=Jobs%20%20A%20%26%20B"
        );
    }

    #[test]
    fn a_secret_is_stored_in_full_and_not_printed() {
        let secret = TotpSecret::generate();
        let stored = TotpSecret::stored(&secret.reveal()).expect("its own form");
        assert_eq!(*stored.reveal(), *secret.reveal());
        assert_eq!(secret.reveal().len(), 32);
        assert_ne!(*TotpSecret::generate().reveal(), *secret.reveal());
        assert_eq!(format!("{secret:?}"), "TotpSecret(redacted)");
    }
}
