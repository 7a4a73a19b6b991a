//! The commands of `fanfare keys`.

use api::account::Scope;
use clap::{Subcommand, builder::NonEmptyStringValueParser};

use super::values::{lifetime, one_of};

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// List the API keys that you manage
    #[command(after_help = "Example:\n  fanfare keys list")]
    List,
    /// Create an API key, and print it once. Opens a browser, because a key cannot create keys
    #[command(after_help = "\
Examples:
  fanfare keys create laptop --expires 90d
  fanfare keys create ci --organization --scope webhooks:read,deliveries:read
  fanfare --json keys create ci --organization --no-browser | jq -r .key")]
    Create {
        /// Name of the key
        name: String,
        /// Create an organization key, which keeps working after its creator leaves. Owners only
        #[arg(long)]
        organization: bool,
        /// Parts of the API that the key may use, separated by commas [default: all that its kind allows]
        #[arg(long = "scope", value_delimiter = ',', value_name = "SCOPE", value_parser = one_of::<Scope>())]
        scopes: Vec<Scope>,
        /// Lifetime, such as 12h or 90d [default: the key does not expire]
        #[arg(long, value_name = "LIFETIME", value_parser = lifetime)]
        expires: Option<u32>,
        /// Print the sign-in address without opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Delete an API key, which stops working immediately
    #[command(after_help = "Example:\n  fanfare keys delete ID")]
    Delete {
        /// Id of the key, or its first characters
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}
