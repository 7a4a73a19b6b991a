//! What can go wrong, in terms of the domain. Only the `http` module maps it to status codes.

use std::error::Error as StdError;

use crate::{base_url::BaseUrl, issue::Issue, name::Slug};

/// The result of an operation that a request asks for.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed. The caller sees the public part; the cause inside [`Error::Internal`] only goes to the log.
///
/// Whatever calls AWS can fail with [`Error::Internal`] or [`Error::Busy`], and does not say so again.
#[derive(Debug)]
pub enum Error {
    /// The body does not have the form that the route expects.
    Malformed,
    /// The body is well-formed but its content is invalid: every issue found.
    Invalid(Vec<Issue>),
    /// A missing, wrong or expired credential.
    Unauthorized,
    /// An API key, where only a session is accepted.
    SessionRequired,
    /// A sign-in with a wrong email or password.
    WrongPassword,
    /// The password with which a signed-in user confirms something is not theirs.
    InvalidPassword,
    /// The token of a link is malformed, unknown, used or expired.
    InvalidToken,
    /// A program opened a link that only a person can confirm.
    ConfirmationRequired {
        /// The address of the page with the button.
        page: String,
    },
    /// A valid credential that does not permit this, and why.
    Forbidden(Refusal),
    /// What the request names does not exist, or not for this caller. The message says which.
    NotFound(&'static str),
    /// The request conflicts with what is stored.
    Conflict(Conflict),
    /// The rate limit is reached.
    TooMany {
        /// When to try again.
        retry_after_seconds: i64,
    },
    /// Contention or throttling that outlasted the retries: the same request may succeed later.
    Busy,
    /// Our own failure: what was being done, and the chain of causes.
    Internal(String),
}

/// A conflict, as `data.reason` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another organization has the slug.
    SlugTaken(Slug),
    /// An account has the email.
    EmailTaken,
    /// The invitation has expired.
    InvitationExpired,
    /// The invitation was already accepted or cancelled.
    InvitationUsed,
    /// The organization would have no owner.
    LastOwner,
    /// The tenant has reached its limit of webhook endpoints.
    EndpointLimit(u32),
    /// The organization has the maximum number of API keys.
    KeyLimit(u32),
    /// The payload of the delivery was not kept, so it cannot be sent again.
    PayloadNotKept,
    /// The endpoint is inactive: what comes for it is held.
    EndpointInactive,
    /// Deliveries are posted to the endpoint, and nobody can take them.
    NotAPullEndpoint,
    /// The endpoint is a pull endpoint, and has no URL.
    PullEndpoint,
    /// The endpoint has headers of its own, which would be sent to a new URL.
    HeadersNeeded,
    /// The tenant has the maximum number of unfinished recoveries.
    RecoveryLimit(usize),
    /// The idempotency key was used for a call with other fields.
    IdempotencyKeyReused,
}

/// Why an authenticated caller may not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user's email address is not verified yet.
    EmailNotVerified,
    /// Only an owner of the organization may do this.
    OwnersOnly,
    /// An API key makes nobody an owner.
    OwnerByKey,
    /// The caller is not a member of the organization that the request names.
    NotAMember,
    /// A state-changing call came from a page whose origin is not trusted.
    Origin {
        /// The origin of this deployment.
        expected: BaseUrl,
    },
}

impl Error {
    /// Whether it is a failure of ours, so that whoever called can only try again.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Busy | Self::Internal(_))
    }

    /// Turns an error of ours into an [`Error::Internal`] that says what was being done ("reading the user").
    pub fn internal<E: StdError>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Internal(chain(doing, &error))
    }
}

/// What was being done, the error and its causes, on one line, formatted with `Display`: the `Debug` form of an SDK
/// error includes the whole response.
pub(crate) fn chain(doing: &str, error: &dyn StdError) -> String {
    let mut line = format!("{doing}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line
}
