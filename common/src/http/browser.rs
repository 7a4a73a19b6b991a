//! Replies to browsers whose requests fail: redirects and pages instead of JSON.

use lambda_http::http::Method;
use url::form_urlencoded;

use super::{event::Request, page::Page, reply::Reply, status::HttpError};
use crate::error::{Error, ForbiddenReason};

/// Returns the reply for an error.
pub(super) type ErrorReply = Box<dyn FnOnce(HttpError) -> Reply + Send>;

/// The maximum size of a form that is kept while its sender signs in. It is posted again inside another form, so it is
/// encoded twice.
const MAX_SAVED_FORM_BYTES: usize = 16 * 1024;

/// The fields that contain secrets, which pages never show again.
const SECRETS: [&str; 3] = ["headers", "own", "secret"];
/// The name of the field that names a secret to enter again.
pub const AGAIN: &str = "again";
/// The value of `did` on the sign-in page after a form's input was lost.
pub const LOST: &str = "lost";

/// The input that is lost if the sender of a request has to sign in first.
enum LostInput {
    Nothing,
    /// A form whose fields cannot be restored.
    Form,
    /// The fields of a form, to restore after the sign-in.
    Fields(String),
}

impl LostInput {
    fn of(request: &Request) -> Self {
        match kept(request) {
            Some(fields) => Self::Fields(fields),
            None if request.method == Method::POST => Self::Form,
            None => Self::Nothing,
        }
    }
}

/// Returns a form's fields, so that they can be restored after the sender has signed in again. Returns `None` for a
/// form with a password, because pages never show a password again. Other secrets are omitted; those that the person
/// entered are listed in [`AGAIN`].
fn kept(request: &Request) -> Option<String> {
    if request.method != Method::POST || request.body.is_empty() || request.body.len() > MAX_SAVED_FORM_BYTES {
        return None;
    }
    let is_secret = |name: &str| name.to_ascii_lowercase().contains("password");
    let has_secret = form_urlencoded::parse(&request.body).any(|(name, _)| is_secret(&name));
    if has_secret || std::str::from_utf8(&request.body).is_err() {
        return None;
    }
    let mut kept = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(&request.body).filter(|(name, _)| name != AGAIN) {
        match SECRETS.contains(&name.as_ref()) {
            false => kept.append_pair(&name, &value),
            true if value.is_empty() || name == "secret" => &mut kept,
            true => kept.append_pair(AGAIN, &name),
        };
    }
    Some(kept.finish())
}

/// Prepares the reply to the browser that sent `request`, in case the request fails. A visitor without a session is
/// redirected to the sign-in page and then back, or is shown a sign-in form that restores the fields they sent. A
/// visitor without a verified address is redirected to the page that shows where the link was sent. A visitor who lacks
/// a required second factor is redirected to the page for setting one up.
pub(super) fn error_reply(request: &Request) -> ErrorReply {
    let (back, sent) = (request.target(), LostInput::of(request));
    Box::new(move |error| match error {
        HttpError::Domain(Error::Unauthorized) => {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("next", &back);
            match sent {
                LostInput::Fields(kept) => return Page::of_lost_session(&back, &kept).into(),
                LostInput::Form => _ = query.append_pair("did", LOST),
                LostInput::Nothing => {}
            }
            Reply::redirect(format!("/signin?{}", query.finish()))
        }
        HttpError::Domain(Error::Forbidden(ForbiddenReason::EmailNotVerified)) => Reply::redirect("/console/welcome"),
        HttpError::Domain(Error::Forbidden(ForbiddenReason::TwoFactorRequired)) => {
            Reply::redirect("/console/two-factor")
        }
        error => Page::of(error, back.starts_with("/console")).into(),
    })
}
