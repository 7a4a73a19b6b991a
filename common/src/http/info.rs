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
    /// What callers should know about it besides, in Markdown. It may be empty.
    pub description: &'static str,
    /// The errors it can return, beyond those of every route of its kind.
    pub faults: &'static [Fault],
    /// Whether a success may be a redirect.
    pub redirects: bool,
}

/// The name and the value of the variable at the end of a route's path, such as `{id}`, in the path of a request; `Some(None)`
/// if the route has none, and `None` if this is not a path of the route.
pub(super) fn variable<'a>(route: &'static str, path: &'a str) -> Option<Option<(&'static str, &'a str)>> {
    let Some((before, name)) = route.split_once('{') else { return (path == route).then_some(None) };
    let value = path.strip_prefix(before).filter(|value| !value.is_empty() && !value.contains('/'))?;
    Some(Some((name.trim_end_matches('}'), value)))
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
