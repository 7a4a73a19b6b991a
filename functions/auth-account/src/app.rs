//! The dependencies of the handlers.

use common::accounts::{
    alerts::Alerts, api_keys::ApiKeys, email_change::EmailChanges, sign_in::SignIns, two_factor::TwoFactor,
    users::Users,
};

common::from_env! {
    /// The routes' dependencies.
    pub(crate) struct App {
        pub(crate) alerts: Alerts,
        pub(crate) email_changes: EmailChanges,
        pub(crate) keys: ApiKeys,
        pub(crate) sign_ins: SignIns,
        pub(crate) two_factor: TwoFactor,
        pub(crate) users: Users,
    }
}
