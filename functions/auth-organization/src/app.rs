//! The dependencies of the handlers.

use common::{
    accounts::{
        alerts::Alerts, departures::Departures, invitation_emails::Inviting, invitations::Invitations,
        members::Members, organizations::Organizations, users::Users,
    },
    application::moves::Moving,
};

common::from_env! {
    /// The routes' dependencies.
    pub(crate) struct App {
        pub(crate) alerts: Alerts,
        pub(crate) departures: Departures,
        pub(crate) invitations: Invitations,
        pub(crate) inviting: Inviting,
        pub(crate) members: Members,
        pub(crate) moving: Moving,
        pub(crate) organizations: Organizations,
        pub(crate) users: Users,
    }
}
