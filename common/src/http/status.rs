//! Maps errors to HTTP statuses, codes and messages.

use api::{
    account::Scope,
    error::{Code, Reason},
};
use lambda_http::http::StatusCode;

use crate::{
    error::{Conflict, Error, FactorProblem, ForbiddenReason},
    issue::Issue,
};

/// An error from the domain or from HTTP itself.
#[derive(Debug)]
pub enum HttpError {
    Domain(Error),
    /// A request that is not valid HTTP.
    Unreadable,
    /// No route at this path supports this method. Contains the supported ones, for `Allow`.
    Method(String),
    /// The body has more bytes than the route accepts.
    TooLarge {
        most: usize,
    },
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        Self::Domain(error)
    }
}

impl HttpError {
    pub(super) fn status(&self) -> StatusCode {
        status(self.plain_code())
    }

    /// The `code` in the envelope and in the log.
    pub(super) fn code(&self) -> Code {
        envelope_code(self.plain_code())
    }

    /// The code in plain JSON errors. It is more specific than the status, which can have many causes. For a conflict,
    /// plain JSON errors give the reason in upper case instead.
    pub(super) fn plain_code(&self) -> Code {
        match self {
            Self::Unreadable => Code::BadRequest,
            Self::Method(_) => Code::MethodNotSupported,
            Self::TooLarge { .. } => Code::PayloadTooLarge,
            Self::Domain(error) => match error {
                Error::Malformed | Error::Invalid(_) => Code::BadRequest,
                Error::Unauthorized | Error::SessionRequired => Code::Unauthorized,
                Error::WrongPassword => Code::InvalidEmailOrPassword,
                Error::InvalidPassword => Code::InvalidPassword,
                Error::InvalidToken => Code::InvalidToken,
                Error::TwoFactor(problem) => factor_code(*problem),
                Error::ConfirmationRequired { .. } => Code::ConfirmationRequired,
                Error::Forbidden(ForbiddenReason::NotAMember) => Code::NotAMember,
                Error::Forbidden(ForbiddenReason::NotTheRecipient) => Code::NotTheRecipient,
                Error::Forbidden(ForbiddenReason::EmailNotVerified) => Code::EmailNotVerified,
                Error::Forbidden(ForbiddenReason::Origin { .. }) => Code::InvalidOrigin,
                Error::Forbidden(_) => Code::Forbidden,
                Error::NotFound(_) => Code::NotFound,
                Error::Conflict(_) => Code::Conflict,
                Error::TooMany { .. } => Code::TooManyRequests,
                Error::Busy => Code::ServiceUnavailable,
                Error::Internal(_) => Code::InternalServerError,
            },
        }
    }

    /// The `message` for the caller.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Unreadable => "Malformed request. Its host, query, headers or body is not valid HTTP.".to_owned(),
            Self::Method(_) => "This route does not support this method".to_owned(),
            Self::TooLarge { most } => format!("The body must be at most {} KiB", most / 1024),
            Self::Domain(error) => error_message(error),
        }
    }

    /// All issues with an input.
    pub(super) fn issues(&self) -> Option<Vec<Issue>> {
        match self {
            Self::Domain(Error::Invalid(issues)) => Some(issues.clone()),
            _ => None,
        }
    }

    /// The reason for a conflict, or for rejecting a key or a session.
    pub(super) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Domain(Error::Conflict(conflict)) => Some(reason(conflict)),
            Self::Domain(Error::Forbidden(ForbiddenReason::TwoFactorRequired)) => Some(Reason::TwoFactorRequired),
            _ => self.scope().map(|_| Reason::ScopeMissing),
        }
    }

    /// The scope that a key lacks.
    pub(super) fn scope(&self) -> Option<Scope> {
        match self {
            Self::Domain(Error::Forbidden(ForbiddenReason::ScopeMissing(scope))) => Some(*scope),
            _ => None,
        }
    }
}

/// The status of the responses with this code.
pub(super) fn status(code: Code) -> StatusCode {
    match code {
        Code::BadRequest
        | Code::InvalidPassword
        | Code::InvalidToken
        | Code::TotpAlreadyEnabled
        | Code::TotpNotEnabled
        | Code::TwoFactorNotEnabled
        | Code::ConfirmationRequired => StatusCode::BAD_REQUEST,
        // As in Better Auth, an invalid code of a second factor counts as a missing credential.
        Code::Unauthorized
        | Code::InvalidEmailOrPassword
        | Code::InvalidCode
        | Code::InvalidBackupCode
        | Code::InvalidTwoFactorCookie => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::NotAMember | Code::NotTheRecipient | Code::EmailNotVerified | Code::InvalidOrigin => {
            StatusCode::FORBIDDEN
        }
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::MethodNotSupported => StatusCode::METHOD_NOT_ALLOWED,
        Code::Conflict => StatusCode::CONFLICT,
        Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        Code::InternalServerError => StatusCode::INTERNAL_SERVER_ERROR,
        Code::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The code in the envelope, from oRPC's names, for the code in plain JSON.
pub(super) fn envelope_code(code: Code) -> Code {
    match code {
        Code::InvalidPassword | Code::InvalidToken | Code::ConfirmationRequired => Code::BadRequest,
        Code::InvalidEmailOrPassword => Code::Unauthorized,
        Code::NotAMember | Code::NotTheRecipient | Code::EmailNotVerified | Code::InvalidOrigin => Code::Forbidden,
        code => code,
    }
}

/// The message of an error for the caller, without internal causes.
pub(super) fn error_message(error: &Error) -> String {
    match error {
        Error::Malformed => "Malformed request. The body must be JSON of the form {\"json\": {...}}.".to_owned(),
        Error::Invalid(_) => "Input validation failed".to_owned(),
        Error::Unauthorized => "A valid credential is required".to_owned(),
        Error::SessionRequired => "Sign in first: an API key is not enough for this".to_owned(),
        Error::WrongPassword => "Invalid email or password".to_owned(),
        Error::InvalidPassword => "This is not your current password".to_owned(),
        Error::InvalidToken => "This link or its token is not valid: it may have expired or been used".to_owned(),
        Error::TwoFactor(problem) => factor_message(*problem).to_owned(),
        Error::ConfirmationRequired { page } => {
            format!("Nothing was confirmed. Open {page} in a browser, with the same query, and press the button")
        }
        Error::Forbidden(ForbiddenReason::OwnerByKey) => {
            "An API key cannot make a user an owner. Sign in to do that".to_owned()
        }
        Error::Forbidden(ForbiddenReason::ScopeMissing(scope)) => {
            format!("This API key lacks the scope {scope}. Use a key that has it, or sign in")
        }
        Error::Forbidden(ForbiddenReason::NotAUser) => {
            "An organization key does not act for a user. Use a personal key, or sign in".to_owned()
        }
        Error::Forbidden(ForbiddenReason::TwoFactorRequired) => {
            "Two-factor authentication is required for this. Set it up at /console/two-factor".to_owned()
        }
        Error::Forbidden(ForbiddenReason::NotAMember) => "You are not a member of this organization".to_owned(),
        Error::Forbidden(ForbiddenReason::NotTheRecipient) => {
            "This invitation is for another email address. Sign in with that address".to_owned()
        }
        Error::Forbidden(ForbiddenReason::OtherAccount) => {
            "Nothing was saved or sent, because this page showed another account. Open the page again".to_owned()
        }
        Error::Forbidden(ForbiddenReason::OwnersOnly) => "Only an owner of the organization may do this".to_owned(),
        Error::Forbidden(ForbiddenReason::EmailNotVerified) => "Verify your email address first".to_owned(),
        Error::Forbidden(ForbiddenReason::Origin { expected }) => {
            format!("The Origin header must be {expected} or another trusted origin")
        }
        Error::NotFound(message) => (*message).to_owned(),
        Error::Conflict(conflict) => conflict_message(conflict),
        Error::TooMany { retry_after_seconds, limit } => {
            let limit = limit.map_or_else(String::new, |limit| format!(": {limit}"));
            format!("Too many attempts{limit}. Try again in {}", wait(*retry_after_seconds))
        }
        Error::Busy => "The service is busy. Try again in a moment".to_owned(),
        Error::Internal(_) => "Internal server error".to_owned(),
    }
}

pub(super) fn factor_code(problem: FactorProblem) -> Code {
    match problem {
        FactorProblem::WrongCode => Code::InvalidCode,
        FactorProblem::WrongBackupCode => Code::InvalidBackupCode,
        FactorProblem::NoSignIn => Code::InvalidTwoFactorCookie,
        FactorProblem::Enabled => Code::TotpAlreadyEnabled,
        FactorProblem::NoSecret => Code::TotpNotEnabled,
        FactorProblem::NotEnabled => Code::TwoFactorNotEnabled,
    }
}

fn factor_message(problem: FactorProblem) -> &'static str {
    match problem {
        FactorProblem::WrongCode => {
            "This code is not valid, or it was used before. Enter the current code from your authenticator app"
        }
        FactorProblem::WrongBackupCode => "This backup code is not valid, or it was used before",
        FactorProblem::NoSignIn => "This sign-in has expired. Enter your email and password again",
        FactorProblem::Enabled => "Two-factor authentication is already enabled. To set it up again, disable it first",
        FactorProblem::NoSecret => "No authenticator app is set up. Enable two-factor authentication first",
        FactorProblem::NotEnabled => "Two-factor authentication is not enabled",
    }
}

/// A human-readable waiting time: seconds up to two minutes, then minutes, then hours, rounded up.
fn wait(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    let (number, unit) = match seconds {
        0..=120 => (seconds, "second"),
        121..=7_200 => (seconds.div_ceil(60), "minute"),
        _ => (seconds.div_ceil(3_600), "hour"),
    };
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

/// The message in the command-line flow. It includes the first issue, because clients print only the message.
pub(super) fn flow_message(error: &HttpError) -> String {
    match error {
        HttpError::Domain(Error::Malformed) => "The body must be a JSON object".to_owned(),
        HttpError::Domain(Error::Invalid(issues)) => issues.first().map(ToString::to_string).unwrap_or_default(),
        other => other.message(),
    }
}

fn conflict_message(conflict: &Conflict) -> String {
    match conflict {
        Conflict::SlugTaken(slug) => format!("The organization slug \"{slug}\" is already taken"),
        Conflict::EmailTaken => "An account with this email already exists".to_owned(),
        Conflict::EmailSuppressed => {
            "Earlier emails to this address bounced, were reported as spam or were stopped by its owner, so it cannot be \
             invited. Check the address"
                .to_owned()
        }
        Conflict::InvitationExpired => "This invitation has expired".to_owned(),
        Conflict::InvitationUsed => {
            "This invitation was accepted, declined, canceled or replaced by a newer one".to_owned()
        }
        Conflict::LastOwner => {
            let first = "An organization must have an owner: make another member an owner first";
            format!("{first}, or delete your account if you are the only member")
        }
        Conflict::LastMember => "You are the last member of your organization, so it would be deleted when you leave. \
             Send `deleteOrganization` `true` to delete it, or invite another owner first"
            .to_owned(),
        Conflict::AlreadyAMember => "This user is already a member of the organization".to_owned(),
        Conflict::OrganizationChanged => {
            "You have joined another organization in the meantime. Accept the invitation again to leave it".to_owned()
        }
        Conflict::EndpointLimit(limit) => format!("An organization may have at most {limit} webhook endpoints"),
        Conflict::KeyLimit(limit) => format!("An organization may have at most {limit} API keys"),
        Conflict::PayloadNotKept => "The payload of this delivery was not kept, so it cannot be resent".to_owned(),
        Conflict::DeliveryPending => {
            "A delivery that is waiting for an attempt, or that a client is processing, cannot be erased. Try again once \
             it is delivered or has failed"
                .to_owned()
        }
        Conflict::EndpointInactive => {
            "The endpoint is inactive, so its deliveries are held. Enable it to receive them".to_owned()
        }
        Conflict::NotAPullEndpoint => "This endpoint is not a pull endpoint: its deliveries are posted".to_owned(),
        Conflict::PullEndpoint => "A pull endpoint has no url".to_owned(),
        Conflict::HeadersNeeded => {
            "A new url would receive this endpoint's secret headers: also set `headers` (the same, new ones or null)"
                .to_owned()
        }
        Conflict::RecoveryLimit(limit) => {
            format!("An organization may have at most {limit} unfinished recoveries. Wait for some of them to finish")
        }
        Conflict::IdempotencyKeyReused => "This idempotency key was used for a call with different fields".to_owned(),
    }
}

fn reason(conflict: &Conflict) -> Reason {
    match conflict {
        Conflict::SlugTaken(_) => Reason::SlugTaken,
        Conflict::EmailTaken => Reason::EmailTaken,
        Conflict::EmailSuppressed => Reason::EmailSuppressed,
        Conflict::InvitationExpired => Reason::InvitationExpired,
        Conflict::InvitationUsed => Reason::InvitationUsed,
        Conflict::LastOwner => Reason::LastOwner,
        Conflict::LastMember => Reason::LastMember,
        Conflict::AlreadyAMember => Reason::AlreadyAMember,
        Conflict::OrganizationChanged => Reason::OrganizationChanged,
        Conflict::EndpointLimit(_) => Reason::EndpointLimit,
        Conflict::KeyLimit(_) => Reason::KeyLimit,
        Conflict::PayloadNotKept => Reason::PayloadNotKept,
        Conflict::DeliveryPending => Reason::DeliveryPending,
        Conflict::EndpointInactive => Reason::EndpointInactive,
        Conflict::NotAPullEndpoint => Reason::NotAPullEndpoint,
        Conflict::PullEndpoint => Reason::PullEndpoint,
        Conflict::HeadersNeeded => Reason::HeadersNeeded,
        Conflict::RecoveryLimit(_) => Reason::RecoveryLimit,
        Conflict::IdempotencyKeyReused => Reason::IdempotencyKeyReused,
    }
}
