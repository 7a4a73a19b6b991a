//! The dependencies of the handlers.

use common::accounts::{
    api_keys::ApiKeys, mail::Mailer, organizations::Organizations, password_reset::PasswordResets,
    rate_limits::RateLimits, sessions::Sessions, sign_in::SignIns, users::Users, verification::Verifications,
};

common::from_env! {
    /// The routes' dependencies.
    pub(crate) struct App {
        pub(crate) rate_limits: RateLimits,
        pub(crate) keys: ApiKeys,
        pub(crate) mailer: Mailer,
        pub(crate) organizations: Organizations,
        pub(crate) resets: PasswordResets,
        pub(crate) sessions: Sessions,
        pub(crate) sign_ins: SignIns,
        pub(crate) users: Users,
        pub(crate) verifications: Verifications,
    }
}
