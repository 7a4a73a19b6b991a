//! The dependencies of the handlers.

use common::accounts::{
    alerts::Alerts, api_keys::ApiKeys, attempts::Attempts, email_change::EmailChanges, mail::Mailer,
    password_reset::PasswordResets, sessions::Sessions, sign_in::SignIns, two_factor::TwoFactor, users::Users,
    verification::Verifications,
};

common::from_env! {
    /// The routes' dependencies.
    pub(crate) struct App {
        pub(crate) alerts: Alerts,
        pub(crate) attempts: Attempts,
        pub(crate) email_changes: EmailChanges,
        pub(crate) keys: ApiKeys,
        pub(crate) mailer: Mailer,
        pub(crate) resets: PasswordResets,
        pub(crate) sessions: Sessions,
        pub(crate) sign_ins: SignIns,
        pub(crate) two_factor: TwoFactor,
        pub(crate) users: Users,
        pub(crate) verifications: Verifications,
    }
}
