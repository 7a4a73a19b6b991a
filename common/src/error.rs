//! What can go wrong, in the words of the domain. The `http` module alone turns it into a status.

use std::error::Error as StdError;

use crate::{base_url::BaseUrl, issue::Issue, name::Slug};

/// The result of everything that a request can ask for.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request gets no answer of the hoped-for kind. The public half is what the caller is told; the cause
/// inside [`Error::Internal`] goes to the log only.
#[derive(Debug)]
pub enum Error {
    /// The body is not of the form that the route takes.
    Malformed,
    /// The body is well-formed and its content is not: every problem found.
    Invalid(Vec<Issue>),
    /// No, a wrong, or an expired credential.
    Unauthorized,
    /// An API key where only a session will do.
    SessionRequired,
    /// A sign-in with an email and a password that do not belong together.
    WrongPassword,
    /// A good credential that does not reach this far; why.
    Forbidden(Refusal),
    /// What the request names does not exist, or not for this caller; the sentence that says so.
    NotFound(&'static str),
    /// The request contradicts what is stored.
    Conflict(Conflict),
    /// The same thing was tried too often.
    TooMany {
        /// When it may be tried again.
        retry_after_seconds: i64,
    },
    /// Contention or throttling that outlasted the retries: the same request may succeed later.
    Busy,
    /// Our failure: what was being done, and the chain of causes.
    Internal(String),
}

/// A conflict, as `data.reason` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another organization has the slug.
    SlugTaken(Slug),
    /// An account has the email.
    EmailTaken,
    /// The invitation's time is over.
    InvitationExpired,
    /// The invitation was accepted or cancelled before.
    InvitationUsed,
    /// The tenant has as many webhook endpoints as it may.
    EndpointLimit(u32),
}

/// Why a known caller may not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user's email address is not verified yet.
    EmailNotVerified,
    /// Only an owner of the organization may do this.
    OwnersOnly,
    /// A state-changing call came from the page of an origin that is not ours.
    Origin {
        /// Ours.
        expected: BaseUrl,
    },
}

impl Error {
    /// Turns a failure of ours into an [`Error::Internal`] that says what was being done ("reading the user").
    pub fn internal<E: StdError>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Internal(chain(doing, &error))
    }
}

/// What was being done, the error and its causes, on one line. By their `Display`: the `Debug` of an SDK's error holds the
/// whole response.
pub(crate) fn chain(doing: &str, error: &dyn StdError) -> String {
    let mut line = format!("{doing}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line
}
