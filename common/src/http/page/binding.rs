//! Binds the forms of a console page to the account that the page shows: a user and their organization. By the time a form is
//! submitted, another account may be signed in to the same browser, in another tab, and the form would change that account, or
//! act in its name.

use url::form_urlencoded;

/// The hidden field with the account.
const SHOWN: &str = "shown_account";
/// A part of the tag of every form that changes something. In text, quotation marks are escaped.
const POST: &str = r#"method="post""#;

/// Adds the field to the forms of a page.
pub(super) fn bound(page: &str, account: &str) -> String {
    let mut parts = page.split(POST);
    let mut bound = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Attributes are escaped, so the first bracket ends the tag.
        let (tag, rest) = part.split_once('>').unwrap_or((part, ""));
        let field = [r#"><input type="hidden" name=""#, SHOWN, r#"" value=""#, account, r#"">"#];
        bound.extend([POST, tag].into_iter().chain(field).chain([rest]));
    }
    bound
}

/// Whether the form in `body` is bound to another account.
pub(in crate::http) fn is_bound_to_another(body: &[u8], account: &str) -> bool {
    form_urlencoded::parse(body).any(|(name, value)| name == SHOWN && value != account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_changes_something_is_bound() {
        let page = r#"<form method="get"></form><form method="post" action="?"><b>1</b></form>method=&quot;post&quot;"#;
        let field = r#"<input type="hidden" name="shown_account" value="o">"#;
        let twice = bound(&page.repeat(2), "o");
        assert_eq!(twice.matches(&format!(r#" action="?">{field}<b>"#)).count(), 2);
        assert_eq!(twice.replace(field, ""), page.repeat(2));
    }
}
