//! The fields of a form that was sent after its session had ended. They are restored once the sender has signed in
//! again.

use common::http::{
    Typed,
    page::{Page, visible},
};
use maud::html;
use url::form_urlencoded;

/// Fields that no person has filled in.
const INNER: [&str; 8] = ["action", "once", "form", "kind", "secret", "updated_at", "ids", "unsaved"];
/// Fields that no page shows.
const SECRET: [&str; 2] = ["own", "headers"];

/// The page that restores the fields, unless there are none. `back` is the page of their form.
pub(super) fn read(form: &Typed, back: Option<&str>) -> Option<Page> {
    let kept = Some(form.get("kept")).filter(|kept| !kept.is_empty())?;
    let back = back?;
    let fields: Vec<(String, String)> = form_urlencoded::parse(kept.as_bytes()).into_owned().collect();
    let typed = fields.iter().filter(|(name, value)| !INNER.contains(&name.as_str()) && !value.is_empty());
    let content = html! {
        p { strong { "Nothing was saved or sent." } " Your input was kept. Review it, then submit it again." }
        dl {
            @for (name, value) in typed {
                dt { (visible(&name.replace('_', " "))) }
                dd { @if SECRET.contains(&name.as_str()) { "(secret)" } @else { bdi .lines { (visible(value)) } } }
            }
        }
        form method="post" action=(back) {
            @for (name, value) in &fields { input type="hidden" name=(name) value=(value); }
            button { "Submit again" }
        }
        p { a href=(back) { "Discard the input" } }
    };
    Some(Page::new("You are signed in again", content))
}
