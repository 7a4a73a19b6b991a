//! Forms, and the fields in them.

use maud::{Markup, Render, html};

use super::super::status::error_message;
use crate::{
    error::Error,
    issue::{Issue, IssueCode},
};

/// A form, which posts its visible and hidden fields.
#[derive(Default)]
pub struct Form<'a> {
    /// The value of the hidden field `action`, which tells a page's forms apart; empty for a page's only form.
    pub action: &'a str,
    /// The prefix of the field ids, unique per page. The default is `action`.
    pub id: &'static str,
    /// The path that the form posts to; empty for its page's path.
    pub to: &'a str,
    /// The label of the button.
    pub button: &'a str,
    /// The object of the button's action. It is added to the accessible name if several buttons on a page have the same
    /// label.
    pub about: &'a str,
    /// Whether the button is less important than another button on the page.
    pub is_secondary: bool,
    /// Whether the button's action is destructive.
    pub is_danger: bool,
    /// The names and values of the hidden fields. Empty values are omitted.
    pub hidden: &'a [(&'static str, &'a str)],
    pub fields: &'a [Field<'a>],
    /// Content between the fields and the button.
    pub more: Option<&'a Markup>,
    /// The error from the last submission. Issues are shown next to their fields.
    pub error: Option<&'a Error>,
}

impl Render for Form<'_> {
    /// An empty `to` becomes the action `?`, which is the page's path. Without an `action`, the form would post to the
    /// path with the query.
    fn render(&self) -> Markup {
        let hidden = self.hidden.iter().filter(|(_, value)| !value.is_empty());
        let alert = self.error.map(|error| match error {
            Error::Invalid(_) => "Correct the fields marked below.".to_owned(),
            error => format!("{}.", error_message(error)),
        });
        // If the error does not belong to a field, the first field that has to be filled in again gets the focus.
        let focused = self.error.filter(|error| !matches!(error, Error::Invalid(_)));
        let focused = focused.and_then(|_| self.fields.iter().position(|field| field.value.is_empty()));
        let (to, id) =
            (if self.to.is_empty() { "?" } else { self.to }, if self.id.is_empty() { self.action } else { self.id });
        let class = match (self.is_danger, self.is_secondary) {
            (true, _) => Some("danger"),
            (false, true) => Some("secondary"),
            (false, false) => None,
        };
        html! {
            form .fill[!self.fields.is_empty()] method="post" action=(to) {
                @if let Some(alert) = alert { p .error role="alert" { (alert) } }
                @if !self.action.is_empty() { input type="hidden" name="action" value=(self.action); }
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                @for (at, field) in self.fields.iter().enumerate() {
                    @let field = if focused == Some(at) { field.focused() } else { *field };
                    (field.html(id, self.error))
                }
                @if let Some(more) = self.more { (more) }
                button class=[class] aria-label=[(!self.about.is_empty()).then(|| format!("{}: {}", self.button, self.about))] { (self.button) }
            }
        }
    }
}

/// The value of a ticked checkbox. Browsers send nothing for an unticked one.
pub const TICKED: &str = "yes";

/// The kinds of fields that are not `input` elements.
const AREA: &str = "textarea";
const SELECT: &str = "select";
const RADIO: &str = "radio";

/// A value to choose, with its label and hint.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    pub value: &'a str,
    pub label: &'a str,
    pub hint: &'a str,
}

#[derive(Clone, Copy)]
pub struct Field<'a> {
    label: &'static str,
    name: &'static str,
    kind: &'static str,
    autocomplete: &'static str,
    value: &'a str,
    hint: Option<&'static str>,
    is_optional: bool,
    /// Whether the label omits "(optional)", because all fields in the form are optional.
    is_filter: bool,
    options: &'a [(&'a str, &'a str)],
    choices: &'a [Choice<'a>],
    /// The id of a list of suggestions.
    suggestions: Option<&'static str>,
    /// The kind of keyboard to show on a phone.
    keyboard: Option<&'static str>,
    /// Whether the field gets the focus when the page opens.
    is_focused: bool,
}

impl<'a> Field<'a> {
    /// A line of text. Browsers and password managers use `autocomplete` to fill it in.
    pub fn text(name: &'static str, label: &'static str, autocomplete: &'static str, value: &'a str) -> Self {
        Self {
            label,
            name,
            kind: "text",
            autocomplete,
            value,
            hint: None,
            is_optional: false,
            is_filter: false,
            options: &[],
            choices: &[],
            suggestions: None,
            keyboard: None,
            is_focused: false,
        }
    }

    /// Several lines of text.
    pub fn area(name: &'static str, label: &'static str, value: &'a str) -> Self {
        Self { kind: AREA, ..Self::text(name, label, "off", value) }
    }

    /// A choice between several values, each with its label.
    pub fn select(name: &'static str, label: &'static str, options: &'a [(&'a str, &'a str)], value: &'a str) -> Self {
        Self { kind: SELECT, options, ..Self::text(name, label, "off", value) }
    }

    /// A choice between a few values, all visible with their hints.
    pub fn radios(name: &'static str, label: &'static str, choices: &'a [Choice<'a>], value: &'a str) -> Self {
        Self { kind: RADIO, choices, ..Self::text(name, label, "off", value) }
    }

    /// An email address.
    pub fn email(name: &'static str, label: &'static str, autocomplete: &'static str, value: &'a str) -> Self {
        Self { kind: "email", ..Self::text(name, label, autocomplete, value) }
    }

    /// Words to search for.
    pub fn search(name: &'static str, label: &'static str, value: &'a str) -> Self {
        Self { kind: "search", ..Self::text(name, label, "off", value) }
    }

    /// An http or https URL.
    pub fn url(name: &'static str, label: &'static str, value: &'a str) -> Self {
        Self { kind: "url", ..Self::text(name, label, "off", value) }
    }

    /// A time in UTC: `2026-01-31T12:00`.
    pub fn moment(name: &'static str, label: &'static str, value: &'a str) -> Self {
        Self { kind: "datetime-local", ..Self::text(name, label, "off", value) }
    }

    /// The current password. It is never shown again.
    pub fn password(name: &'static str, label: &'static str) -> Self {
        Self { kind: "password", ..Self::text(name, label, "current-password", "") }
    }

    pub fn new_password(name: &'static str, label: &'static str) -> Self {
        Self { autocomplete: "new-password", hint: Some("8 to 128 characters"), ..Self::password(name, label) }
    }

    /// A code from an authenticator app, which password managers fill in.
    pub fn code(name: &'static str, label: &'static str) -> Self {
        let hint = Some("The 6 digits that your authenticator app shows");
        Self { keyboard: Some("numeric"), hint, ..Self::text(name, label, "one-time-code", "") }
    }

    /// A checkbox, which sends [`TICKED`].
    pub fn tick(name: &'static str, label: &'static str) -> Self {
        Self { kind: "checkbox", ..Self::text(name, label, "off", TICKED) }
    }

    /// Adds a hint below the label.
    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Allows the field to be empty.
    pub fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Makes the field a filter. All fields in a form of filters may be empty.
    pub fn filter(self) -> Self {
        Self { is_optional: true, is_filter: true, ..self }
    }

    /// Suggests the texts in the page's `datalist` with this id.
    pub fn suggesting(self, list: &'static str) -> Self {
        Self { suggestions: Some(list), ..self }
    }

    /// Gives the field the focus when the page opens.
    pub fn focused(self) -> Self {
        Self { is_focused: true, ..self }
    }

    /// Renders the field for the form with this id, with the field's issues from `error`.
    pub fn html(&self, form: &str, error: Option<&Error>) -> Markup {
        let Self {
            label,
            name,
            kind,
            autocomplete,
            value,
            hint,
            is_optional,
            is_filter,
            options,
            choices,
            suggestions,
            keyboard,
            is_focused,
        } = *self;
        let id = if form.is_empty() { name.to_owned() } else { format!("{form}-{name}") };
        let issues = issues(name, error);
        let is_wrong = !issues.is_empty();
        // The first invalid field gets the focus, for keyboard and screen reader users.
        let is_first = is_focused || is_first(name, error);
        let (about, wrong) = (format!("{id}-hint"), format!("{id}-error"));
        if kind == "checkbox" {
            return html! {
                div .field {
                    input id=(id) name=(name) type=(kind) value=(value) autocomplete=(autocomplete)
                        aria-describedby=[is_wrong.then_some(&wrong)] aria-invalid=[is_wrong.then_some("true")]
                        required[!is_optional] autofocus[is_first];
                    label for=(id) { (label) }
                    @if is_wrong { p .error id=(wrong) { (issues.join(". ")) "." } }
                }
            };
        }
        if kind == RADIO {
            return html! {
                fieldset .field aria-describedby=[is_wrong.then_some(&wrong)] {
                    legend { (label) }
                    @for Choice { value: choice, label, hint } in choices {
                        @let id = format!("{id}-{choice}");
                        div .choice {
                            input id=(id) name=(name) type=(RADIO) value=(choice) checked[*choice == value] required
                                aria-describedby={ (id) "-hint" };
                            label for=(id) { (label) }
                            p .hint id={ (id) "-hint" } { (hint) }
                        }
                    }
                    @if is_wrong { p .error id=(wrong) { (issues.join(". ")) "." } }
                }
            };
        }
        let described: Vec<&str> =
            [hint.map(|_| about.as_str()), is_wrong.then_some(wrong.as_str())].into_iter().flatten().collect();
        let described = (!described.is_empty()).then(|| described.join(" "));
        let invalid = is_wrong.then_some("true");
        html! {
            div .field {
                label for=(id) { (label) @if is_optional && !is_filter && kind != SELECT { " (optional)" } }
                @if let Some(hint) = hint { p .hint id=(about) { (hint) } }
                @match kind {
                    // Browsers drop a line break at the start of the content.
                    AREA => textarea id=(id) name=(name) autocomplete=(autocomplete) aria-describedby=[described]
                        aria-invalid=[invalid] spellcheck="false" required[!is_optional] autofocus[is_first] { "\n" (value) },
                    SELECT => select id=(id) name=(name) aria-describedby=[described] aria-invalid=[invalid]
                        autofocus[is_first] {
                        @for (option, text) in options {
                            option value=(option) selected[*option == value] { (text) }
                        }
                    },
                    _ => input id=(id) name=(name) type=(kind) value=[(!value.is_empty()).then_some(value)]
                        list=[suggestions] autocomplete=(autocomplete) inputmode=[keyboard] aria-describedby=[described] aria-invalid=[invalid]
                        minlength=[(autocomplete == "new-password").then_some("8")] required[!is_optional]
                        autofocus[is_first];,
                }
                @if is_wrong { p .error id=(wrong) { (issues.join(". ")) "." } }
            }
        }
    }
}

/// Turns an error into an issue with a field, so that a form shows it there.
pub fn beside(field: &str, error: &Error) -> Error {
    let (code, message) = (IssueCode::InvalidFormat, error_message(error));
    Error::Invalid(vec![Issue { code, path: vec![field.to_owned()], message }])
}

/// Whether the first issue belongs to this field.
fn is_first(name: &str, error: Option<&Error>) -> bool {
    let Some(Error::Invalid(issues)) = error else { return false };
    issues.first().and_then(|issue| issue.path.first()).is_some_and(|path| path == name)
}

/// The messages of a field's issues.
pub fn issues<'a>(name: &str, error: Option<&'a Error>) -> Vec<&'a str> {
    match error {
        Some(Error::Invalid(issues)) => {
            let own = issues.iter().filter(|issue| issue.path.first().is_some_and(|path| path == name));
            own.map(|issue| issue.message.as_str()).collect()
        }
        _ => Vec::new(),
    }
}
