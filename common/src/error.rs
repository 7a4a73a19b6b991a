//! The errors of the domain. Only the module `http` maps them to status codes.

use std::error::Error as StdError;

use api::account::Scope;

use crate::{base_url::BaseUrl, issue::Issue, name::Slug};

/// The result of a requested operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed. The cause inside [`Error::Internal`] is logged and not sent to the caller.
///
/// Every function that calls AWS can fail with [`Error::Internal`] or [`Error::Busy`], so `# Errors` sections do not
/// list these two.
#[derive(Debug)]
pub enum Error {
    /// The body is not in the format that the route expects.
    Malformed,
    /// The body is well-formed, but its content is invalid. Contains every issue found.
    Invalid(Vec<Issue>),
    /// A missing, wrong or expired credential.
    Unauthorized,
    /// An API key was used for a call that accepts only a session.
    SessionRequired,
    /// A sign-in with a wrong email or password.
    WrongPassword,
    /// A signed-in user confirmed an action with a wrong password.
    InvalidPassword,
    /// A link's token is malformed, unknown, used or expired.
    InvalidToken,
    /// A problem with a user's second factor.
    TwoFactor(FactorProblem),
    /// A program opened a link that only a person can confirm.
    ConfirmationRequired {
        /// The address of the page with the button.
        page: String,
    },
    /// The credential is valid but does not permit the call, for the given reason.
    Forbidden(ForbiddenReason),
    /// The requested object does not exist or does not belong to the caller's organization. Contains the message, which
    /// names the object.
    NotFound(&'static str),
    /// The request conflicts with stored data.
    Conflict(Conflict),
    /// The rate limit is reached.
    TooMany {
        /// The seconds until a retry can succeed.
        retry_after_seconds: i64,
        /// Whose limit it is, if the caller cannot know.
        limit: Option<&'static str>,
    },
    /// Contention or throttling outlasted the retries. The same request may succeed later.
    Busy,
    /// The service failed. Contains the operation and the chain of causes.
    Internal(String),
}

/// A conflict with stored data. The response reports it as `data.reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another organization has the slug.
    SlugTaken(Slug),
    /// An account with this email address exists.
    EmailTaken,
    /// The address gets only requested emails, because earlier ones bounced or were reported as spam, or because its
    /// owner stopped the organization's emails.
    EmailSuppressed,
    InvitationExpired,
    /// The invitation was already accepted or canceled.
    InvitationUsed,
    /// The organization would have no owner.
    LastOwner,
    /// The user is the last member of their organization, and has not agreed to its deletion.
    LastMember,
    /// The user is already a member of the organization.
    AlreadyAMember,
    /// The user has moved to another organization since the call began.
    OrganizationChanged,
    /// The organization has the maximum number of webhook endpoints.
    EndpointLimit(u32),
    /// The organization has the maximum number of API keys.
    KeyLimit(u32),
    /// The delivery's payload was erased or not kept, so the delivery cannot be resent.
    PayloadNotKept,
    /// The payload cannot be erased, because a pending attempt needs it.
    DeliveryPending,
    /// The endpoint is inactive, so its deliveries are held.
    EndpointInactive,
    /// The endpoint is not a pull endpoint: its deliveries are posted and cannot be received.
    NotAPullEndpoint,
    /// The endpoint is a pull endpoint, which has no URL.
    PullEndpoint,
    /// The new URL would receive the endpoint's custom headers, and the change does not include `headers`.
    HeadersNeeded,
    /// The organization has the maximum number of unfinished recoveries.
    RecoveryLimit(usize),
    /// The idempotency key was used for a call with different fields.
    IdempotencyKeyReused,
}

/// A problem with a user's second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorProblem {
    /// The code from the authenticator app is wrong, outdated or was used before.
    WrongCode,
    /// The backup code is wrong or was used before.
    WrongBackupCode,
    /// No password was entered in the last five minutes, or the sign-in has since been finished or ended.
    NoSignIn,
    /// A second factor is already enabled.
    Enabled,
    /// No secret for an authenticator app was issued.
    NoSecret,
    /// No second factor is enabled.
    NotEnabled,
}

/// Why an authenticated caller may not make the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForbiddenReason {
    /// The user's email address is not verified yet.
    EmailNotVerified,
    /// Only an owner of the organization may make the call.
    OwnersOnly,
    /// The caller used an API key to make a user an owner, which only a session may do.
    OwnerByKey,
    /// The caller used an API key without this scope.
    ScopeMissing(Scope),
    /// The call needs a user, but was made with an organization key, which does not act for a user.
    NotAUser,
    /// The organization requires a second factor that the user has not set up.
    TwoFactorRequired,
    /// The caller is not a member of the organization in the request.
    NotAMember,
    /// The invitation is for an address other than the caller's.
    NotTheRecipient,
    /// A form came from a page that showed another account than the caller's.
    OtherAccount,
    /// A state-changing call came from a page whose origin is not trusted.
    Origin {
        /// This deployment's origin.
        expected: BaseUrl,
    },
}

impl Error {
    /// Whether the service is at fault, so the caller can only retry.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Busy | Self::Internal(_))
    }

    /// Converts another error to an [`Error::Internal`] that names the operation ("reading the user").
    pub fn internal<E: StdError>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Internal(chain(doing, &error))
    }
}

/// Converts an error into a failed invocation, which Lambda retries and an alarm counts.
impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Self {
        match error {
            Error::Internal(cause) => cause.into(),
            error => format!("{error:?}").into(),
        }
    }
}

/// Formats the operation, the error and its causes on one line. Uses `Display`, because the `Debug` form of an SDK
/// error includes the entire response.
pub(crate) fn chain(doing: &str, error: &dyn StdError) -> String {
    let mut line = format!("{doing}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line
}
