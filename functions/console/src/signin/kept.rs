//! Restores the fields of a form that was submitted after its session had ended, once the user has signed in again.

use common::http::{
    AGAIN, Typed,
    page::{Field, Page, visible},
};
use maud::html;
use url::form_urlencoded;

/// Fields that people do not fill in.
const INNER: [&str; 8] = ["action", "once", "form", "kind", "revision", "ids", "unsaved", AGAIN];

/// The page that restores the fields, unless there are none. `back` is the page of the original form.
pub(super) fn read(form: &Typed, back: Option<&str>) -> Option<Page> {
    let kept = Some(form.get("kept")).filter(|kept| !kept.is_empty())?;
    let back = back?;
    let fields: Vec<(String, String)> = form_urlencoded::parse(kept.as_bytes()).into_owned().collect();
    let typed = fields.iter().filter(|(name, value)| !INNER.contains(&name.as_str()) && !value.is_empty());
    let left_out = |secret: &str| fields.iter().any(|(name, value)| name == AGAIN && value == secret);
    let (headers, own) = (left_out("headers"), left_out("own"));
    let content = html! {
        p { strong { "Nothing was saved or sent." } " Your input was kept. Review it, then submit it again." }
        dl {
            @for (name, value) in typed {
                dt { (visible(&name.replace('_', " "))) }
                dd { bdi .lines { (visible(value)) } }
            }
        }
        form method="post" action=(back) {
            @for (name, value) in fields.iter().filter(|(name, _)| name != AGAIN) {
                input type="hidden" name=(name) value=(value);
            }
            @if headers || own { p { "Secrets are not kept. Enter them again:" } }
            @if headers { (Field::area("headers", "Headers", "").hint("One per line, such as “authorization: Bearer …”").html("", None)) }
            @if own { (Field::text("own", "Your own secret", "off", "").html("", None)) }
            button { "Submit again" }
        }
        p { a href=(back) { "Discard the input" } }
    };
    Some(Page::new("You are signed in again", content))
}
