//! Why a command failed, and with which exit code it ends.

use std::fmt;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The service refused the call.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The reason of a conflict, if any.
        reason: String,
        /// What the service says.
        message: String,
    },
    /// Nobody is signed in, or not any more.
    NotSignedIn(String),
    /// There was no answer, or none that can be read.
    Unreachable(String),
    /// Something on this machine.
    Local(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused { status: 404, .. } => 4,
            Self::Refused { .. } | Self::Local(_) => 1,
            Self::NotSignedIn(_) => 3,
            Self::Unreachable(_) => 5,
        }
    }

    /// Whether the same call may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Refused { status: 429 | 500.., .. })
    }

    /// The reason of a conflict.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Refused { reason, .. } => reason,
            _ => "",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { message, .. } => f.write_str(message),
            Self::NotSignedIn(why) => write!(f, "{why} Sign in with: fanfare login"),
            Self::Unreachable(why) | Self::Local(why) => f.write_str(why),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Local(error.to_string())
    }
}
