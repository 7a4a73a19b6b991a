//! Failures of commands: their messages, hints and exit codes.

use std::{fmt, io, path::Path, time::Duration};

use api::error::Reason;
use serde::Serialize;
use serde_json::json;

use crate::terminal::{print_note, print_note_json, shown};

/// The conventional exit code after SIGINT.
pub(crate) const SIGINT_EXIT_CODE: u8 = 130;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    cause: Cause,
    message: String,
    /// The remedy, if it is known.
    hint: Option<String>,
    /// Whether the message has already been printed.
    is_reported: bool,
}

#[derive(Debug)]
enum Cause {
    /// The service rejected the call.
    Refused(ErrorResponse),
    /// The credentials are missing or no longer valid.
    NotSignedIn,
    /// The response was missing or unreadable.
    Unreachable,
    /// A failure on this machine.
    Local,
    /// A short id matches several objects.
    Ambiguous,
    /// The command line is not valid.
    Usage,
    /// A job that the command waited for has failed.
    JobFailed,
    /// The command has waited for the whole time.
    TimedOut,
    /// Ctrl-C stopped the command.
    Interrupted,
    /// The program that reads standard output has closed the pipe.
    Gone,
}

/// A rejected call.
#[derive(Debug, Default)]
pub(crate) struct ErrorResponse {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The code of the error, if any.
    pub(crate) code: Option<String>,
    /// The reason for a conflict, if any.
    pub(crate) reason: Option<Reason>,
    /// The value of `Retry-After`, if any.
    pub(crate) retry_after: Option<Duration>,
}

impl Failure {
    fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), hint: None, is_reported: false }
    }

    pub(crate) fn refused(refusal: ErrorResponse, message: impl Into<String>) -> Self {
        Self::new(Cause::Refused(refusal), message)
    }

    /// The failure for a call about an unknown object.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::refused(ErrorResponse { status: 404, ..ErrorResponse::default() }, message)
    }

    pub(crate) fn not_signed_in(message: impl Into<String>) -> Self {
        Self::new(Cause::NotSignedIn, message).hint("Run `fanfare login`.")
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Cause::Unreachable, message)
    }

    pub(crate) fn local(message: impl Into<String>) -> Self {
        Self::new(Cause::Local, message)
    }

    pub(crate) fn ambiguous(message: impl Into<String>) -> Self {
        Self::new(Cause::Ambiguous, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Cause::Usage, message)
    }

    pub(crate) fn job_failed(message: impl Into<String>) -> Self {
        Self::new(Cause::JobFailed, message)
    }

    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self::new(Cause::TimedOut, message)
    }

    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(Cause::Interrupted, message)
    }

    /// The failure for a file or folder that cannot be used.
    pub(crate) fn of_file(path: &Path, error: &io::Error) -> Self {
        Self::local(format!("Could not use {}: {error}.", shown(&path.display().to_string())))
    }

    /// Adds the remedy.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The exit code, as listed in `fanfare --help`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.cause {
            Cause::Gone => 0,
            Cause::Refused(ErrorResponse { status: 404, .. }) => 4,
            Cause::Refused(_) | Cause::Local | Cause::Ambiguous => 1,
            Cause::Usage => 2,
            Cause::NotSignedIn => 3,
            Cause::Unreachable => 5,
            Cause::JobFailed => 6,
            Cause::TimedOut => 7,
            Cause::Interrupted => SIGINT_EXIT_CODE,
        }
    }

    /// Whether the same call may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        match self.cause {
            Cause::Unreachable => true,
            Cause::Refused(ErrorResponse { status, .. }) => status == 429 || status >= 500,
            _ => false,
        }
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self.cause, Cause::Refused(ErrorResponse { status: 403, .. }))
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self.cause, Cause::Refused(ErrorResponse { status: 404, .. }))
    }

    pub(crate) fn is_not_signed_in(&self) -> bool {
        matches!(self.cause, Cause::NotSignedIn)
    }

    /// Marks the failure as printed.
    pub(crate) fn reported(self) -> Self {
        Self { is_reported: true, ..self }
    }

    /// The remedy, if it is known.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The reason for a conflict.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match &self.cause {
            Cause::Refused(refusal) => refusal.reason,
            _ => None,
        }
    }

    /// The value of `Retry-After`, if any.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match &self.cause {
            Cause::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Returns the name of the failure, for programs.
    fn code(&self) -> String {
        match &self.cause {
            Cause::Refused(ErrorResponse { reason: Some(reason), .. }) => reason.as_str().to_owned(),
            Cause::Refused(ErrorResponse { code: Some(code), .. }) => shown(&code.to_ascii_lowercase()),
            Cause::Refused(ErrorResponse { status: 404, .. }) => "not_found".to_owned(),
            Cause::Refused(ErrorResponse { status, .. }) => format!("http_{status}"),
            Cause::NotSignedIn => "not_signed_in".to_owned(),
            Cause::Unreachable => "unreachable".to_owned(),
            Cause::Local | Cause::Gone => "failed".to_owned(),
            Cause::Ambiguous => "ambiguous".to_owned(),
            Cause::Usage => "usage".to_owned(),
            Cause::JobFailed => "job_failed".to_owned(),
            Cause::TimedOut => "timed_out".to_owned(),
            Cause::Interrupted => "interrupted".to_owned(),
        }
    }

    /// Prints the failure to standard error, unless it was already printed or the reader has closed the pipe.
    pub(crate) fn print(&self, is_json: bool) {
        if self.is_reported || matches!(self.cause, Cause::Gone) {
            return;
        }
        #[derive(Serialize)]
        struct PrintedError<'a> {
            code: String,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            hint: Option<&'a str>,
        }
        let hint = self.hint.as_deref();
        if is_json {
            print_note_json(&json!({ "error": PrintedError { code: self.code(), message: &self.message, hint } }));
            return;
        }
        print_note(&format!("error: {}", self.message));
        hint.iter().for_each(|hint| print_note(&format!("hint: {hint}")));
    }
}

/// The message without the hint.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Cause::Gone, ""),
            _ => Self::local(format!("{error}.")),
        }
    }
}
