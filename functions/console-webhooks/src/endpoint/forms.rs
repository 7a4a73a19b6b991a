//! The forms that change an endpoint.

use common::{
    error::Error,
    http::{
        FormValues,
        page::{Field, Form, issues, visible},
    },
    presentation::times,
    timestamp::Timestamp,
    webhooks::{destination::SigningSecret, endpoints::EndpointView},
};
use maud::{Markup, html};

use crate::{
    app::App,
    backlogs::missed,
    chart,
    numbers::{EndpointNumbers, counted, is_rotating},
    settings::{self, SettingsForm, events},
};

/// The choices for the time until the old secret ends, in seconds.
const OVERLAPS: [(&str, &str); 3] = [
    ("0", "No longer: it ends now, for example because it has leaked"),
    ("86400", "For a day"),
    ("604800", "For a week"),
];

/// A rejected form, with the reason.
pub(super) struct RejectedForm<'a> {
    pub(super) form: &'a FormValues,
    pub(super) error: Error,
}

/// All forms. A rejected form is open and shows its error.
pub(super) fn all(app: &App, numbers: &EndpointNumbers, refused: Option<&RejectedForm<'_>>, now: Timestamp) -> Markup {
    let endpoint = &numbers.endpoint;
    let refusal = |action: &str| refused.filter(|refused| refused.form.get("action") == action);
    html! {
        section .manage {
            h2 { "Manage endpoint" }
            (edit(endpoint, refusal("edit")))
            (rotate(app, endpoint, refusal("rotate").map(|refused| &refused.error), now))
            (since(refusal("recover").map(|refused| &refused.error), now))
            (erase(refusal("erase").map(|refused| &refused.error), now))
            (delete(app, numbers, refusal("delete").map(|refused| &refused.error)))
        }
    }
}

fn edit(endpoint: &EndpointView, refused: Option<&RejectedForm<'_>>) -> Markup {
    let headers_hint = if endpoint.header_names.is_empty() {
        "One per line, such as “authorization: Bearer …”. They are not shown again"
    } else {
        "Leave empty to keep the current headers. New values replace all of them. If you change the URL, enter them \
         again"
    };
    let stored = settings::stored(endpoint);
    let values = refused.map_or(&stored, |refused| refused.form);
    let shown = SettingsForm { values, kind: endpoint.kind, is_new: false, headers_hint };
    html! {
        details #edit open[refused.is_some()] {
            summary { "Edit " @if endpoint.url.is_some() { "URL, " } "description, events, workflows, payload and headers" }
            form .fill method="post" action="?" {
                input type="hidden" name="action" value="edit";
                input type="hidden" name="revision" value=(endpoint.revision);
                @if refused.is_some_and(|refused| stale_message(&refused.error).is_some()) { (changed(endpoint)) }
                (shown.fields("edit", refused.map(|refused| &refused.error)))
                @if !endpoint.header_names.is_empty() {
                    (Field::tick("no_headers", "Remove all headers").optional().html("edit", None))
                }
                button { "Save changes" }
            }
        }
    }
}

/// The notice at the top of the page about a form that was rejected because it was out of date. The form itself is much
/// further down.
pub(super) fn stale(error: &Error) -> Markup {
    html! {
        @if let Some(message) = stale_message(error) {
            div .notice.bad #refused tabindex="-1" autofocus role="alert" {
                p { strong { "Not saved. " } (message) ". " a href="#edit" { "Go to the form" } }
            }
        }
    }
}

fn stale_message(error: &Error) -> Option<&str> {
    issues("revision", Some(error)).first().copied()
}

/// The current settings, shown above a form that was opened before they changed.
fn changed(endpoint: &EndpointView) -> Markup {
    html! {
        div .notice.bad {
            p { "Now saved:" }
            ul {
                @if let Some(url) = &endpoint.url { li { "URL: " bdi .mono { (visible(url)) } } }
                li {
                    "Description: "
                    @match &endpoint.options.description { Some(text) => bdi { (visible(text.as_str())) }, None => "none" }
                }
                li { "Events: " (events(endpoint)) }
                @for (name, value) in settings::shown(endpoint) { li { (name) ": " bdi { (visible(&value)) } } }
                @if !endpoint.header_names.is_empty() { li { "Headers: " (endpoint.header_names.join(", ")) } }
            }
        }
    }
}

/// The form that rotates the secret. The form contains the new secret, so submitting it twice rotates the secret only
/// once. It also contains the endpoint's revision, so an old form cannot restore an earlier secret.
fn rotate(app: &App, endpoint: &EndpointView, error: Option<&Error>, now: Timestamp) -> Markup {
    let default = app.rotation_overlap.as_secs().to_string();
    let by_default = format!("For {}", times::length(app.rotation_overlap));
    let is_choice = OVERLAPS.iter().any(|(seconds, _)| *seconds == default);
    let overlaps = (!is_choice).then_some((default.as_str(), by_default.as_str()));
    let overlaps: Vec<_> = overlaps.into_iter().chain(OVERLAPS).collect();
    let ends_at = endpoint.previous_secret_expires_at.filter(|_| is_rotating(endpoint, now));
    html! {
        details open[error.is_some()] {
            summary { "Rotate secret" }
            p {
                "After the rotation, deliveries are signed with both secrets for the time that you choose, so that you can \
                 update your server. The new secret is shown once."
            }
            @if let Some(at) = ends_at {
                div .warning {
                    p {
                        "The old secret also signs deliveries until it ends " (times::when(at, now)) ". If you rotate again, it \
                         stops working immediately."
                    }
                    (Form { action: "end", button: "End the old secret now", is_secondary: true, ..Form::default() })
                }
            }
            (Form {
                action: "rotate",
                button: "Rotate secret",
                hidden: &[
                    ("secret", SigningSecret::generate().reveal()),
                    ("revision", &endpoint.revision.to_string()),
                ],
                fields: &[
                    Field::text("own", "Your own secret", "off", "").optional()
                        .hint("At least 16 characters. Leave empty for a random secret"),
                    Field::select("overlap", "The old secret stays valid", &overlaps, &default),
                ],
                error,
                ..Form::default()
            })
        }
    }
}

fn since(error: Option<&Error>, now: Timestamp) -> Markup {
    let day = times::local(chart::since(now));
    html! {
        details open[error.is_some()] {
            summary { "Recover missed deliveries" }
            p { "If there are more than 20, you will be asked to confirm." }
            (Form {
                action: "recover",
                button: "Recover deliveries",
                fields: &[
                    Field::moment("since", "Created since (UTC)", &day),
                    Field::select(
                        "status",
                        "Deliveries",
                        &[("both", "Failed and held"), ("failed", "Failed"), ("held", "Held"), ("pending", "Pending")],
                        "both",
                    ),
                ],
                error,
                ..Form::default()
            })
        }
    }
}

fn erase(error: Option<&Error>, now: Timestamp) -> Markup {
    let day = times::local(chart::since(now));
    html! {
        details open[error.is_some()] {
            summary { "Erase payloads" }
            p {
                "The payloads and responses of delivered, failed and ended deliveries are erased. The deliveries stay in \
                 the list with their attempts, but can no longer be resent. Pending and held deliveries are left out."
            }
            (Form {
                action: "erase",
                button: "Erase payloads",
                is_danger: true,
                fields: &[
                    Field::moment("since", "Created since (UTC)", &day),
                    Field::moment("until", "Until (UTC)", "").optional(),
                    Field::tick("sure", "Yes, erase them"),
                ],
                error,
                ..Form::default()
            })
        }
    }
}

fn delete(app: &App, numbers: &EndpointNumbers, error: Option<&Error>) -> Markup {
    let (pending, failed, held) = (&numbers.open.pending, &numbers.open.failed, &numbers.open.held);
    html! {
        details open[error.is_some()] {
            summary { "Delete endpoint" }
            @if pending.count > 0 { p { (counted(pending.number(), "pending delivery is", "pending deliveries are")) " canceled." } }
            @if failed.count + held.count > 0 {
                p { strong { (missed(failed, held)) } " can then no longer be resent." }
            }
            p { "Past deliveries stay visible for " (times::length(app.retention.period())) " after their events." }
            (Form {
                action: "delete",
                button: "Delete endpoint",
                is_danger: true,
                fields: &[Field::tick("sure", "Yes, delete this endpoint")],
                error,
                ..Form::default()
            })
        }
    }
}
