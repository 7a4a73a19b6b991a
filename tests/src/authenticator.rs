//! An authenticator app: RFC 6238 codes, computed from the secret in an `otpauth` link, without the service's code.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha1::Sha1;

use crate::{
    Answer, Tenant, World, text,
    world::{people::PASSWORD, set_cookie},
};

/// An app that knows the secret of one account.
#[derive(Clone, Debug)]
pub struct Authenticator(Vec<u8>);

impl Authenticator {
    /// An app that has opened this link.
    #[must_use]
    pub fn new(link: &str) -> Self {
        let secret = link.split_once("secret=").expect("a secret").1.split('&').next().unwrap_or_default();
        Self::with_secret(secret)
    }

    /// An app into which a person has typed this secret.
    #[must_use]
    pub fn with_secret(secret: &str) -> Self {
        let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
        for letter in secret.bytes().filter(|byte| *byte != b' ') {
            let value = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter).expect("base32");
            bits = (bits << 5) | u32::try_from(value).expect("5 bits");
            count += 5;
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count).to_be_bytes()[3]);
                bits &= (1 << count) - 1;
            }
        }
        assert_eq!(bytes.len(), 20, "160 bits");
        Self(bytes)
    }

    /// The code that the app shows now, or this many 30-second steps later.
    #[must_use]
    pub fn code(&self, steps_later: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
        let step = i64::try_from(now / 30).expect("a step") + steps_later;
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.0).expect("a key");
        mac.update(&step.to_be_bytes());
        let hash = mac.finalize().into_bytes();
        let offset = usize::from(hash[19] & 0xf);
        let number = u32::from_be_bytes([hash[offset], hash[offset + 1], hash[offset + 2], hash[offset + 3]]);
        format!("{:06}", (number & 0x7fff_ffff) % 1_000_000)
    }

    /// A code that is wrong now and stays wrong for a while.
    #[must_use]
    pub fn wrong_code(&self) -> String {
        let right: Vec<_> = (-3..10).map(|step| self.code(step)).collect();
        let mut codes = (0..1_000_000).map(|number| format!("{number:06}"));
        codes.find(|code| !right.contains(code)).expect("a wrong code")
    }
}

/// A user with a second factor.
#[derive(Clone, Debug)]
pub struct Protected {
    pub app: Authenticator,
    pub backup_codes: Vec<String>,
    /// The session that began when the second factor was enabled, as a `cookie` header.
    pub cookie: String,
}

impl World {
    /// Enables the second factor of a user. The current code can still be used once.
    pub async fn protect(&self, user: &Tenant) -> Protected {
        let enrolled = self.cli(&user.cookie, "two-factor/enable", json!({"password": PASSWORD})).await;
        assert_eq!(enrolled.status, 200, "{enrolled:?}");
        let app = Authenticator::new(text(&enrolled.body["totpURI"]));
        let codes = enrolled.body["backupCodes"].as_array().expect("codes").iter().map(text);
        let backup_codes = codes.map(str::to_owned).collect();
        let verified = self.cli(&user.cookie, "two-factor/verify-totp", json!({"code": app.code(0)})).await;
        assert_eq!(verified.status, 200, "{verified:?}");
        self.forget_used_code(&user.user).await;
        Protected { app, backup_codes, cookie: set_cookie(&verified, "session_token") }
    }

    /// Makes the service forget that the user `id` has used a code, as if 30 seconds had passed.
    pub async fn forget_used_code(&self, id: &str) {
        self.set("users", ("pk", &format!("user#{id}")), json!({"totp_step": null})).await;
    }

    /// Enters the correct password of a user with a second factor. Returns the cookie of the unfinished sign-in.
    pub async fn begin_sign_in(&self, email: &str, password: &str) -> String {
        let answer = self.sign_in(email, password).await;
        let needs_code = json!({"twoFactorRedirect": true, "twoFactorMethods": ["totp"]});
        assert_eq!((answer.status, &answer.body), (200, &needs_code));
        set_cookie(&answer, "two_factor")
    }

    /// Enters a code to finish the sign-in with this cookie.
    pub async fn enter_code(&self, cookie: &str, code: &str) -> Answer {
        self.cli(cookie, "two-factor/verify-totp", json!({ "code": code })).await
    }

    /// Enters a backup code instead.
    pub async fn enter_backup_code(&self, cookie: &str, code: &str) -> Answer {
        self.cli(cookie, "two-factor/verify-backup-code", json!({ "code": code })).await
    }

    /// Whether the caller of `get-session` has a second factor; null without a session.
    pub async fn is_protected(&self, cookie: &str) -> Value {
        self.session(cookie).await.body["user"]["twoFactorEnabled"].clone()
    }
}
