//! Parts that the console's pages share: notices, row forms and table headers.

use common::{
    accounts::{
        invitations::Invited,
        organizations::Organization,
        users::{Role, User},
    },
    error::{Error, Result},
    http::{
        FormValues, Reply,
        page::{Field, Form, TICKED, alert, visible},
    },
    issue::Problem,
    presentation::console::Console,
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::app::App;

/// The request that led to a page: a link or a rejected form.
pub(crate) struct FormRequest {
    values: FormValues,
    /// Why the form was rejected.
    pub(crate) refused: Option<Error>,
}

impl FormRequest {
    pub(crate) fn link(values: FormValues) -> Self {
        Self { values, refused: None }
    }

    /// Wraps a form that was rejected with an error that the form's page can show.
    ///
    /// # Errors
    /// Returns `error` if it is a failure of the service or has its own page: not found, or not signed in.
    pub(crate) fn refused(values: FormValues, error: Error) -> Result<Self> {
        match error {
            Error::NotFound(_) | Error::Unauthorized => Err(error),
            error if error.is_ours() => Err(error),
            error => Ok(Self { values, refused: Some(error) }),
        }
    }

    /// The submitted value of a field in the form for `action`. Empty for a link.
    pub(crate) fn typed(&self, action: &str, name: &str) -> &str {
        if self.error(action).is_some() { self.values.get(name) } else { "" }
    }

    /// Why the form for `action` was rejected.
    pub(crate) fn error(&self, action: &str) -> Option<&Error> {
        self.refused.as_ref().filter(|_| self.values.get("action") == action)
    }

    /// A form for `action`, which shows why it was rejected.
    pub(crate) fn form<'a>(&'a self, action: &'a str, button: &'a str, fields: &'a [Field<'a>]) -> Form<'a> {
        Form { action, button, fields, error: self.error(action), ..Form::default() }
    }

    /// The requested part of a list, starting at 0.
    pub(crate) fn part(&self) -> usize {
        self.values.get("part").parse().map_or(0, |part: u16| part.into())
    }

    /// The notice to show: the message in `done` for the finished action, or the reason why a row's form was rejected.
    /// The forms listed in `forms` show their own errors.
    pub(crate) fn news(&self, done: &[(&str, &str)], forms: &[&str]) -> Markup {
        let did = done.iter().find(|(word, _)| *word == self.values.get("did"));
        match (&self.refused, did) {
            (Some(error), _) if !forms.contains(&self.values.get("action")) => alert(error),
            (None, Some((_, text))) => html! { div .notice.good role="status" { p { (text) } } },
            _ => html! {},
        }
    }
}

/// The frame of the page at `here`.
pub(crate) async fn console(app: &App, user: &User, here: &'static str) -> Result<Console> {
    let Organization { name, .. } = app.organizations.get(&user.organization).await?;
    Ok(Console { organization: name, here })
}

/// Redirects to the page `here` with a `GET`, so a reload does not resubmit the form. `did` selects the notice.
pub(crate) fn redirect_to(here: &str, did: &str) -> Reply {
    Reply::redirect(format!("{here}?did={did}"))
}

/// The error for an unknown `action`.
pub(crate) const NO_FORM: Error = Error::NotFound("Form not found");

/// The button that ends the session.
pub(crate) fn sign_out<'a>() -> Form<'a> {
    Form { to: "/signin", action: "sign-out", button: "Sign out", is_secondary: true, ..Form::default() }
}

/// Reads the checkbox that confirms a dangerous action.
pub(crate) fn tick(text: &str) -> Result<String, Vec<Problem>> {
    if text == TICKED { Ok(text.to_owned()) } else { Err(vec![Problem::format("Check this box to continue")]) }
}

/// A notice for users whose email address is not confirmed. `action` completes the sentence.
pub(crate) fn unverified(action: &str) -> Markup {
    html! {
        div .notice {
            p { "Confirm your email address to " (action) "." }
            p { a href="/console/welcome" { "Resend the email or change the address" } }
        }
    }
}

/// The invitations that a user has received. An unconfirmed address may belong to a stranger.
pub(crate) async fn received(app: &App, user: &User) -> Result<Vec<(Invited, Organization)>> {
    if !user.email_verified {
        return Ok(Vec::new());
    }
    app.invitations.received_at(&user.email, &app.organizations, Timestamp::now()).await
}

/// A notice about the invitations that a user has received, with links to the pages that accept them.
pub(crate) fn invited(received: &[(Invited, Organization)]) -> Markup {
    html! {
        @for (Invited { invitation, .. }, organization) in received {
            @let to = format!("/invite?tenantSlug={}&invitationId={}", organization.slug, invitation.id);
            div .notice {
                p {
                    "You are invited to join " strong { (visible(organization.name.as_str())) } ". "
                    a href=(to) { "View invitation" }
                }
            }
        }
    }
}

/// A button in a table row, initially hidden to prevent accidental clicks.
pub(crate) struct RowForm<'a> {
    pub(crate) fold: &'static str,
    /// The subject of the row, for the buttons' accessible names.
    pub(crate) about: &'a str,
    /// The effect of the button, as a sentence.
    pub(crate) says: &'static str,
    pub(crate) button: &'static str,
    /// Whether the button's action is destructive.
    pub(crate) is_danger: bool,
    pub(crate) hidden: &'a [(&'static str, &'a str)],
}

impl Render for RowForm<'_> {
    fn render(&self) -> Markup {
        let Self { fold, about, says, button, is_danger, hidden } = self;
        let about = visible(about);
        html! {
            details .act {
                summary aria-label={ (fold) ": " (about) } { (fold) }
                form method="post" action="?" {
                    p .soft { (says) }
                    @for (name, value) in *hidden { input type="hidden" name=(name) value=(value); }
                    button .danger[*is_danger] aria-label={ (button) ": " (about) } { (button) }
                }
            }
        }
    }
}

/// A table header. A column of buttons has an empty name.
pub(crate) fn columns(names: &[&str]) -> Markup {
    html! {
        thead {
            tr { @for name in names { @if name.is_empty() { td {} } @else { th scope="col" { (name) } } } }
        }
    }
}

/// The name of a role.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Owner => "Owner",
        Role::Member => "Member",
    }
}
