//! The values that describe a route. The description of the API and the checks against the template read them.

use lambda_http::http::Method;

/// What is known about a route without calling it.
#[derive(Debug)]
pub struct RouteInfo {
    /// `GET`, with the input in the query, or `POST`, with the input in the body. Everything that changes state is a `POST`.
    pub method: Method,
    /// The full path.
    pub path: &'static str,
    /// The credentials it accepts.
    pub credentials: &'static [Credential],
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The errors it can return, beyond those of every route of its kind.
    pub faults: &'static [Fault],
    /// Whether a success may be a redirect.
    pub redirects: bool,
}

/// A kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The `x-api-key` header.
    Key,
    /// The session cookie.
    Session,
    /// None: the route can be called without a credential.
    None,
}

/// An error that only some routes return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 401: the email or the password is wrong.
    WrongPassword,
    /// 400: the password of the user who is signed in is wrong.
    InvalidPassword,
    /// 400: the token of a link is malformed, unknown, used or expired.
    InvalidToken,
    /// 400: the caller is a program, and only a person can confirm.
    ConfirmationRequired,
    /// 403: the email is not verified yet.
    EmailNotVerified,
    /// 403: only owners may do this.
    OwnersOnly,
    /// 403: the request names an organization that the caller is not a member of.
    NotAMember,
    /// 404: what the request names does not exist.
    NotFound,
    /// 409, with this reason.
    Conflict(&'static str),
    /// 429: too many attempts.
    TooMany,
}
