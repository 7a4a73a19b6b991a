//! Live updates: a page reloads while something on it is changing, if the visitor has enabled this.

use common::http::{FormValues, page::LIVE_SECONDS};
use maud::{Markup, html};

/// The query parameter, with its description.
pub(crate) const LIVE: (&str, &str) =
    ("live", "`1` reloads the page every few seconds while a delivery is pending or a recovery is in progress.");

/// Whether the visitor has enabled live updates.
pub(crate) fn is_wanted(link: &FormValues) -> bool {
    link.get(LIVE.0) == "1"
}

/// The link that enables or disables live updates, shown while something on the page `is_changing`. `on` and `off` are
/// the addresses of the page with and without live updates.
pub(crate) fn switch(is_wanted: bool, is_changing: bool, on: &str, off: &str) -> Markup {
    html! {
        @match (is_wanted, is_changing) {
            (false, true) => a href=(on) { "Refresh every " (LIVE_SECONDS) " s" },
            (true, true) => span { "Refreshing every " (LIVE_SECONDS) " s. " a href=(off) { "Stop refreshing" } },
            (true, false) => span .soft role="status" { "Nothing is pending, so this page stopped refreshing." },
            (false, false) => "",
        }
    }
}
