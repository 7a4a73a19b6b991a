//! Emails that notify users of changes to their account, in case an intruder made the change.
//!
//! An email is sent after the change is stored, and a failure to send it is only logged. Emails go only to verified
//! addresses, because an unverified address may be a stranger's.

use crate::{
    accounts::{
        agent,
        api_keys::{IssuedKey, KeyRecord},
        cli_logins::CliLogin,
        email::EmailAddress,
        mail::{EmailMessage, Mailer, Part},
        organizations::Organization,
        permissions::KeyKind,
        rate_limits::{ALERT, CREDENTIAL_ALERT, Limit, OWNER_ALERT, RateLimits},
        sessions::Device,
        users::{Role, User},
    },
    base_url::BaseUrl,
    timestamp::Timestamp,
};

crate::from_env! {
    /// The rate limits and the mailer for these emails.
    #[derive(Clone)]
    pub struct Alerts {
        rate_limits: RateLimits,
        mailer: Mailer,
    }
}

/// A change to a user's second factor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FactorChange {
    Enabled,
    Disabled,
    BackupCodesReplaced,
    /// The secret of the authenticator app was shown again.
    SecretShown,
    /// A backup code was used, to sign in or in a session, with the number of unused codes.
    BackupCodeUsed {
        left: usize,
        is_sign_in: bool,
    },
}

const WHY: &str = "You received this email because it concerns the security of your account.";

impl Alerts {
    /// Notifies `user` that their password was changed on `device`.
    pub async fn password_changed(&self, user: &User, device: &Device, base: &BaseUrl, now: Timestamp) {
        let agent = device.agent.as_deref();
        let mail = EmailMessage::new(
            "Your password was changed",
            &[
                Part::text(
                    "Your account's password was changed. All other sessions have ended. Your API keys keep working.",
                ),
                Part::Facts(from(&device.address.to_string(), agent, now)),
                Part::text(
                    "If you did not change it, choose a new password. This also ends all sessions and revokes your \
                     personal API keys.",
                ),
                Part::Button("Reset password", format!("{base}/reset-password")),
            ],
            &[Part::text(WHY)],
        );
        self.notify(user, mail, now).await;
    }

    /// Notifies `user` that a link from an email was used to choose a new password. The link proves that the address is
    /// theirs. The email names the organization's keys that the user created: they keep working, and an intruder may
    /// have created them. If the address was not verified before, it lists what a stranger may have chosen.
    pub(crate) async fn password_reset(&self, user: &User, kept: &[KeyRecord], base: &BaseUrl, now: Timestamp) {
        let mut parts = vec![
            Part::text(
                "A link from an email was used to choose a new password for your account. All sessions have ended, and \
                 your personal API keys no longer work.",
            ),
            Part::Facts(vec![("Time", now.readable())]),
        ];
        if !user.email_verified {
            parts.push(Part::text(match user.chose_email {
                true => {
                    "Your address was not confirmed before. If someone else signed up with it, they chose the names of the \
                     account and of its organization, and the organization's slug: check them. Notifications now go to \
                     this address."
                }
                false => {
                    "Your address was not confirmed before. It was invited to the account's organization, which has other \
                     members. If you did not accept the invitation, leave the organization."
                }
            }));
        }
        if !kept.is_empty() {
            parts.push(Part::text(
                "These API keys belong to your organization, were created with your account and still work. Delete those \
                 that you do not recognize.",
            ));
            let key = |key: &KeyRecord| ("API key", format!("{} ({}…)", key.name.as_str(), key.start));
            parts.push(Part::Facts(kept.iter().map(key).collect()));
            parts.push(Part::Link("View API keys".to_owned(), format!("{base}/console/keys")));
        }
        if user.email_verified && user.role == Role::Owner {
            parts.push(Part::text(
                "If you reset the password because someone else knew it, also check your organization's members and \
                 invitations.",
            ));
            parts.push(Part::Link("View team".to_owned(), format!("{base}/console/team")));
        }
        parts.extend([
            Part::text(
                "If you did not do this, someone else can read your email. Secure your mailbox, then choose a new \
                 password.",
            ),
            Part::Button("Reset password", format!("{base}/reset-password")),
        ]);
        let mail = EmailMessage::new("Your password was changed", &parts, &[Part::text(WHY)]);
        let verified = User { email_verified: true, ..user.clone() };
        self.notify(&verified, mail, now).await;
    }

    /// Notifies `user` that an API key was created on `device`. Like key lists, the email shows the key's first
    /// characters.
    pub async fn key_created(&self, user: &User, key: &IssuedKey, device: &Device, base: &BaseUrl) {
        let (new, now) = (&key.new, key.created_at);
        let expires = key.expires_at().map_or_else(|| "never".to_owned(), Timestamp::readable);
        let mut facts = vec![
            ("Name", new.name.as_str().to_owned()),
            ("Key", format!("{}…", key.key.start())),
            ("Scopes", new.permissions.to_string()),
            ("Expires", expires),
        ];
        facts.extend(from(&device.address.to_string(), device.agent.as_deref(), now));
        let what = match new.permissions.kind() {
            KeyKind::Personal => {
                "An API key was created in your account. Programs with this key act with your permissions, within its \
                 scopes."
            }
            KeyKind::Organization => {
                "You created an API key for your organization. Programs with this key act for the organization, within its \
                 scopes, even after you leave."
            }
        };
        let mail = EmailMessage::new(
            "An API key was created",
            &[
                Part::text(what),
                Part::Facts(facts),
                Part::text("If you did not create it, delete the key and change your password."),
                Part::Button("View API keys", format!("{base}/console/keys")),
            ],
            &[Part::text(WHY)],
        );
        self.notify_within(CREDENTIAL_ALERT, user, mail, now).await;
    }

    /// Notifies `user` that the client that requested `login` is signed in.
    pub async fn client_signed_in(&self, user: &User, login: &CliLogin, base: &BaseUrl, now: Timestamp) {
        let mail = EmailMessage::new(
            "A command-line client signed in",
            &[
                Part::text("A command-line client signed in to your account, after you approved it in your browser."),
                Part::Facts(from(&login.address, login.agent.as_deref(), now)),
                Part::text("If you did not start this sign-in, end its session and change your password."),
                Part::Button("View sessions", format!("{base}/console/account")),
            ],
            &[Part::text(WHY)],
        );
        self.notify_within(CREDENTIAL_ALERT, user, mail, now).await;
    }

    /// Notifies `inviter` that they invited `email` to their organization as an owner, who can remove them.
    pub(crate) async fn owner_invited(&self, inviter: &User, email: &EmailAddress, base: &BaseUrl, now: Timestamp) {
        let mail = EmailMessage::new(
            "You invited an owner",
            &[
                Part::text(
                    "You invited a person to your organization as an owner. Owners can do everything in it, and can remove \
                     other owners.",
                ),
                Part::Facts(vec![("Invited", email.to_string()), ("Time", now.readable())]),
                Part::text("If you did not invite them, cancel the invitation and change your password."),
                Part::Button("View team", format!("{base}/console/team")),
            ],
            &[Part::text(WHY)],
        );
        self.notify_within(OWNER_ALERT, inviter, mail, now).await;
    }

    /// Notifies `user` of a change to their second factor, made on `device`.
    pub(crate) async fn two_factor_changed(
        &self,
        user: &User,
        change: FactorChange,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) {
        let (subject, news) = match change {
            FactorChange::Enabled => (
                "Two-factor authentication was enabled",
                "Signing in to your account now also requires a code from your authenticator app. All other sessions \
                 have ended. Your API keys keep working."
                    .to_owned(),
            ),
            FactorChange::Disabled => (
                "Two-factor authentication was disabled",
                "Signing in to your account now requires only the password. All other sessions have ended. Your API \
                 keys keep working."
                    .to_owned(),
            ),
            FactorChange::BackupCodesReplaced => (
                "Your backup codes were replaced",
                "New backup codes were created for your account. The earlier ones no longer work.".to_owned(),
            ),
            FactorChange::SecretShown => (
                "The setup key for authenticator apps was shown",
                "The setup key for your second factor was shown in a signed-in session. It can add your account to \
                 another authenticator app."
                    .to_owned(),
            ),
            FactorChange::BackupCodeUsed { left, is_sign_in } => (
                if is_sign_in { "A backup code was used to sign in" } else { "A backup code was used" },
                format!(
                    "{} used a backup code instead of your authenticator app. {left} of your backup codes {} left.",
                    if is_sign_in { "A sign-in to your account" } else { "A signed-in session" },
                    if left == 1 { "is" } else { "are" }
                ),
            ),
        };
        let mail = EmailMessage::new(
            subject,
            &[
                Part::Text(news),
                Part::Facts(from(&device.address.to_string(), device.agent.as_deref(), now)),
                Part::text(
                    "If this was not you, someone else knows your password. Choose a new one, which also ends all \
                     sessions and revokes your personal API keys, then check your second factor.",
                ),
                Part::Button("Reset password", format!("{base}/reset-password")),
            ],
            &[Part::text(WHY)],
        );
        self.notify(user, mail, now).await;
    }

    /// Notifies `user` that their account moved to `organization`, as requested on `device`.
    pub async fn moved(
        &self,
        user: &User,
        organization: &Organization,
        device: &Device,
        base: &BaseUrl,
        now: Timestamp,
    ) {
        let mut facts = vec![("Organization", organization.name.as_str().to_owned())];
        facts.extend(from(&device.address.to_string(), device.agent.as_deref(), now));
        let mail = EmailMessage::new(
            "You joined another organization",
            &[
                Part::text(
                    "Your account accepted an invitation and left its previous organization. Your personal API keys for \
                     that organization no longer work.",
                ),
                Part::Facts(facts),
                Part::text(
                    "If you did not accept this invitation, change your password, which ends all other sessions.",
                ),
                Part::Button("View account", format!("{base}/console/account")),
            ],
            &[Part::text(WHY)],
        );
        self.notify(user, mail, now).await;
    }

    /// Notifies `member`, whose account is deleted, that `by` removed them from `organization`. Members who leave are
    /// not notified.
    pub async fn removed(&self, by: &User, member: &User, organization: &Organization, now: Timestamp) {
        if by.id == member.id {
            return;
        }
        let mail = EmailMessage::new(
            "You were removed from an organization",
            &[
                Part::Text(format!(
                    "You were removed from the organization {}. Your account was deleted, and your sessions and \
                     personal API keys no longer work.",
                    organization.name.as_str()
                )),
                Part::Facts(vec![("Removed by", by.name.as_str().to_owned()), ("Time", now.readable())]),
                Part::text("To rejoin, ask an owner for a new invitation."),
            ],
            &[Part::text("You received this email because this was your account's address.")],
        );
        self.notify(member, mail, now).await;
    }

    async fn notify(&self, user: &User, mail: EmailMessage, now: Timestamp) {
        self.notify_within(ALERT, user, mail, now).await;
    }

    async fn notify_within(&self, limit: Limit, user: &User, mail: EmailMessage, now: Timestamp) {
        if user.email_verified && self.rate_limits.may_notify(limit, user, now).await {
            self.mailer.send(&user.email, mail, user.id).await;
        }
    }
}

/// Returns the time and the source of a change. `agent` is untrusted text from the client.
pub(super) fn from(address: &str, agent: Option<&str>, now: Timestamp) -> Vec<(&'static str, String)> {
    let client = agent.map_or("unknown".into(), agent::name);
    vec![("Time", now.readable()), ("IP address", address.to_owned()), ("Client", client.into_owned())]
}
