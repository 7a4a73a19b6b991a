//! Failures of commands, and their exit codes.

use std::{fmt, io, time::Duration};

use api::error::Reason;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The service refused the call.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The reason of a conflict, if any.
        reason: Option<Reason>,
        /// The message of the service.
        message: String,
        /// The value of `Retry-After`, if any.
        retry_after: Option<Duration>,
    },
    /// There are no credentials, or they are no longer valid.
    NotSignedIn(String),
    /// There was no answer, or an unreadable one.
    Unreachable(String),
    /// A failure on this machine.
    Local(String),
    /// The reader of standard output has closed the pipe.
    Gone,
}

impl Failure {
    /// The failure of a call that names an unknown object.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::Refused { status: 404, reason: None, message: message.into(), retry_after: None }
    }

    /// The exit code, as `fanfare --help` lists it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Gone => 0,
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
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused { reason, .. } => *reason,
            _ => None,
        }
    }

    /// The value of `Retry-After`, if any.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { message, .. } => f.write_str(message),
            Self::NotSignedIn(why) => write!(f, "{why} Run `fanfare login`."),
            Self::Unreachable(why) | Self::Local(why) => f.write_str(why),
            Self::Gone => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Local(format!("{error}.")),
        }
    }
}
