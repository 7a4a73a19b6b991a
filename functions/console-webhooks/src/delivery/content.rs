//! A delivery's payload.

use common::{
    http::page::{Form, pretty, visible},
    timestamp::Timestamp,
    webhooks::delivery::{Delivery, Status},
};
use maud::{Markup, html};

/// The maximum number of payload bytes to show. A Lambda response is limited to 6 MB, and line breaks and escapes can
/// multiply the size of a payload.
const SHOWN_BYTES: usize = 64 * 1024;
/// The limit for a payload with added line breaks and indentation.
const PRETTY_BYTES: usize = 256 * 1024;

pub(super) fn body(payload: Option<&str>) -> Markup {
    let Some(payload) = payload else { return html! { p { "The payload is no longer stored." } } };
    let shown = payload.get(..payload.floor_char_boundary(SHOWN_BYTES)).unwrap_or(payload);
    let (text, is_whole) = pretty(shown, PRETTY_BYTES);
    html! {
        (scrolling("Payload", &text))
        details {
            summary { "Exactly as sent" }
            (scrolling("Exactly as sent", shown))
        }
        @if shown.len() < payload.len() || !is_whole {
            p { "Shortened: the payload has " (payload.len()) " bytes. The API returns the entire payload." }
        }
    }
}

/// The button that erases the delivery, unless its payload is still needed or was already erased.
pub(super) fn erasure(delivery: &Delivery) -> Markup {
    html! {
        @if delivery.erased_at.is_none() && delivery.can_be_erased(Timestamp::now()) {
            details {
                summary { "Erase payload and responses" }
                p {
                    // Only at a pull endpoint can a held delivery be erased.
                    @if delivery.status == Status::Held {
                        "No client has received this delivery. Erasing cancels it: it stays in the list, but can no longer be "
                        "received or resent."
                    } @else { "The delivery stays in the list with its attempts, but can no longer be resent." }
                }
                (Form {
                    button: "Erase payload and responses",
                    is_danger: true,
                    action: "erase",
                    ..Form::default()
                })
            }
        }
    }
}

/// Renders text in a scrollable box. The box is focusable for keyboard users, and therefore needs an accessible name.
pub(super) fn scrolling(name: &str, text: &str) -> Markup {
    html! { pre tabindex="0" role="group" aria-label=(name) { bdi { (visible(text)) } } }
}
