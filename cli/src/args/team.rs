//! The commands of `fanfare team`, and the options of `settings` and `audit`.

use api::{Cursor, Timestamp, account::Role, audit::Action};
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};

use super::values::{one_of, since};

#[derive(Subcommand)]
pub(crate) enum Team {
    /// List members and open invitations
    #[command(after_help = "Example:\n  fanfare team list")]
    List,
    /// List your invitations from other organizations. Opens a browser
    #[command(after_help = "Example:\n  fanfare team invitations")]
    Invitations {
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Move your account to an organization that has invited you. Opens a browser
    #[command(after_help = "\
A user belongs to one organization, so you leave the current one, and your personal API keys stop working. A new key is stored on this machine.

Examples:
  fanfare team accept
  fanfare team accept analytical-engines
  fanfare team accept analytical-engines --delete-organization    # as the last member of yours")]
    Accept {
        /// Slug of the organization, or id of the invitation [default: the only invitation]
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        invitation: Option<String>,
        /// Delete your current organization with all its data if you are its last member
        #[arg(long)]
        delete_organization: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Decline an invitation from another organization. Opens a browser
    #[command(after_help = "Example:\n  fanfare team decline analytical-engines")]
    Decline {
        /// Slug of the organization, or id of the invitation [default: the only invitation]
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        invitation: Option<String>,
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Invite a person by email, with or without an account
    #[command(after_help = "Example:\n  fanfare team invite bo@example.com")]
    Invite {
        /// Email address of the person
        email: String,
        /// Role of the new member
        #[arg(long, default_value = "member", value_parser = one_of::<Role>())]
        role: Role,
    },
    /// Cancel an invitation
    #[command(after_help = "Example:\n  fanfare team cancel bo@example.com")]
    Cancel {
        /// Email address that was invited
        email: String,
    },
    /// Change the role of a member
    #[command(after_help = "Example:\n  fanfare team role bo@example.com owner")]
    Role {
        /// Email address or id of the member
        member: String,
        /// New role
        #[arg(value_parser = one_of::<Role>())]
        role: Role,
    },
    /// Remove a member, and delete their account
    #[command(after_help = "Example:\n  fanfare team remove bo@example.com")]
    Remove {
        /// Email address or id of the member
        member: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub(crate) struct Settings {
    /// New address for emails about failing endpoints and failed jobs
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Whether emails about failed jobs are sent
    #[arg(long)]
    pub(crate) job_failures: Option<bool>,
    /// New name of the organization
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Whether members need a second factor. Opens a browser; owners with a second factor only
    #[arg(long)]
    pub(crate) require_two_factor: Option<bool>,
    /// Print the sign-in address without opening a browser
    #[arg(long, requires = "require_two_factor")]
    pub(crate) no_browser: bool,
}

#[derive(Args)]
pub(crate) struct Audit {
    /// Only changes since this time: an age such as 90s, 15m, 2h or 3d, or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) since: Option<Timestamp>,
    /// Only changes before this time: an age or a time in RFC 3339
    #[arg(long, value_parser = since)]
    pub(crate) until: Option<Timestamp>,
    /// Only changes by this user or key: the id or, for a member, the email address; or `system`
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only changes of this kind, such as key.created
    #[arg(long, value_parser = one_of::<Action>(), hide_possible_values = true)]
    pub(crate) action: Option<Action>,
    /// Only changes of the object with this id, such as an endpoint
    #[arg(long)]
    pub(crate) target: Option<String>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Cursor of the page: `next_cursor` from the previous page
    #[arg(long)]
    pub(crate) cursor: Option<Cursor>,
}
