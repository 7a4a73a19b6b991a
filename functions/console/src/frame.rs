//! What the pages of the console have in common.

use common::{
    accounts::{organizations::Organization, users::User},
    error::{Error, Result},
    http::{
        Reply, Typed,
        page::{Console, TICKED, alert},
    },
    issue::Problem,
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::app::App;

/// What a page answers to: a link, or a form that was refused.
pub(crate) struct Sent {
    values: Typed,
    /// Why the form was refused.
    pub(crate) refused: Option<Error>,
}

impl Sent {
    pub(crate) fn link(values: Typed) -> Self {
        Self { values, refused: None }
    }

    /// A form that was refused, unless `error` is nothing that the page itself can say.
    ///
    /// # Errors
    /// It is a failure of ours, or has a page of its own: that something does not exist, or that nobody is signed in.
    pub(crate) fn refused(values: Typed, error: Error) -> Result<Self> {
        match error {
            Error::NotFound(_) | Error::Unauthorized => Err(error),
            error if error.is_ours() => Err(error),
            error => Ok(Self { values, refused: Some(error) }),
        }
    }

    /// What was typed into a field of the form that does this. A link types nothing.
    pub(crate) fn typed(&self, action: &str, name: &str) -> &str {
        if self.error(action).is_some() { self.values.get(name) } else { "" }
    }

    /// Why the form that does this was refused.
    pub(crate) fn error(&self, action: &str) -> Option<&Error> {
        self.refused.as_ref().filter(|_| self.values.get("action") == action)
    }

    /// The part of the list that a link asks for, from 0.
    pub(crate) fn part(&self) -> usize {
        self.values.get("part").parse().map_or(0, |part: u16| part.into())
    }

    /// What has been done, of these messages; or why the form of a row was refused. Other forms say that themselves: those of
    /// `forms`.
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

/// Goes on at the page `here` by `GET`, so that a reload sends no form again. The page says what this word stands for.
pub(crate) fn go_on(here: &str, did: &str) -> Reply {
    Reply::Redirect { to: format!("{here}?did={did}"), cookies: Vec::new() }
}

/// The form of a page does nothing that it knows.
pub(crate) const NO_FORM: Error = Error::NotFound("There is no such form");

/// Reads the tick without which nothing dangerous is done.
pub(crate) fn tick(text: &str) -> Result<String, Vec<Problem>> {
    if text == TICKED { Ok(text.to_owned()) } else { Err(vec![Problem::format("Tick this box to go on")]) }
}

/// What somebody is told who has to confirm their email address before they can do something.
pub(crate) fn unverified(what: &str) -> Markup {
    html! {
        div .notice {
            p { "Confirm your email address first: then you can " (what) "." }
            p { a href="/console/account" { "Your account" } }
        }
    }
}

/// A button in the row of a table, behind a fold, so that nobody presses it by mistake.
pub(crate) struct RowForm<'a> {
    pub(crate) fold: &'static str,
    /// What the row is about, for whoever hears the buttons one by one.
    pub(crate) about: &'a str,
    /// What the button does, in a sentence.
    pub(crate) says: &'static str,
    pub(crate) button: &'static str,
    pub(crate) hidden: &'a [(&'static str, &'a str)],
}

impl Render for RowForm<'_> {
    fn render(&self) -> Markup {
        let Self { fold, about, says, button, hidden } = self;
        html! {
            details {
                summary aria-label={ (fold) ": " (about) } { (fold) }
                form method="post" action="?" {
                    p .soft { (says) }
                    @for (name, value) in *hidden { input type="hidden" name=(name) value=(value); }
                    button aria-label={ (button) ": " (about) } { (button) }
                }
            }
        }
    }
}

/// The head of a table with these columns. An empty one has buttons.
pub(crate) fn columns(names: &[&str]) -> Markup {
    html! {
        thead {
            tr { @for name in names { @if name.is_empty() { td {} } @else { th scope="col" { (name) } } } }
        }
    }
}

/// A day, in UTC.
pub(crate) fn day(at: Timestamp) -> Markup {
    let text = at.to_string();
    let day = text.split('T').next().unwrap_or_default();
    html! { time datetime=(day) { (day) } }
}

/// A moment, to the minute.
pub(crate) fn minute(at: Timestamp) -> Markup {
    let text = at.to_string();
    let (day, time) = text.split_once('T').unwrap_or_default();
    html! { time datetime=(text) { (day) " " (time.get(..5).unwrap_or_default()) " UTC" } }
}
