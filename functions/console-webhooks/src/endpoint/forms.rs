//! The forms that change an endpoint.

use common::{
    error::Error,
    http::{
        Typed,
        page::{Field, Form},
    },
    timestamp::Timestamp,
    webhooks::{destination::SigningSecret, endpoints::EndpointView},
};
use maud::{Markup, html};

use crate::{chart, settings::Shown, times};

/// A form that was not accepted, and why.
pub(super) struct Refused<'a> {
    pub(super) form: &'a Typed,
    pub(super) error: Error,
}

/// The forms, with what was refused of one of them.
pub(super) fn all(endpoint: &EndpointView, refused: Option<&Refused<'_>>, now: Timestamp) -> Markup {
    let refusal = |action: &str| refused.filter(|refused| refused.form.get("action") == action);
    html! {
        h2 { "Change it" }
        (edit(endpoint, refusal("edit")))
        (rotate(endpoint, refusal("rotate").map(|refused| &refused.error)))
        (since(refusal("recover").map(|refused| &refused.error), now))
        (delete(refusal("delete").map(|refused| &refused.error)))
    }
}

fn edit(endpoint: &EndpointView, refused: Option<&Refused<'_>>) -> Markup {
    let headers_hint = if endpoint.header_names.is_empty() {
        "One on a line, such as “authorization: Bearer …”. They are not shown again"
    } else {
        "Leave this empty to keep those that there are. Other values replace all of them. A new URL needs them again"
    };
    let shown = match refused {
        Some(Refused { form, .. }) => Shown {
            url: endpoint.url.as_ref().map(|_| form.get("url")),
            description: form.get("description"),
            events: Shown::ticked(form),
            headers_hint,
        },
        None => Shown {
            url: endpoint.url.as_deref(),
            description: endpoint.description.as_ref().map_or("", |text| text.as_str()),
            events: Shown::wanted(endpoint.events.as_ref()),
            headers_hint,
        },
    };
    html! {
        details open[refused.is_some()] {
            summary { @if endpoint.url.is_some() { "URL, d" } @else { "D" } "escription, events, headers" }
            form .fill method="post" action="?" {
                input type="hidden" name="action" value="edit";
                (shown.fields("edit", refused.map(|refused| &refused.error)))
                @if !endpoint.header_names.is_empty() {
                    (Field::tick("no_headers", "Remove all its headers").optional().html("edit", None))
                }
                button { "Save" }
            }
        }
    }
}

/// The new secret is made with the form, so that sending the form twice rotates once. The form is for the endpoint as it is: an
/// old form must not bring back a secret that has been rotated away.
fn rotate(endpoint: &EndpointView, error: Option<&Error>) -> Markup {
    html! {
        details open[error.is_some()] {
            summary { "Change the secret" }
            p {
                "From then on, each delivery has a signature of both secrets for a while, so that you can change your server \
                 at your leisure. The new secret is shown once."
            }
            (Form {
                id: "rotate",
                button: "Change the secret",
                hidden: &[
                    ("action", "rotate"),
                    ("secret", SigningSecret::generate().reveal()),
                    ("updated_at", &endpoint.updated_at.to_string()),
                ],
                fields: &[Field::text("own", "A secret of your own", "off", "").optional()
                    .hint("Leave it empty for a random secret")],
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
            summary { "Send again what it missed" }
            (Form {
                id: "recover",
                button: "Send them again",
                hidden: &[("action", "recover")],
                fields: &[
                    Field::moment("since", "Created since (UTC)", &day),
                    Field::select(
                        "status",
                        "Which",
                        &[("both", "Failed and held"), ("failed", "Failed"), ("held", "Held")],
                        "both",
                    ),
                ],
                error,
                ..Form::default()
            })
        }
    }
}

fn delete(error: Option<&Error>) -> Markup {
    html! {
        details open[error.is_some()] {
            summary { "Delete it" }
            p { "What waits for it ends. Its deliveries can still be seen for as long as the log is kept." }
            (Form {
                id: "delete",
                button: "Delete the endpoint",
                is_secondary: true,
                hidden: &[("action", "delete")],
                fields: &[Field::tick("sure", "Yes, delete this endpoint")],
                error,
                ..Form::default()
            })
        }
    }
}
