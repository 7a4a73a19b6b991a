//! The values that describe a route, for the OpenAPI description and the checks against the template.

use api::{account::Scope, audit::Action, error::Reason};
use lambda_http::http::Method;

use crate::error::FactorProblem;

/// One case of a field that determines which other fields are required: the value, a name for this variant of the
/// input, and the required fields.
pub(super) type Case = (&'static str, &'static str, &'static [&'static str]);

/// The header that carries an API key.
pub(super) const API_KEY: &str = "x-api-key";

/// The properties of a route. The binaries of deployed functions omit those that only describe it.
#[derive(Debug)]
pub struct RouteInfo {
    /// `GET`, with the input in the query, or `POST`, with the input in the body. Routes that change state are `POST`s.
    pub method: Method,
    /// The full path, such as `/v1/auth/status`. It may end with a variable.
    pub path: &'static str,
    /// The accepted credentials, in order of precedence.
    pub credentials: &'static [Credential],
    /// The scope that the route requires of a key.
    pub scope: ScopeRequirement,
    /// The route's purpose in one sentence, for the OpenAPI description. A route without a summary is not part of the
    /// API.
    #[cfg(feature = "openapi")]
    pub summary: &'static str,
    /// Further details for callers, in Markdown; may be empty.
    #[cfg(feature = "openapi")]
    pub description: &'static str,
    /// The errors that the route can return, in addition to those common to its kind.
    #[cfg(feature = "openapi")]
    pub errors: &'static [DeclaredError],
    /// Whether a success may be a redirect.
    #[cfg(feature = "openapi")]
    pub redirects: bool,
    /// Whether a user who lacks a required second factor may call the route.
    pub before_two_factor: bool,
    /// The maximum size of the body in bytes.
    pub most_bytes: usize,
    /// The changes by the route that the audit log records.
    pub records: &'static [Action],
}

impl RouteInfo {
    /// The methods that the route serves. A `GET` route also serves `HEAD`, which monitors and link checkers use.
    pub fn methods(&self) -> &'static [&'static str] {
        if self.method == Method::GET { &["GET", "HEAD"] } else { &["POST"] }
    }
}

/// Matches a request's path against a route. Returns the name and value of the variable at the end of the route's path,
/// such as `{id}`; `{proxy+}` also matches slashes. Returns `Some(None)` if the route has no variable, and `None` if
/// the path does not match.
pub(super) fn variable<'a>(route: &'static str, path: &'a str) -> Option<Option<(&'static str, &'a str)>> {
    let Some((before, name)) = route.split_once('{') else { return (path == route).then_some(None) };
    let takes = |value: &&str| !value.is_empty() && (name.ends_with("+}") || !value.contains('/'));
    let value = path.strip_prefix(before).filter(takes)?;
    Some(Some((name.trim_end_matches('}').trim_end_matches('+'), value)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The `x-api-key` header.
    Key,
    /// The session cookie.
    Session,
    /// No credential is required.
    None,
}

/// The scope that a route requires of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeRequirement {
    /// The route declares no scope, so only keys with all scopes may call it. A test finds such routes.
    Undeclared,
    /// No scope.
    Nothing,
    /// This scope.
    Always(Scope),
    /// The first scope for every call, and the second one in addition for the described calls. The handler recognizes
    /// those calls.
    Also(Option<Scope>, Scope, &'static str),
}

impl ScopeRequirement {
    /// The scope that every call with a key requires.
    pub(super) fn always(self) -> Option<Scope> {
        match self {
            Self::Always(scope) | Self::Also(Some(scope), ..) => Some(scope),
            Self::Undeclared | Self::Nothing | Self::Also(None, ..) => None,
        }
    }

    /// All scopes that a call may require.
    pub fn all(self) -> impl Iterator<Item = Scope> {
        let also = if let Self::Also(_, scope, _) = self { Some(scope) } else { None };
        self.always().into_iter().chain(also)
    }
}

/// An error that only some routes return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredError {
    /// 401: the email or the password is wrong.
    WrongPassword,
    /// 400: the password of the signed-in user is wrong.
    InvalidPassword,
    /// 400: a link's token is malformed, unknown, used or expired.
    InvalidToken,
    /// 400 or 401: this problem with the second factor.
    TwoFactor(FactorProblem),
    /// 400: the caller is a program, and only a person can confirm.
    ConfirmationRequired,
    /// 403: the email is not verified yet.
    EmailNotVerified,
    /// 403: only owners may do this.
    OwnersOnly,
    /// 403: the caller is not a member of the organization in the request.
    NotAMember,
    /// 403: the invitation is for another address.
    NotTheRecipient,
    /// 404: the requested object does not exist.
    NotFound,
    Conflict(Reason),
    /// 429: too many attempts.
    TooMany,
}
