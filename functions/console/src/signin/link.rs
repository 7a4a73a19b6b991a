//! The values that the page's address and hidden fields carry through a sign-in. A link can contain any values.

use common::{
    accounts::{cli_logins::parse_secret, token::Token},
    error::{Error, Result},
    http::FormValues,
    id::CliLoginId,
};
use url::form_urlencoded;

pub(super) const NO_REQUEST: Error = Error::NotFound("Sign-in request not found");

/// The client's request that the page shows, if there is one.
pub(super) fn request(form: &FormValues) -> Option<Result<(CliLoginId, Token)>> {
    if !form.has("cliLoginId") && !form.has("cliLoginSecret") {
        return None;
    }
    let id = CliLoginId::parse(form.get("cliLoginId"));
    let secret = parse_secret(form.get("cliLoginSecret"));
    Some(id.and_then(|id| Ok((id, secret?))).map_err(|_problems| NO_REQUEST))
}

/// The page that the visitor opened before signing in. A link can contain any value, so only console and invitation
/// paths are accepted. This prevents redirects to other sites and to prefilled forms.
pub(super) fn next(form: &FormValues) -> Option<&str> {
    let next = form.get("next");
    if next.starts_with("/invite?") && is_plain(next) { Some(next) } else { console(next) }
}

/// Returns `next` if it is a console address.
pub(super) fn console(next: &str) -> Option<&str> {
    let rest = next.strip_prefix("/console")?;
    let path = rest.split('?').next().unwrap_or_default();
    // Browsers resolve `..`, even if it is percent-encoded, and could thereby leave the console.
    let is_path = (path.is_empty() || path.starts_with('/'))
        && !path.contains("/.")
        && !path.to_ascii_lowercase().contains("%2e");
    (is_path && is_plain(next)).then_some(next)
}

fn is_plain(address: &str) -> bool {
    address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && address.len() <= 2048
}

/// The mode, if it is known. A link can contain any value.
pub(super) fn mode(form: &FormValues) -> &'static str {
    ["signin", "signup"].into_iter().find(|mode| form.get("mode") == *mode).unwrap_or_default()
}

/// The address of the page in this mode, relative to itself.
pub(super) fn address(form: &FormValues, mode: &str) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    let [id, secret] = ["cliLoginId", "cliLoginSecret"].map(|name| (name, form.get(name)));
    let values = [("mode", mode), id, secret, ("next", next(form).unwrap_or_default())];
    query.extend_pairs(values.into_iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

/// The hidden fields of the form for `action`.
pub(super) fn hidden<'a>(form: &'a FormValues, action: &'static str) -> [(&'static str, &'a str); 5] {
    let [id, secret] = ["cliLoginId", "cliLoginSecret"].map(|name| (name, form.get(name)));
    [("action", action), ("mode", mode(form)), id, secret, ("next", next(form).unwrap_or_default())]
}
